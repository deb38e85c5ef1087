"""The tables of the pipeline and the levels of its source: columns, types and meaning.

A type is Spark's DDL; `Table.arrow()` is the corresponding pyarrow schema, as Spark requires it of a Python data
source. This module imports pyarrow only on demand, and never Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from quorumd.pipeline.tables.meanings import MEANINGS

if TYPE_CHECKING:
    import pyarrow as pa

Row: TypeAlias = dict[str, Any]
"""A row of a table by column name, with Python values of the column types."""
INTS = "ARRAY<INT>"
PACKED = "BINARY"
"""The type of packed lists of ids: 4 bytes per id, little-endian."""
_ENDPOINTS = "ARRAY<STRUCT<name: STRING, host: STRING, port: INT, security: SMALLINT>>"


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `type` is Spark's DDL of a nullable type. Without `doc`, its meaning is in MEANINGS."""

    name: str
    type: str
    doc: str = ""

    @property
    def comment(self) -> str:
        """The comment of the column in Spark and in SQL."""
        return self.doc or MEANINGS[self.name]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns in order."""

    name: str
    doc: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def ddl(self) -> str:
        """The DDL for `.schema(...)` and `CREATE TABLE`, with comments."""
        return ", ".join(
            f"`{column.name}` {column.type} COMMENT '{_escaped(column.comment)}'" for column in self.columns
        )

    def arrow(self) -> pa.Schema:
        """Return the schema for pyarrow."""
        import pyarrow as pa

        return pa.schema([(column.name, arrow_type(column.type)) for column in self.columns])

    def select(self, names: tuple[str, ...]) -> Table:
        """Return the table of only these columns, in this order. Raises KeyError for an unknown column."""
        by_name = {column.name: column for column in self.columns}
        return Table(self.name, self.doc, tuple(by_name[name] for name in names))

    def packed(self) -> Table:
        """Return the table with packed lists of ids, see the option `lists` of the source."""
        columns = (Column(c.name, PACKED if c.type == INTS else c.type, c.doc) for c in self.columns)
        return Table(self.name, self.doc, tuple(columns))


def _escaped(comment: str) -> str:
    return comment.replace("\\", "\\\\").replace("'", "\\'")


@cache
def arrow_type(ddl: str) -> pa.DataType:
    """Return the Arrow type that Spark maps to a DDL type of this module."""
    import pyarrow as pa

    flat = {
        "BIGINT": pa.int64(),
        "INT": pa.int32(),
        "SMALLINT": pa.int16(),
        "TINYINT": pa.int8(),
        "DOUBLE": pa.float64(),
        "BOOLEAN": pa.bool_(),
        "STRING": pa.string(),
        "BINARY": pa.binary(),
        "TIMESTAMP": pa.timestamp("us", "UTC"),
    }
    if ddl.startswith("ARRAY<"):
        return pa.list_(pa.field("element", arrow_type(ddl[len("ARRAY<") : -1])))
    if ddl.startswith("STRUCT<"):
        # Structs of this module have no nested structs with several fields.
        fields = (field.split(": ", 1) for field in ddl[len("STRUCT<") : -1].split(", "))
        return pa.struct([pa.field(name, arrow_type(type_)) for name, type_ in fields])
    return flat[ddl]


_PLACE = (
    Column("node", "INT", "id of the node that has the copy: the ID of the directory, or the live node"),
    Column("segment", "STRING", "name of the file; null for a live node"),
    Column("position", "BIGINT", "position of the batch in its file, in bytes; null for a live node"),
)
_FAULT = Column("fault", "STRING", "the fault at this place, as CODE: text; null for sound rows")

RECORDS = Table(
    "records",
    "A record of the log. Columns that its type lacks are null.",
    (
        *_PLACE,
        Column("offset", "BIGINT"),
        Column("base_offset", "BIGINT", "base offset of its batch"),
        Column("epoch", "INT", "leader epoch of its batch"),
        Column("ts", "TIMESTAMP", "time at which the leader appended the record"),
        Column("control", "BOOLEAN", "whether it is a control record"),
        Column("type", "SMALLINT", "API key of the record, or its control type"),
        Column("type_name", "STRING", "as `log dump` prints it; null for an unknown type"),
        Column("version", "SMALLINT"),
        Column("topic_id", "BINARY"),
        Column("topic", "STRING", "topic name in a TopicRecord"),
        Column("partition", "INT"),
        Column("broker_id", "INT"),
        Column("broker_epoch", "BIGINT"),
        Column("leader", "INT", "leader of the partition, or of the quorum; -1 for none, null if unchanged"),
        Column("leader_epoch", "INT", "leader epoch in a PartitionRecord"),
        Column("partition_epoch", "INT", "partition epoch in a PartitionRecord"),
        Column("replicas", INTS),
        Column("isr", INTS),
        Column("elr", INTS),
        Column("last_known_elr", INTS),
        Column("adding", INTS),
        Column("removing", INTS),
        Column("original_replicas", INTS, "replicas before the ongoing reassignment"),
        Column("recovering", "TINYINT", "leader recovery state: 1 after an unclean election, null if unchanged"),
        Column("directories", "ARRAY<BINARY>", "directory id of each replica"),
        Column("fenced", "TINYINT", "1 if fenced, -1 if unfenced, 0 if unchanged"),
        Column("in_controlled_shutdown", "TINYINT", "1 if a controlled shutdown begins"),
        Column("data", "STRING", "JSON of all fields as `log dump` prints them, for types without columns"),
        Column("raw", "BINARY", "the value if its type or version is unknown or it is malformed"),
        _FAULT,
    ),
)  # fmt: skip

BATCHES = Table(
    "batches",
    "A batch of the log.",
    (
        *_PLACE,
        Column("size", "INT", "size in bytes, including the header"),
        Column("base_offset", "BIGINT"),
        Column("end_offset", "BIGINT", "offset of the last record + 1"),
        Column("records", "INT", "the count in the header"),
        Column("epoch", "INT"),
        Column("ts", "TIMESTAMP", "timestamp of the newest record"),
        Column("control", "BOOLEAN"),
        Column("compression", "TINYINT", "compression type; 0 for none"),
        Column("stored_crc", "BIGINT"),
        Column("crc", "BIGINT", "CRC computed over the bytes, which is compared between replicas"),
        _FAULT,
    ),
)

AUDIT = Table(
    "audit",
    "A summary of a segment, or of a part of it. `kind` is SEGMENT, BUCKET, EPOCH_START (first batch of an epoch) "
    "or CONTROL (a batch of control records), or a code of scan.Fault.",
    (
        Column("node", "INT"),
        Column("segment", "STRING"),
        Column("kind", "STRING"),
        Column("bucket", "BIGINT", "base offset / 65,536 for kind BUCKET"),
        Column("offset_lo", "BIGINT", "first offset"),
        Column("offset_hi", "BIGINT", "end of the offsets, exclusive"),
        Column("position", "BIGINT", "position in the file, in bytes; for kind BUCKET, of its first batch"),
        Column("batches", "BIGINT"),
        Column("records", "BIGINT"),
        Column("bytes", "BIGINT"),
        Column("digest1", "BIGINT", "XOR over batches of a hash of offsets, epoch, computed CRC and size"),
        Column("digest2", "BIGINT", "the same with another hash"),
        Column("epoch_lo", "INT"),
        Column("epoch_hi", "INT"),
        Column("detail", "STRING", "the text of a fault"),
    ),
)  # fmt: skip

SNAPSHOT = Table(
    "snapshot",
    "A record of a snapshot.",
    (
        Column("snapshot_offset", "BIGINT", "its end offset"),
        Column("snapshot_epoch", "INT"),
        *RECORDS.columns,
    ),
)

LEVELS = {table.name: table for table in (RECORDS, BATCHES, AUDIT, SNAPSHOT)}

_CLUSTER = Column("cluster_id", "STRING")
_PARTITION = (
    Column("topic_id", "BINARY"),
    Column("topic", "STRING"),
    Column("partition", "INT"),
)

EVENTS = Table(
    "events",
    "Every record, with the name of its topic.",
    (_CLUSTER, *(c for c in RECORDS.columns if c.name not in ("segment", "position", "fault"))),
)

EPOCHS = Table(
    "epochs",
    "Epochs of the quorum with records.",
    (
        _CLUSTER,
        Column("epoch", "INT"),
        Column("leader_id", "INT"),
        Column("start_offset", "BIGINT"),
        Column("end_offset", "BIGINT", "exclusive; null for the current epoch"),
        Column("start_ts", "TIMESTAMP"),
        Column("end_ts", "TIMESTAMP", "timestamp of the first record of the next epoch"),
        Column("records", "BIGINT"),
        Column("batches", "BIGINT"),
        Column("voters", INTS),
        Column("granting", INTS),
    ),
)

VOTERS = Table(
    "voters",
    "Voter sets and the offsets for which they are valid.",
    (
        _CLUSTER,
        Column("from_offset", "BIGINT"),
        Column("to_offset", "BIGINT", "first offset of the next voter set; null for the current one"),
        Column("epoch", "INT"),
        Column("from_ts", "TIMESTAMP"),
        Column("kraft_version", "SMALLINT"),
        Column("change", "STRING", "added and removed voters, and the target of an ongoing change"),
        Column("voters", INTS),
        Column("directories", "ARRAY<BINARY>", "directory id of each voter"),
        Column("endpoints", "ARRAY<STRING>", "listeners of each voter, as NAME://host:port,..."),
    ),
)

BROKERS = Table(
    "brokers",
    "States of brokers: a row from each event to the next.",
    (
        _CLUSTER,
        Column("broker_id", "INT"),
        Column("broker_epoch", "BIGINT"),
        Column("incarnation_id", "BINARY"),
        Column("rack", "STRING"),
        Column("endpoints", _ENDPOINTS),
        Column("log_dirs", "ARRAY<BINARY>"),
        Column("cordoned_log_dirs", "ARRAY<BINARY>", "directories that receive no new replicas"),
        Column(
            "event",
            "STRING",
            "register, fence, unfence, shutdown, directories, cordon, unregister, snapshot, other",
        ),
        Column("fenced", "BOOLEAN"),
        Column("from_offset", "BIGINT"),
        Column("from_ts", "TIMESTAMP"),
        Column("to_offset", "BIGINT"),
        Column("to_ts", "TIMESTAMP"),
    ),
)

TOPICS = Table(
    "topics",
    "Existing and deleted topics.",
    (
        _CLUSTER,
        Column("topic_id", "BINARY"),
        Column("topic", "STRING"),
        Column("created_offset", "BIGINT"),
        Column("created_ts", "TIMESTAMP"),
        Column("deleted_offset", "BIGINT"),
        Column("deleted_ts", "TIMESTAMP"),
        Column("partitions", "INT"),
    ),
)

PARTITION_STATES = Table(
    "partition_states",
    "States of partitions, each from one record to the next, and their causes.",
    (
        _CLUSTER,
        *_PARTITION,
        Column("from_offset", "BIGINT"),
        Column("from_ts", "TIMESTAMP"),
        Column("to_offset", "BIGINT"),
        Column("to_ts", "TIMESTAMP"),
        Column("epoch", "INT"),
        Column("partition_epoch", "INT"),
        Column("leader_epoch", "INT"),
        Column("leader", "INT", "leader of the partition; -1 for none"),
        Column("replicas", INTS),
        Column("isr", INTS),
        Column("elr", INTS),
        Column("last_known_elr", INTS),
        Column("adding", INTS),
        Column("removing", INTS),
        Column("recovering", "BOOLEAN"),
        Column("cause", "STRING", "the effect of the record, see history.causes"),
        Column("under_replicated", "BOOLEAN", "whether some replicas are not in sync"),
        Column(
            "under_min_isr",
            "BOOLEAN",
            "whether the ISR is below min.insync.replicas at that time, capped by the number of replicas",
        ),
        Column("leader_before", "INT", "leader in the previous state; -1 for none"),
        Column("isr_left", "INT", "number of replicas that left the ISR"),
        Column("isr_joined", "INT", "number of replicas that joined the ISR"),
    ),
)  # fmt: skip

PARTITION_CURRENT = Table(
    "partition_current", "The state of each partition at the end of the history.", PARTITION_STATES.columns
)

LAG = Table(
    "lag",
    "The lag of each node, from the leader or from the copies in directories.",
    (
        _CLUSTER,
        Column("ts", "TIMESTAMP"),
        Column("node_id", "INT"),
        Column("role", "STRING", "leader, voter, observer, or directory"),
        Column("directory_id", "BINARY"),
        Column("log_end_offset", "BIGINT"),
        Column("high_watermark", "BIGINT"),
        Column("lag", "BIGINT", "offsets behind the leader or the most up-to-date copy"),
        Column("last_fetch_ts", "TIMESTAMP"),
        Column("last_caught_up_ts", "TIMESTAMP"),
    ),
)

GAPS = Table(
    "gaps",
    "Offsets that were deleted before they were read: the history has only the snapshot at their end.",
    (
        _CLUSTER,
        Column("from_offset", "BIGINT"),
        Column("to_offset", "BIGINT", "end of the gap, exclusive"),
        Column("from_ts", "TIMESTAMP", "timestamp of the last record before the gap"),
        Column("to_ts", "TIMESTAMP", "timestamp of the last record in the snapshot"),
    ),
)

AUDIT_FINDINGS = Table(
    "audit_findings",
    "Findings of an audit: faults and information.",
    (
        Column("severity", "STRING", "CRITICAL, WARNING or INFO; the exit code is 1 unless all are INFO"),
        Column("code", "STRING"),
        Column("node", "INT"),
        Column("peer", "INT", "the other node of a comparison"),
        Column("segment", "STRING"),
        Column("position", "BIGINT"),
        Column("offset_lo", "BIGINT", "first different or damaged offset"),
        Column("offset_hi", "BIGINT", "end of the different or damaged offsets, exclusive"),
        Column("epoch_lo", "INT"),
        Column("epoch_hi", "INT"),
        Column("committed", "BOOLEAN", "whether offset_lo is provably committed; null if not applicable"),
        Column("detail", "STRING"),
    ),
)

PLAN_MOVES = Table(
    "plan_moves",
    "The changes of a plan, a row per partition.",
    (
        Column("wave", "INT"),
        Column("topic", "STRING"),
        Column("partition", "INT"),
        Column("old", INTS),
        Column("new", INTS),
        Column("adds", INTS),
        Column("removes", INTS),
        Column("leader_old", "INT"),
        Column("leader_new", "INT"),
        Column("bytes", "BIGINT", "bytes to be copied; null without sizes"),
        Column("reason", "STRING"),
    ),
)

PLAN_BROKERS = Table(
    "plan_brokers",
    "The brokers before and after a plan.",
    (
        Column("broker", "INT"),
        Column("rack", "STRING"),
        Column("replicas_before", "INT"),
        Column("replicas_after", "INT"),
        Column("replicas_target", "INT"),
        Column("leaders_before", "INT"),
        Column("leaders_after", "INT"),
        Column("bytes_before", "BIGINT"),
        Column("bytes_after", "BIGINT"),
    ),
)

HISTORY_TABLES = {
    table.name: table
    for table in (EVENTS, EPOCHS, VOTERS, BROKERS, TOPICS, PARTITION_STATES, PARTITION_CURRENT, LAG, GAPS)
}
