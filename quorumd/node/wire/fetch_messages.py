"""Translates the engine's fetches to FetchQuorumRecords, between quorumd nodes, and to stock Fetch otherwise.

A stock controller may lead and may follow. Stock Fetch lacks two fields:

    read round   Its requests carry none (-1): see `quorumd.raft.read_index` for how reads are confirmed then.
    IsFollower   A follower that is no longer a voter gets no NOT_FOLLOWER: its log has the change.
"""

from __future__ import annotations

from quorumd.errors import ErrorCode, UnsupportedVersion
from quorumd.ids import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    NO_NODE,
    ZERO_UUID,
    Endpoint,
    KafkaUuid,
    OffsetAndEpoch,
    ReplicaKey,
)
from quorumd.node.wire.quorum_messages import known_error, public_error
from quorumd.protocol.messages import (
    fetch_quorum_records_request,
    fetch_quorum_records_response,
    fetch_request,
    fetch_response,
)
from quorumd.raft.messages import NO_READ_ROUND, FetchRequest, FetchResponse

TOPIC_ID_VERSION = 13
REPLICA_STATE_VERSION = 15
NODE_ENDPOINTS_VERSION = 16
REPLICA_DIRECTORY_VERSION = 17
HIGH_WATERMARK_VERSION = 18
MAX_FETCH_BYTES = 8 * 1024 * 1024
"""Largest response, whatever the request allows: the limit of stock Kafka's Raft client."""
MAX_WAIT_MS = 30_000
"""Longest delay of a fetch, whatever it requests: a delayed fetch is kept even if its connection is closed."""


def fetch_to_wire(
    request: FetchRequest, cluster_id: str | None
) -> fetch_quorum_records_request.FetchQuorumRecordsRequest:
    """Build the request of a follower to its leader."""
    return fetch_quorum_records_request.FetchQuorumRecordsRequest(
        cluster_id,
        request.replica.id,
        request.replica.directory_id,
        request.max_wait_ms,
        request.max_bytes,
        request.epoch,
        request.offset,
        request.last_epoch,
        request.is_follower,
        request.known_high_watermark,
        request.read_round,
        request.token,
    )


def fetch_from_wire(message: fetch_quorum_records_request.FetchQuorumRecordsRequest) -> FetchRequest:
    """Parse a request; size and wait are limited to MAX_FETCH_BYTES and MAX_WAIT_MS."""
    return FetchRequest(
        _replica(message.replica_id, message.replica_directory_id),
        message.leader_epoch,
        message.fetch_offset,
        message.fetch_epoch,
        min(message.max_wait_time_ms, MAX_WAIT_MS),
        min(message.max_bytes, MAX_FETCH_BYTES),
        message.is_follower,
        message.high_watermark,
        message.read_round,
        message.epoch_token,
    )


def fetch_response_to_wire(
    response: FetchResponse, records: bytes, leader: Endpoint | None
) -> fetch_quorum_records_response.FetchQuorumRecordsResponse:
    """Build the response with the batches in `records`; `leader` is the leader's endpoint, if known."""
    wire = fetch_quorum_records_response
    diverging = response.diverging
    # A replica whose fetch succeeds knows the leader's endpoint.
    with_endpoint = leader is not None and response.error is not ErrorCode.NONE
    snapshot = response.snapshot
    return wire.FetchQuorumRecordsResponse(
        int(response.error),
        response.leader_id,
        response.epoch,
        diverging.offset if diverging else -1,
        diverging.epoch if diverging else -1,
        response.high_watermark,
        response.log_start_offset,
        -1,
        response.read_round,
        records,
        [wire.NodeEndpoint(response.leader_id, leader.host, leader.port)] if with_endpoint and leader else [],
        wire.SnapshotId(snapshot.offset, snapshot.epoch) if snapshot else None,
    )


def fetch_response_from_wire(
    message: fetch_quorum_records_response.FetchQuorumRecordsResponse,
) -> FetchResponse | ErrorCode:
    """Parse a response, with its records undecoded; an error code if the engine cannot use it."""
    error = known_error(message.error_code)
    if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return error
    diverging = None
    if message.next_fetch_offset >= 0:
        diverging = OffsetAndEpoch(message.next_fetch_offset, message.next_fetch_offset_epoch)
    snapshot = message.snapshot_id
    return FetchResponse(
        error,
        message.leader_id,
        message.leader_epoch,
        message.high_watermark,
        message.log_start_offset,
        diverging,
        message.read_round,
        records=message.records or b"",
        snapshot=OffsetAndEpoch(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
    )


def stock_fetch_from_wire(message: fetch_request.FetchRequest, version: int) -> FetchRequest | None:
    """Parse a fetch of the metadata log; None if the request names any other partition."""
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        return None
    topic = message.topics[0]
    is_metadata = (
        topic.topic_id == METADATA_TOPIC_ID if version >= TOPIC_ID_VERSION else topic.topic == METADATA_TOPIC
    )
    partition = topic.partitions[0]
    if not is_metadata or partition.partition != METADATA_PARTITION:
        return None
    replica_id = message.replica_state.replica_id if message.replica_state is not None else NO_NODE
    if version < REPLICA_STATE_VERSION:
        replica_id = message.replica_id
    return FetchRequest(
        _replica(replica_id, partition.replica_directory_id),
        partition.current_leader_epoch,
        partition.fetch_offset,
        partition.last_fetched_epoch,
        min(message.max_wait_ms, MAX_WAIT_MS),
        # The partition's own limit is ignored: it is 0 in requests of stock brokers.
        min(message.max_bytes, MAX_FETCH_BYTES),
        False,
        partition.high_watermark,
        NO_READ_ROUND,
    )


def stock_fetch_to_wire(
    request: FetchRequest, cluster_id: str | None, version: int
) -> fetch_request.FetchRequest:
    """Build the request of a follower to a stock leader: one partition, no fetch session.

    Raises UnsupportedVersion for versions without directory ids: at kraft.version 1 the leader would count the voter
    as an observer and never commit the records that it acknowledges.
    """
    if version < REPLICA_DIRECTORY_VERSION:
        raise UnsupportedVersion(
            f"Fetch v{version} has no directory ids; v{REPLICA_DIRECTORY_VERSION} (Kafka 3.9) or later is required"
        )
    wire = fetch_request
    partition = wire.FetchPartition(
        METADATA_PARTITION,
        request.epoch,
        request.offset,
        request.last_epoch,
        replica_directory_id=request.replica.directory_id,
    )
    if version >= HIGH_WATERMARK_VERSION:
        partition.high_watermark = request.known_high_watermark
    return wire.FetchRequest(
        cluster_id,
        replica_state=wire.ReplicaState(request.replica.id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
        topics=[wire.FetchTopic("", METADATA_TOPIC_ID, [partition])],
    )


def stock_fetch_response_from_wire(message: fetch_response.FetchResponse) -> FetchResponse | ErrorCode:
    """Parse a response, with its records undecoded; an error code if the engine cannot use it."""
    if message.error_code != ErrorCode.NONE:
        return known_error(message.error_code)
    if len(message.responses) != 1 or len(message.responses[0].partitions) != 1:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    partition = message.responses[0].partitions[0]
    leader, diverging, snapshot = partition.current_leader, partition.diverging_epoch, partition.snapshot_id
    return FetchResponse(
        known_error(partition.error_code),
        leader.leader_id,
        leader.leader_epoch,
        partition.high_watermark,
        partition.log_start_offset,
        OffsetAndEpoch(diverging.end_offset, diverging.epoch) if diverging.end_offset >= 0 else None,
        records=partition.records or b"",
        snapshot=OffsetAndEpoch(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
    )


def stock_fetch_response_to_wire(
    response: FetchResponse, records: bytes, leader: Endpoint | None, version: int
) -> fetch_response.FetchResponse:
    """Build the response. It contains the leader and, if the version allows, its endpoint, which brokers get only
    from here.

    A leader without a known address is reported as no leader: a stock broker halts on a leader without an endpoint.
    """
    wire = fetch_response
    leader_id = response.leader_id if leader is not None else NO_NODE
    diverging = response.diverging
    partition = wire.PartitionData(
        METADATA_PARTITION,
        public_error(response.error),
        response.high_watermark,
        -1,
        response.log_start_offset,
        wire.EpochEndOffset(diverging.epoch, diverging.offset) if diverging else None,
        wire.LeaderIdAndEpoch(leader_id, response.epoch),
        wire.SnapshotId(response.snapshot.offset, response.snapshot.epoch) if response.snapshot else None,
        records=records,
    )
    endpoints = []
    if leader is not None and version >= NODE_ENDPOINTS_VERSION:
        endpoints = [wire.NodeEndpoint(leader_id, leader.host, leader.port)]
    return wire.FetchResponse(responses=[_metadata_topic(version, partition)], node_endpoints=endpoints)


def stock_fetch_error(message: fetch_request.FetchRequest, version: int) -> fetch_response.FetchResponse:
    """Build the response to a fetch of unknown partitions."""
    by_id = version >= TOPIC_ID_VERSION
    error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wire = fetch_response
    return wire.FetchResponse(
        responses=[
            wire.FetchableTopicResponse(
                topic.topic,
                topic.topic_id,
                [wire.PartitionData(p.partition, int(error), -1) for p in topic.partitions],
            )
            for topic in message.topics
        ]
    )


def _replica(replica_id: int, directory_id: KafkaUuid) -> ReplicaKey:
    """The key of the fetching replica. A negative id is a consumer, whose progress is not tracked (hole 37)."""
    return ReplicaKey(replica_id, directory_id) if replica_id >= 0 else ReplicaKey(NO_NODE)


def _metadata_topic(
    version: int, partition: fetch_response.PartitionData
) -> fetch_response.FetchableTopicResponse:
    if version >= TOPIC_ID_VERSION:
        return fetch_response.FetchableTopicResponse("", METADATA_TOPIC_ID, [partition])
    return fetch_response.FetchableTopicResponse(METADATA_TOPIC, ZERO_UUID, [partition])
