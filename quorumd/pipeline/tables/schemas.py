"""The tables of the pipeline and the levels of its source: columns, types and meaning.

A type is Spark's DDL; `Table.arrow()` is the same for pyarrow, exactly as Spark demands it of a Python data source.
This module imports neither Spark nor pyarrow before it is asked for their types.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

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
    """A column; `type` is Spark's DDL of a nullable type."""

    name: str
    type: str
    doc: str = ""


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
        """The DDL for `.schema(...)` and `CREATE TABLE`."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

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
        # No struct of this module holds another one with several fields.
        fields = (field.split(": ", 1) for field in ddl[len("STRUCT<") : -1].split(", "))
        return pa.struct([pa.field(name, arrow_type(type_)) for name, type_ in fields])
    return flat[ddl]


_PLACE = (
    Column("node", "INT", "whose copy it is: the ID of the folder, or of the node that was asked"),
    Column("segment", "STRING", "name of the file; null when live"),
    Column("position", "BIGINT", "of the batch in its file, in bytes; null when live"),
)
_FAULT = Column("fault", "STRING", "what is wrong at this place, as CODE: text; null on sound rows")

RECORDS = Table(
    "records",
    "A record of the log. What its type does not have is null.",
    (
        *_PLACE,
        Column("offset", "BIGINT"),
        Column("base_offset", "BIGINT", "of its batch"),
        Column("epoch", "INT", "of its batch: the leader's"),
        Column("ts", "TIMESTAMP", "when the leader took it"),
        Column("control", "BOOLEAN", "a record of the quorum itself"),
        Column("type", "SMALLINT", "API key of the record, or its control type"),
        Column("type_name", "STRING", "as `log dump` prints it; null for a type that is not known"),
        Column("version", "SMALLINT"),
        Column("topic_id", "BINARY", "16 bytes"),
        Column("topic", "STRING", "where the record says it (TopicRecord)"),
        Column("partition", "INT"),
        Column("broker_id", "INT"),
        Column("broker_epoch", "BIGINT"),
        Column("leader", "INT", "of a partition, or of the quorum (LeaderChange); -1 for none, null: left as it is"),
        Column("leader_epoch", "INT", "PartitionRecord"),
        Column("partition_epoch", "INT", "PartitionRecord"),
        Column("replicas", INTS),
        Column("isr", INTS),
        Column("elr", INTS),
        Column("last_known_elr", INTS),
        Column("adding", INTS),
        Column("removing", INTS),
        Column("original_replicas", INTS, "before the reassignment under way"),
        Column("recovering", "TINYINT", "leader recovery state: 1 after an unclean election, null: left as it is"),
        Column("directories", "ARRAY<BINARY>", "log directory of each replica"),
        Column("fenced", "TINYINT", "1 fenced, -1 unfenced, 0 unchanged: as in BrokerRegistrationChange"),
        Column("in_controlled_shutdown", "TINYINT", "1 when it began"),
        Column("data", "STRING", "JSON of all fields as `log dump` prints them, for types without columns"),
        Column("raw", "BINARY", "the value, where type or version is not known or it cannot be read"),
        _FAULT,
    ),
)  # fmt: skip

BATCHES = Table(
    "batches",
    "A batch of the log.",
    (
        *_PLACE,
        Column("size", "INT", "in bytes, header included"),
        Column("base_offset", "BIGINT"),
        Column("end_offset", "BIGINT", "of the last record + 1"),
        Column("records", "INT", "how many, as the header says"),
        Column("epoch", "INT"),
        Column("ts", "TIMESTAMP", "of the newest record"),
        Column("control", "BOOLEAN"),
        Column("compression", "TINYINT", "0 is none"),
        Column("stored_crc", "BIGINT"),
        Column("crc", "BIGINT", "computed: replicas are compared by it"),
        _FAULT,
    ),
)

AUDIT = Table(
    "audit",
    "What one reading of a segment, or of a part of it, found. `kind` is SEGMENT, BUCKET, EPOCH_START and CONTROL "
    "(a batch that begins an epoch; one of control records), or a code of scan.Fault.",
    (
        Column("node", "INT"),
        Column("segment", "STRING"),
        Column("kind", "STRING"),
        Column("bucket", "BIGINT", "BUCKET: base offset / 65,536"),
        Column("offset_lo", "BIGINT", "first offset it is about"),
        Column("offset_hi", "BIGINT", "end of the offsets it is about, exclusive"),
        Column("position", "BIGINT", "of what it is about in its file, in bytes; of a bucket's first batch"),
        Column("batches", "BIGINT"),
        Column("records", "BIGINT"),
        Column("bytes", "BIGINT"),
        Column("digest1", "BIGINT", "xor over batches of a hash of offsets, epoch, computed CRC and size"),
        Column("digest2", "BIGINT", "the same of another hash"),
        Column("epoch_lo", "INT"),
        Column("epoch_hi", "INT"),
        Column("detail", "STRING", "of a fault: what is wrong"),
    ),
)  # fmt: skip

SNAPSHOT = Table(
    "snapshot",
    "A record of a snapshot.",
    (
        Column("snapshot_offset", "BIGINT", "end of what it holds"),
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
    "Epochs of the quorum that have records.",
    (
        _CLUSTER,
        Column("epoch", "INT"),
        Column("leader_id", "INT"),
        Column("start_offset", "BIGINT"),
        Column("end_offset", "BIGINT", "exclusive; null while it lasts"),
        Column("start_ts", "TIMESTAMP"),
        Column("end_ts", "TIMESTAMP", "of the first record of the next epoch"),
        Column("records", "BIGINT"),
        Column("batches", "BIGINT"),
        Column("voters", INTS),
        Column("granting", INTS),
    ),
)

VOTERS = Table(
    "voters",
    "Sets of voters, from when to when.",
    (
        _CLUSTER,
        Column("from_offset", "BIGINT"),
        Column("to_offset", "BIGINT", "null for the present one"),
        Column("epoch", "INT"),
        Column("from_ts", "TIMESTAMP"),
        Column("kraft_version", "SMALLINT"),
        Column(
            "change", "STRING", "what was added and removed, and towards which voters a change is under way"
        ),
        Column("voters", INTS),
        Column("directories", "ARRAY<BINARY>", "of each voter"),
        Column("endpoints", "ARRAY<STRING>", "NAME://host:port,... of each voter"),
    ),
)

BROKERS = Table(
    "brokers",
    "What a broker was, from when to when: a row from each event to the next.",
    (
        _CLUSTER,
        Column("broker_id", "INT"),
        Column("broker_epoch", "BIGINT"),
        Column("incarnation_id", "BINARY"),
        Column("rack", "STRING"),
        Column("endpoints", _ENDPOINTS),
        Column("log_dirs", "ARRAY<BINARY>"),
        Column("cordoned_log_dirs", "ARRAY<BINARY>", "those that take no new replicas"),
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
    "Topics that are or were.",
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
    "What a partition was, from which record to which, and why it came to be so.",
    (
        _CLUSTER,
        *_PARTITION,
        Column("from_offset", "BIGINT"),
        Column("from_ts", "TIMESTAMP"),
        Column("to_offset", "BIGINT", "null while it lasts"),
        Column("to_ts", "TIMESTAMP"),
        Column("epoch", "INT", "of the quorum"),
        Column("partition_epoch", "INT"),
        Column("leader_epoch", "INT"),
        Column("leader", "INT", "-1 for none"),
        Column("replicas", INTS),
        Column("isr", INTS),
        Column("elr", INTS),
        Column("last_known_elr", INTS),
        Column("adding", INTS),
        Column("removing", INTS),
        Column("recovering", "BOOLEAN"),
        Column("cause", "STRING", "see history.causes: what the record did"),
        Column("under_replicated", "BOOLEAN", "not all replicas are in sync"),
        Column(
            "under_min_isr",
            "BOOLEAN",
            "fewer in sync than min.insync.replicas of the topic at that time, or than there are replicas if these "
            "are fewer",
        ),
        Column("leader_before", "INT", "who led in the state before; -1 for none"),
        Column("isr_left", "INT", "how many left the ISR with this record"),
        Column("isr_joined", "INT", "how many joined it"),
    ),
)  # fmt: skip

PARTITION_CURRENT = Table(
    "partition_current", "The state of each partition at the end of what was read.", PARTITION_STATES.columns
)

LAG = Table(
    "lag",
    "How far each node was, as the leader said, or as its folder shows.",
    (
        _CLUSTER,
        Column("ts", "TIMESTAMP"),
        Column("node_id", "INT"),
        Column("role", "STRING", "leader, voter, observer, or folder"),
        Column("directory_id", "BINARY"),
        Column("log_end_offset", "BIGINT"),
        Column("high_watermark", "BIGINT"),
        Column("lag", "BIGINT", "offsets behind the leader, or behind the farthest folder"),
        Column("last_fetch_ts", "TIMESTAMP"),
        Column("last_caught_up_ts", "TIMESTAMP"),
    ),
)

GAPS = Table(
    "gaps",
    "Where the log was deleted before it was read. Of these offsets the history knows only what a snapshot says of "
    "their end.",
    (
        _CLUSTER,
        Column("from_offset", "BIGINT"),
        Column("to_offset", "BIGINT", "exclusive"),
        Column("from_ts", "TIMESTAMP", "of the last record before"),
        Column("to_ts", "TIMESTAMP", "of the last record that the snapshot contains"),
    ),
)

AUDIT_FINDINGS = Table(
    "audit_findings",
    "What an audit found wrong, or worth knowing.",
    (
        Column("severity", "STRING", "CRITICAL, WARNING or INFO; only INFO leaves the exit code 0"),
        Column("code", "STRING"),
        Column("node", "INT"),
        Column("peer", "INT", "the other node of a comparison"),
        Column("segment", "STRING"),
        Column("position", "BIGINT"),
        Column("offset_lo", "BIGINT", "first offset that differs or is damaged"),
        Column("offset_hi", "BIGINT", "exclusive"),
        Column("epoch_lo", "INT"),
        Column("epoch_hi", "INT"),
        Column("committed", "BOOLEAN", "offset_lo is provably committed; null where that has no meaning"),
        Column("detail", "STRING"),
    ),
)

PLAN_MOVES = Table(
    "plan_moves",
    "What a plan does with a partition.",
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
        Column("bytes", "BIGINT", "to be copied; null where sizes are not given"),
        Column("reason", "STRING"),
    ),
)

PLAN_BROKERS = Table(
    "plan_brokers",
    "What a plan makes of a broker.",
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
