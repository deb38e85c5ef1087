"""Records of a log as the pipeline's source returns them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from quorumd.pipeline.decode import decode_records
from quorumd.pipeline.history.cluster_fold import COLUMNS, ClusterState
from quorumd.pipeline.history.partition_fold import STATES
from quorumd.pipeline.history.partition_rows import RECORD_COLUMNS, ReplicaContext
from quorumd.pipeline.history.tables import with_micros
from quorumd.pipeline.scan.batches import scan
from quorumd.pipeline.tables.schemas import RECORDS
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.messages.kraft_version_record import KRaftVersionRecord
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from quorumd.protocol.messages.voters_record import VotersRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from tests.support.history.reference import LISTS, Logged

CONTROL = LeaderChangeMessage | KRaftVersionRecord | VotersRecord | SnapshotHeaderRecord
OF_PARTITIONS = PartitionRecord | PartitionChangeRecord


def log_bytes(log: Iterable[Logged]) -> bytes:
    """Return the bytes of a segment with this log, one batch per record."""
    return b"".join(map(_batch, log))


def _batch(logged: Logged) -> bytes:
    offset, epoch, ts_us, message = logged
    if isinstance(message, CONTROL):
        return encode_control_batch(offset, epoch, ts_us // 1000, [encode_control(message)])
    value = encode_record(message, message.MAX_VERSION)
    return encode_batch(offset, epoch, ts_us // 1000, [value])


def batches(log: list[Logged], rows: int = 100) -> Iterator[Any]:
    """Yield batches of the source's level `records`, with packed lists."""
    for start in range(0, len(log), rows):
        data = log_bytes(log[start : start + rows])
        yield decode_records(data, scan(data).batches, 1, None, None, packed=True)


def partition_records(log: list[Logged]) -> Any:
    """Return a table of RECORD_COLUMNS."""
    found = list(batches([each for each in log if isinstance(each.message, OF_PARTITIONS)]))
    if not found:
        return RECORD_COLUMNS.empty_table()
    return pa.Table.from_batches(found).select(RECORD_COLUMNS.names).cast(RECORD_COLUMNS)


def cluster_rows(log: list[Logged]) -> list[dict[str, Any]]:
    """Return rows for ClusterState.apply."""
    others = [each for each in log if not isinstance(each.message, OF_PARTITIONS)]
    found = [batch.select(COLUMNS) for batch in batches(others)]
    whole = RECORDS.select(COLUMNS).arrow().empty_table() if not found else pa.Table.from_batches(found)
    rows: list[dict[str, Any]] = with_micros(whole).to_pylist()
    return rows


def no_states() -> Any:
    return STATES.arrow().empty_table()


def replica_context(state: ClusterState, log: list[Logged]) -> ReplicaContext:
    """Return the context for a part of the log, and apply the part to `state`."""
    context = state.replica_context()
    state.apply(cluster_rows(log), context)
    context.name({topic_id: topic["topic"] for topic_id, topic in state.topics.items()})
    return context


def plain_states(table: Any) -> list[dict[str, Any]]:
    """Convert rows of STATES, packed or not, to the format of NaiveHistory."""
    times = {name: pa.int64() for name in ("from_ts", "to_ts")}
    schema = pa.schema([(field.name, times.get(field.name, field.type)) for field in table.schema])
    rows: list[dict[str, Any]] = table.cast(schema).to_pylist()
    for each in rows:
        each |= {name: _ids(each[name]) for name in LISTS if isinstance(each[name], bytes)}
        each.pop("cluster_id", None)
    return rows


def _ids(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 4}i", data))
