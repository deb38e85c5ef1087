"""Fetch as a stock broker of any age sends it for the metadata log: it replicates, and votes never."""

from __future__ import annotations

import datetime
import struct
import uuid
from importlib import import_module
from typing import Any

from tests.support.processes.wire import Wire

VERSIONS = range(12, 19)
BROKER = 4711
METADATA_TOPIC_ID = uuid.UUID(int=1)
DIRECTORY_ID = uuid.UUID(int=0xB40CE4)


def fetch(
    wire: Wire,
    version: int,
    epoch: int,
    offset: int,
    last_epoch: int,
    *,
    max_wait_ms: int = 0,
    high_watermark: int | None = None,
    cluster_id: str | None = None,
    topic: dict[str, Any] | None = None,
) -> Any:
    """The answer to one Fetch. `high_watermark` is what the observer knows, sent from v18 on.

    `topic` instead of the metadata topic: {"topic": name} up to v12, {"topic_id": id} after.
    """
    schema = import_module(f"kio.schema.fetch.v{version}.request")
    partition: dict[str, Any] = {
        "partition": 0,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": last_epoch,
        "log_start_offset": -1,
        "partition_max_bytes": 0,
    }
    if version >= 17:
        partition["replica_directory_id"] = DIRECTORY_ID
    if version >= 18 and high_watermark is not None:
        partition["high_watermark"] = high_watermark
    if topic is None:
        topic = {"topic": "__cluster_metadata"} if version < 13 else {"topic_id": METADATA_TOPIC_ID}
    if version >= 15:
        replica = {"replica_state": schema.ReplicaState(replica_id=BROKER)}
    else:
        replica = {"replica_id": BROKER}
    return wire.ask(
        schema.FetchRequest(
            cluster_id=cluster_id,
            max_wait=datetime.timedelta(milliseconds=max_wait_ms),
            min_bytes=0,
            max_bytes=1024 * 1024,
            session_epoch=-1,
            topics=(schema.FetchTopic(partitions=(schema.FetchPartition(**partition),), **topic),),
            forgotten_topics_data=(),
            **replica,
        )
    )


def partition_of(answer: Any) -> Any:
    """The one partition of an answer without an error at its top."""
    assert answer.error_code == 0, answer
    ((partition,),) = [topic.partitions for topic in answer.responses]
    return partition


def epoch_of(wire: Wire) -> int:
    """The epoch that a node is in, as it tells a stranger whose epoch is too low."""
    return int(partition_of(fetch(wire, 17, 0, 0, 0)).current_leader.leader_epoch)


def end_of(records: bytes) -> tuple[int, int]:
    """End offset and epoch of the last of some whole batches."""
    position = end = epoch = 0
    while position < len(records):
        base, length, epoch = struct.unpack_from(">qii", records, position)
        end = base + struct.unpack_from(">i", records, position + 23)[0] + 1
        position += 12 + length
    assert position == len(records), "the answer ends inside a batch"
    return end, epoch
