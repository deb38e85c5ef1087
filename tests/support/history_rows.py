"""Records of the log as the pipeline's source gives them, made one by one of messages."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from quorumd.cli.log_files import plain
from quorumd.pipeline.history.cluster_fold import ClusterState
from quorumd.pipeline.history.partition_fold import STATES
from quorumd.pipeline.history.partition_rows import RECORD_COLUMNS, Surroundings
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.naive_history import LISTS, Logged

START = datetime(1970, 1, 1, tzinfo=UTC)


def packed(ids: list[int] | None) -> bytes | None:
    return None if ids is None else struct.pack(f"<{len(ids)}i", *ids)


def unpacked(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 4}i", data))


def partition_records(log: Iterable[Logged]) -> Any:
    """Table of RECORD_COLUMNS."""
    rows = [_partition_row(logged) for logged in log if is_of_partition(logged)]
    return pa.Table.from_pylist(rows, schema=RECORD_COLUMNS)


def is_of_partition(logged: Logged) -> bool:
    return isinstance(logged.message, PartitionRecord | PartitionChangeRecord)


def _partition_row(logged: Logged) -> dict[str, Any]:
    message = logged.message
    row = {
        "offset": logged.offset,
        "ts": START + timedelta(microseconds=logged.ts_us),
        "epoch": logged.epoch,
        "type": message.API_KEY,
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
        row |= {"leader_epoch": message.leader_epoch, "partition_epoch": message.partition_epoch}
    return row


def cluster_rows(log: Iterable[Logged], control: bool = False) -> list[dict[str, Any]]:
    """Rows for ClusterState.apply. `control`: they are control records, by their type."""
    return [_cluster_row(logged, control) for logged in log]


def _cluster_row(logged: Logged, control: bool) -> dict[str, Any]:
    message = logged.message
    row: dict[str, Any] = dict.fromkeys(
        (
            "topic_id",
            "topic",
            "broker_id",
            "broker_epoch",
            "leader",
            "fenced",
            "in_controlled_shutdown",
            "data",
        )
    )
    row |= {
        "offset": logged.offset,
        "epoch": logged.epoch,
        "ts": START + timedelta(microseconds=logged.ts_us),
        "control": control,
        "type": message.API_KEY,
    }
    if isinstance(message, TopicRecord):
        row |= {"topic_id": bytes(message.topic_id), "topic": message.name}
    elif isinstance(message, RemoveTopicRecord):
        row["topic_id"] = bytes(message.topic_id)
    else:
        row["data"] = json.dumps(plain(message))
    return row


def no_states() -> Any:
    return STATES.arrow().empty_table()


def surroundings(state: ClusterState, log: list[Logged]) -> Surroundings:
    """Those of a stretch of the log; `state` goes on to its end."""
    around = state.surroundings()
    state.apply(cluster_rows(logged for logged in log if not is_of_partition(logged)), around)
    around.names = {topic_id: row["topic"] for topic_id, row in state.topics.items()}
    return around


def plain_states(table: Any) -> list[dict[str, Any]]:
    """Rows of STATES as NaiveHistory has them."""
    times = {name: pa.int64() for name in ("from_ts", "to_ts")}
    schema = pa.schema([(field.name, times.get(field.name, field.type)) for field in table.schema])
    rows = table.cast(schema).to_pylist()
    return [row | {name: unpacked(row[name]) for name in LISTS} for row in rows]
