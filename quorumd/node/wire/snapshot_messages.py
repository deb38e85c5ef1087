"""Translates the engine's snapshot fetches to FetchSnapshot (KIP-630), for quorumd nodes and stock observers."""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, NO_NODE, Endpoint, OffsetAndEpoch, ReplicaKey
from quorumd.node.wire.quorum_messages import known_error, public_error
from quorumd.protocol.messages import fetch_snapshot_request, fetch_snapshot_response
from quorumd.raft.messages import SnapshotRequest, SnapshotResponse

NODE_ENDPOINTS_VERSION = 1


def snapshot_request_to_wire(
    request: SnapshotRequest, cluster_id: str | None, version: int
) -> fetch_snapshot_request.FetchSnapshotRequest:
    """Build the request of a follower to its leader."""
    wire = fetch_snapshot_request
    partition = wire.PartitionSnapshot(
        METADATA_PARTITION,
        request.epoch,
        wire.SnapshotId(request.snapshot.offset, request.snapshot.epoch),
        request.position,
    )
    if version >= NODE_ENDPOINTS_VERSION:
        partition.replica_directory_id = request.replica.directory_id
    topics = [wire.TopicSnapshot(METADATA_TOPIC, [partition])]
    return wire.FetchSnapshotRequest(cluster_id, request.replica.id, request.max_bytes, topics, request.token)


def snapshot_request_from_wire(
    message: fetch_snapshot_request.FetchSnapshotRequest,
) -> SnapshotRequest | None:
    """Parse a request; None if it names any partition other than the metadata log."""
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        return None
    topic = message.topics[0]
    partition = topic.partitions[0]
    if topic.name != METADATA_TOPIC or partition.partition != METADATA_PARTITION:
        return None
    snapshot = partition.snapshot_id
    replica_id = message.replica_id if message.replica_id >= 0 else NO_NODE
    return SnapshotRequest(
        ReplicaKey(replica_id, partition.replica_directory_id),
        partition.current_leader_epoch,
        OffsetAndEpoch(snapshot.end_offset, snapshot.epoch),
        partition.position,
        message.max_bytes,
        message.epoch_token,
    )


def snapshot_response_to_wire(
    response: SnapshotResponse,
    error: ErrorCode,
    size: int,
    data: bytes,
    leader: Endpoint | None,
    version: int,
) -> fetch_snapshot_response.FetchSnapshotResponse:
    """Build the response. It contains the leader and, if the version allows, its endpoint. Snapshot and position
    are repeated from the request: a stock broker halts on any other."""
    wire = fetch_snapshot_response
    leader_id = response.leader_id if leader is not None else NO_NODE
    partition = wire.PartitionSnapshot(
        METADATA_PARTITION,
        public_error(error),
        wire.SnapshotId(response.snapshot.offset, response.snapshot.epoch),
        wire.LeaderIdAndEpoch(leader_id, response.epoch),
        size,
        response.position,
        data,
    )
    message = wire.FetchSnapshotResponse(topics=[wire.TopicSnapshot(METADATA_TOPIC, [partition])])
    if leader is not None and version >= NODE_ENDPOINTS_VERSION:
        message.node_endpoints = [wire.NodeEndpoint(leader_id, leader.host, leader.port)]
    return message


def snapshot_response_from_wire(
    message: fetch_snapshot_response.FetchSnapshotResponse,
) -> SnapshotResponse | ErrorCode:
    """Parse a response; an error code if the engine cannot use it."""
    if message.error_code != ErrorCode.NONE:
        return known_error(message.error_code)
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    partition = message.topics[0].partitions[0]
    leader = partition.current_leader
    snapshot = partition.snapshot_id
    return SnapshotResponse(
        known_error(partition.error_code),
        leader.leader_id,
        leader.leader_epoch,
        OffsetAndEpoch(snapshot.end_offset, snapshot.epoch),
        partition.position,
        size=partition.size,
        data=partition.unaligned_records or b"",
    )


def snapshot_error(
    message: fetch_snapshot_request.FetchSnapshotRequest,
) -> fetch_snapshot_response.FetchSnapshotResponse:
    """Build the response to a fetch of unknown snapshots."""
    wire = fetch_snapshot_response
    error = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return wire.FetchSnapshotResponse(
        topics=[
            wire.TopicSnapshot(
                topic.name,
                [
                    wire.PartitionSnapshot(
                        partition.partition,
                        error,
                        wire.SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
                        wire.LeaderIdAndEpoch(NO_NODE, 0),
                        0,
                        partition.position,
                        b"",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )
