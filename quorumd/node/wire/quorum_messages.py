"""Translates the engine's messages to Vote, BeginQuorumEpoch and EndQuorumEpoch, and back.

The wire format nests all fields in topics and partitions (the draft's "multi-raft"); there is one log, so exactly one
partition of one topic is expected and written (hole 42).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

from quorumd.errors import ErrorCode, UnsupportedVersion
from quorumd.ids import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    NO_NODE,
    ZERO_UUID,
    Endpoint,
    OffsetAndEpoch,
    ReplicaKey,
)
from quorumd.protocol.messages import (
    begin_quorum_epoch_request,
    begin_quorum_epoch_response,
    end_quorum_epoch_request,
    end_quorum_epoch_response,
    vote_request,
    vote_response,
)
from quorumd.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    LeaderResponse,
    VoteRequest,
    VoteResponse,
)

PRE_VOTE_VERSION = 2
ERRORS_BY_CODE = {int(code): code for code in ErrorCode}


class Partition(Protocol):
    """A partition of a request."""

    @property
    def partition_index(self) -> int: ...


P_co = TypeVar("P_co", bound=Partition, covariant=True)


class Topic(Protocol[P_co]):
    """A topic of a request."""

    @property
    def topic_name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[P_co]: ...


def only_partition(topics: Sequence[Topic[P_co]]) -> P_co | None:
    """The partition of the metadata log, None if the request names any other."""
    if len(topics) != 1 or topics[0].topic_name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if partition.partition_index == METADATA_PARTITION else None


MAX_NAMED: Final = 100
"""Topics and partitions in a request; there is only one partition."""


class HasPartitions(Protocol):
    """A topic of any request."""

    @property
    def partitions(self) -> Sequence[object]: ...


def names_too_many(topics: Sequence[HasPartitions]) -> bool:
    """Whether a request names more than MAX_NAMED topics and partitions, so that it gets a single error."""
    first = topics[: MAX_NAMED + 1]
    return len(first) + sum(len(topic.partitions) for topic in first) > MAX_NAMED


def error_topics(module: Any, topics: Sequence[Topic[Partition]], error: ErrorCode) -> list[Any]:
    """The topics of a request with an error in every partition, in the response classes of `module`; none if it names
    too many."""
    if names_too_many(topics):
        return []
    return [
        module.TopicData(
            topic.topic_name,
            [module.PartitionData(partition.partition_index, int(error)) for partition in topic.partitions],
        )
        for topic in topics
    ]


def public_error(error: ErrorCode) -> int:
    """The error code for a response that a stock peer may parse, which never carries the private NOT_FOLLOWER."""
    return int(ErrorCode.INVALID_REQUEST if error is ErrorCode.NOT_FOLLOWER else error)


def known_error(number: int) -> ErrorCode:
    """The error code of a response; an unknown number becomes UNKNOWN_SERVER_ERROR."""
    return ERRORS_BY_CODE.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


def vote_from_wire(message: vote_request.VoteRequest, partition: vote_request.PartitionData) -> VoteRequest:
    return VoteRequest(
        partition.replica_epoch,
        ReplicaKey(partition.replica_id, partition.replica_directory_id),
        ReplicaKey(message.voter_id, partition.voter_directory_id),
        OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch),
        partition.pre_vote,
    )


def vote_to_wire(request: VoteRequest, cluster_id: str | None, version: int) -> vote_request.VoteRequest:
    """Build a request. Raises UnsupportedVersion for a pre-vote in a version without that field, in which it would be
    a real vote (hole 11)."""
    if request.pre_vote and version < PRE_VOTE_VERSION:
        raise UnsupportedVersion(f"Vote v{version} has no pre-vote")
    partition = vote_request.PartitionData(
        METADATA_PARTITION,
        request.epoch,
        request.candidate.id,
        request.candidate.directory_id,
        request.voter.directory_id,
        request.last.epoch,
        request.last.offset,
        request.pre_vote,
    )
    return vote_request.VoteRequest(
        cluster_id, request.voter.id, [vote_request.TopicData(METADATA_TOPIC, [partition])]
    )


def vote_response_to_wire(response: VoteResponse, leader: Endpoint | None) -> vote_response.VoteResponse:
    partition = vote_response.PartitionData(
        METADATA_PARTITION, public_error(response.error), response.leader_id, response.epoch, response.granted
    )
    endpoints = [vote_response.NodeEndpoint(response.leader_id, leader.host, leader.port)] if leader else []
    return vote_response.VoteResponse(0, [vote_response.TopicData(METADATA_TOPIC, [partition])], endpoints)


def vote_response_from_wire(message: vote_response.VoteResponse) -> VoteResponse | ErrorCode:
    """Parse a response; returns the top-level error if the response has no partition."""
    partition = only_partition(message.topics)
    if message.error_code or partition is None:
        return known_error(message.error_code or ErrorCode.UNKNOWN_SERVER_ERROR)
    return VoteResponse(
        known_error(partition.error_code), partition.leader_id, partition.leader_epoch, partition.vote_granted
    )


def begin_from_wire(
    message: begin_quorum_epoch_request.BeginQuorumEpochRequest,
    partition: begin_quorum_epoch_request.PartitionData,
) -> BeginEpochRequest:
    """Parse a request; fields that version 0 lacks have their defaults."""
    return BeginEpochRequest(
        partition.leader_id,
        partition.leader_epoch,
        ReplicaKey(message.voter_id, partition.voter_directory_id),
        tuple(Endpoint(e.name, e.host, e.port) for e in message.leader_endpoints),
        message.boot_timestamp,
        message.epoch_token,
    )


def begin_to_wire(
    request: BeginEpochRequest, cluster_id: str | None, version: int
) -> begin_quorum_epoch_request.BeginQuorumEpochRequest:
    """Build a request; version 0 has no directory ids and no endpoints."""
    wire = begin_quorum_epoch_request
    has_directories = version >= 1
    partition = wire.PartitionData(
        METADATA_PARTITION,
        request.voter.directory_id if has_directories else ZERO_UUID,
        request.leader_id,
        request.epoch,
    )
    return wire.BeginQuorumEpochRequest(
        cluster_id,
        request.voter.id if has_directories else NO_NODE,
        [wire.TopicData(METADATA_TOPIC, [partition])],
        [wire.LeaderEndpoint(*endpoint) for endpoint in request.endpoints] if has_directories else [],
        request.boot_timestamp,
        request.token if has_directories else 0,
    )


def end_from_wire(
    message: end_quorum_epoch_request.EndQuorumEpochRequest,
    partition: end_quorum_epoch_request.PartitionData,
) -> EndEpochRequest:
    """Parse a request. The sender is tagged field 10000; without it the sender is the leader, as in stock Kafka."""
    del message
    successors = [
        ReplicaKey(c.candidate_id, c.candidate_directory_id) for c in partition.preferred_candidates
    ]
    successors += [ReplicaKey(voter_id) for voter_id in partition.preferred_successors]
    sender = partition.replica_id if partition.replica_id != NO_NODE else partition.leader_id
    return EndEpochRequest(partition.leader_id, partition.leader_epoch, sender, tuple(successors))


def end_to_wire(
    request: EndEpochRequest, cluster_id: str | None, version: int, endpoints: Sequence[Endpoint]
) -> end_quorum_epoch_request.EndQuorumEpochRequest:
    """Build a request; version 0 has successors without directory ids, and no endpoints."""
    wire = end_quorum_epoch_request
    partition = wire.PartitionData(METADATA_PARTITION, request.leader_id, request.epoch)
    if version >= 1:
        partition.preferred_candidates = [wire.ReplicaInfo(*successor) for successor in request.successors]
        partition.replica_id = request.sender_id
    else:
        partition.preferred_successors = [successor.id for successor in request.successors]
    return wire.EndQuorumEpochRequest(
        cluster_id,
        [wire.TopicData(METADATA_TOPIC, [partition])],
        [wire.LeaderEndpoint(*endpoint) for endpoint in endpoints] if version >= 1 else [],
    )


def leader_response_to_wire(
    module: Any, response: LeaderResponse, leader: Endpoint | None, version: int
) -> begin_quorum_epoch_response.BeginQuorumEpochResponse | end_quorum_epoch_response.EndQuorumEpochResponse:
    """Build the response to BeginQuorumEpoch or EndQuorumEpoch, which have the same fields."""
    partition = module.PartitionData(
        METADATA_PARTITION, public_error(response.error), response.leader_id, response.epoch
    )
    endpoints = (
        [module.NodeEndpoint(response.leader_id, leader.host, leader.port)] if leader and version >= 1 else []
    )
    topics = [module.TopicData(METADATA_TOPIC, [partition])]
    if module is begin_quorum_epoch_response:
        knows_tokens = response.knows_tokens and version >= 1
        return begin_quorum_epoch_response.BeginQuorumEpochResponse(0, topics, endpoints, knows_tokens)
    return end_quorum_epoch_response.EndQuorumEpochResponse(0, topics, endpoints)


def leader_response_from_wire(
    message: begin_quorum_epoch_response.BeginQuorumEpochResponse
    | end_quorum_epoch_response.EndQuorumEpochResponse,
) -> LeaderResponse | ErrorCode:
    """The flat response, or its top-level error if it has no partition."""
    topics: Sequence[
        Topic[begin_quorum_epoch_response.PartitionData | end_quorum_epoch_response.PartitionData]
    ] = message.topics
    partition = only_partition(topics)
    if message.error_code or partition is None:
        return known_error(message.error_code or ErrorCode.UNKNOWN_SERVER_ERROR)
    knows_tokens = (
        isinstance(message, begin_quorum_epoch_response.BeginQuorumEpochResponse) and message.knows_tokens
    )
    return LeaderResponse(
        known_error(partition.error_code), partition.leader_id, partition.leader_epoch, knows_tokens
    )
