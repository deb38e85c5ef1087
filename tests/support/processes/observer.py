"""Fetch requests for the metadata log, as stock brokers send them in versions 12 to 18."""

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
    """Send one Fetch and return the response. `high_watermark` is the observer's, which is sent from v18 on.

    `topic` replaces the metadata topic: {"topic": name} up to v12, {"topic_id": id} from v13 on.
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
    return wire.request(
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


def partition_of(response: Any) -> Any:
    """Return the only partition of a response without a top-level error."""
    assert response.error_code == 0, response
    ((partition,),) = [topic.partitions for topic in response.responses]
    return partition


def epoch_of(wire: Wire) -> int:
    """Return the epoch of a node, from its response to a Fetch with a lower epoch."""
    return int(partition_of(fetch(wire, 17, 0, 0, 0)).current_leader.leader_epoch)


def end_of(records: bytes) -> tuple[int, int]:
    """Return the end offset and the epoch of the last of these batches."""
    position = end = epoch = 0
    while position < len(records):
        base, length, epoch = struct.unpack_from(">qii", records, position)
        end = base + struct.unpack_from(">i", records, position + 23)[0] + 1
        position += 12 + length
    assert position == len(records), "the response ends inside a batch"
    return end, epoch
