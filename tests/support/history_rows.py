"""Records of the log as the pipeline's source gives them, made one by one of messages."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from quorumd.cli.log_files import plain
from quorumd.pipeline.history.cluster_fold import ClusterState
from quorumd.pipeline.history.partition_fold import STATES
from quorumd.pipeline.history.partition_rows import RECORD_COLUMNS, Surroundings
from quorumd.pipeline.schemas import RECORDS
from quorumd.protocol.control_record import control_type, encode_control
from quorumd.protocol.messages.kraft_version_record import KRaftVersionRecord
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.voters_record import VotersRecord
from tests.support.naive_history import LISTS, Logged

START = datetime(1970, 1, 1, tzinfo=UTC)
CONTROL = LeaderChangeMessage | KRaftVersionRecord | VotersRecord | SnapshotHeaderRecord
OF_PARTITIONS = PartitionRecord | PartitionChangeRecord


def packed(ids: list[int] | None) -> bytes | None:
    return None if ids is None else struct.pack(f"<{len(ids)}i", *ids)


def unpacked(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 4}i", data))


def row(logged: Logged) -> dict[str, Any]:
    """With the columns of the records level, lists packed. A record is a batch of its own."""
    message = logged.message
    control = isinstance(message, CONTROL)
    found: dict[str, Any] = dict.fromkeys(RECORDS.names)
    found |= {
        "node": 1,
        "offset": logged.offset,
        "base_offset": logged.offset,
        "epoch": logged.epoch,
        "ts": START + timedelta(microseconds=logged.ts_us),
        "control": control,
        "type": control_type(encode_control(message)[0]) if control else message.API_KEY,
        "type_name": message.NAME,
    }
    if isinstance(message, OF_PARTITIONS):
        return found | partition_columns(message)
    if isinstance(message, TopicRecord):
        return found | {"topic_id": bytes(message.topic_id), "topic": message.name}
    if isinstance(message, RemoveTopicRecord):
        return found | {"topic_id": bytes(message.topic_id)}
    return found | {"data": json.dumps(plain(message))}


def partition_columns(message: OF_PARTITIONS) -> dict[str, Any]:
    found = {
        "topic_id": bytes(message.topic_id),
        "partition": message.partition_id,
        "leader": message.leader,
        "recovering": message.leader_recovery_state,
        "replicas": packed(message.replicas),
        "isr": packed(message.isr),
        "elr": packed(message.eligible_leader_replicas),
        "last_known_elr": packed(message.last_known_elr),
        "adding": packed(message.adding_replicas),
        "removing": packed(message.removing_replicas),
    }
    if isinstance(message, PartitionRecord):
        found |= {"leader_epoch": message.leader_epoch, "partition_epoch": message.partition_epoch}
    return found


def batches(log: list[Logged], rows: int = 100) -> Iterator[Any]:
    """RecordBatches of the records level."""
    schema = RECORDS.packed().arrow()
    for start in range(0, len(log), rows):
        yield pa.RecordBatch.from_pylist([row(logged) for logged in log[start : start + rows]], schema=schema)


def partition_records(log: Iterable[Logged]) -> Any:
    """Table of RECORD_COLUMNS."""
    rows = [row(logged) for logged in log if isinstance(logged.message, OF_PARTITIONS)]
    return pa.Table.from_pylist(rows, schema=RECORD_COLUMNS)


def no_states() -> Any:
    return STATES.arrow().empty_table()


def surroundings(state: ClusterState, log: list[Logged]) -> Surroundings:
    """Those of a stretch of the log; `state` goes on to its end."""
    around = state.surroundings()
    state.apply((row(logged) for logged in log if not isinstance(logged.message, OF_PARTITIONS)), around)
    around.names = {topic_id: topic["topic"] for topic_id, topic in state.topics.items()}
    return around


def plain_states(table: Any) -> list[dict[str, Any]]:
    """Rows of STATES, packed or not, as NaiveHistory has them."""
    times = {name: pa.int64() for name in ("from_ts", "to_ts")}
    schema = pa.schema([(field.name, times.get(field.name, field.type)) for field in table.schema])
    rows: list[dict[str, Any]] = table.cast(schema).to_pylist()
    for each in rows:
        each |= {name: unpacked(each[name]) for name in LISTS if isinstance(each[name], bytes)}
        each.pop("cluster_id", None)
    return rows
