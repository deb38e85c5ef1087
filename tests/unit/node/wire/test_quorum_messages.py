from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode, UnsupportedVersion
from quorumd.ids import METADATA_TOPIC, NO_NODE, ZERO_UUID, Endpoint, KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.node.wire import quorum_messages
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages import (
    begin_quorum_epoch_response,
    end_quorum_epoch_response,
    vote_request,
    vote_response,
)
from quorumd.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from quorumd.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from quorumd.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    LeaderResponse,
    VoteRequest,
    VoteResponse,
)

CLUSTER = "c" * 22
MINE, THEIRS = KafkaUuid(bytes(15) + b"\x41"), KafkaUuid(bytes(15) + b"\x42")
LEADER = Endpoint("CONTROLLER", "host-2", 9092)


def travelled(message: Any, version: int) -> Any:
    """The message as the peer decodes it."""
    return decode(type(message), version, encode(message, version))


def vote(version: int) -> VoteRequest:
    """A request with every field of the version."""
    has_ids = version >= 1
    return VoteRequest(
        5,
        ReplicaKey(1, MINE if has_ids else ZERO_UUID),
        ReplicaKey(2 if has_ids else NO_NODE, THEIRS if has_ids else ZERO_UUID),
        OffsetAndEpoch(17, 4),
        version >= 2,
    )


@pytest.mark.parametrize("version", range(3))
def test_vote_requests_round_trip_in_every_version(version: int) -> None:
    message = travelled(quorum_messages.vote_to_wire(vote(version), CLUSTER, version), version)
    assert message.cluster_id == CLUSTER
    partition = quorum_messages.only_partition(message.topics)
    assert partition is not None
    assert quorum_messages.vote_from_wire(message, partition) == vote(version)


@pytest.mark.parametrize("version", range(2))
def test_vote_requests_are_sent_to_peers_without_directory_ids(version: int) -> None:
    """Fields that the version lacks are omitted; the request itself must not fail."""
    request = VoteRequest(5, ReplicaKey(1, MINE), ReplicaKey(2, THEIRS), OffsetAndEpoch(17, 4), False)
    message = travelled(quorum_messages.vote_to_wire(request, None, version), version)
    partition = quorum_messages.only_partition(message.topics)
    assert partition is not None
    came = quorum_messages.vote_from_wire(message, partition)
    assert (came.epoch, came.candidate.id, came.last, came.pre_vote) == (5, 1, OffsetAndEpoch(17, 4), False)


@pytest.mark.parametrize("version", range(2))
def test_hole_11_pre_vote_is_never_sent_in_a_version_without_pre_votes(version: int) -> None:
    with pytest.raises(UnsupportedVersion, match="pre-vote"):
        quorum_messages.vote_to_wire(vote(2), CLUSTER, version)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("granted", [True, False])
def test_vote_responses_round_trip_in_every_version(version: int, granted: bool) -> None:
    response = VoteResponse(ErrorCode.FENCED_LEADER_EPOCH, 2, 6, granted)
    message = travelled(
        quorum_messages.vote_response_to_wire(response, LEADER if version >= 1 else None), version
    )
    assert quorum_messages.vote_response_from_wire(message) == response
    endpoints = [(e.node_id, e.host, e.port) for e in message.node_endpoints]
    assert endpoints == ([(2, "host-2", 9092)] if version >= 1 else [])


@pytest.mark.parametrize("version", range(2))
def test_begin_requests_round_trip_in_every_version(version: int) -> None:
    request = BeginEpochRequest(1, 5, ReplicaKey(2, THEIRS), (LEADER,), 77)
    message = travelled(quorum_messages.begin_to_wire(request, CLUSTER, version), version)
    assert isinstance(message, BeginQuorumEpochRequest)
    partition = quorum_messages.only_partition(message.topics)
    assert partition is not None
    came = quorum_messages.begin_from_wire(message, partition)
    assert came == (request if version >= 1 else BeginEpochRequest(1, 5, ReplicaKey(NO_NODE), ()))


@pytest.mark.parametrize("version", range(2))
def test_end_requests_round_trip_in_every_version(version: int) -> None:
    successors = (ReplicaKey(3, THEIRS), ReplicaKey(2, MINE))
    request = EndEpochRequest(1, 5, 1, successors)
    message = travelled(quorum_messages.end_to_wire(request, CLUSTER, version, (LEADER,)), version)
    assert isinstance(message, EndQuorumEpochRequest)
    partition = quorum_messages.only_partition(message.topics)
    assert partition is not None
    came = quorum_messages.end_from_wire(message, partition)
    if version < 1:
        request = EndEpochRequest(1, 5, 1, (ReplicaKey(3), ReplicaKey(2)))
    assert came == request


@pytest.mark.parametrize("module", [begin_quorum_epoch_response, end_quorum_epoch_response])
@pytest.mark.parametrize("version", range(2))
def test_begin_and_end_responses_round_trip_in_every_version(module: Any, version: int) -> None:
    response = LeaderResponse(ErrorCode.UNKNOWN_LEADER_EPOCH, 2, 6)
    message = travelled(quorum_messages.leader_response_to_wire(module, response, LEADER, version), version)
    assert quorum_messages.leader_response_from_wire(message) == response
    assert [e.node_id for e in message.node_endpoints] == ([2] if version >= 1 else [])


def test_hole_19_public_responses_never_carry_the_private_code() -> None:
    error = ErrorCode.NOT_FOLLOWER
    vote_reply = quorum_messages.vote_response_to_wire(VoteResponse(error, -1, 3, False), None)
    begin_reply = quorum_messages.leader_response_to_wire(
        begin_quorum_epoch_response, LeaderResponse(error, -1, 3), None, 1
    )
    for response in (vote_reply, begin_reply):
        assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST


def test_hole_42_exactly_one_partition_is_expected() -> None:
    def topics(*names: tuple[str, tuple[int, ...]]) -> list[vote_request.TopicData]:
        return [
            vote_request.TopicData(name, [vote_request.PartitionData(index) for index in indexes])
            for name, indexes in names
        ]

    assert quorum_messages.only_partition(topics((METADATA_TOPIC, (0,)))) is not None
    for wrong in (
        topics(),
        topics(("another", (0,))),
        topics((METADATA_TOPIC, ())),
        topics((METADATA_TOPIC, (1,))),
        topics((METADATA_TOPIC, (0, 1))),
        topics((METADATA_TOPIC, (0,)), ("another", (0,))),
    ):
        assert quorum_messages.only_partition(wrong) is None
    slots = quorum_messages.error_topics(
        vote_response, topics(("a", (0, 7)), ("b", (1,))), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    assert [(t.topic_name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in slots] == [
        ("a", [(0, 3), (7, 3)]),
        ("b", [(1, 3)]),
    ]


def test_top_level_error_is_returned_and_an_unknown_code_becomes_an_unknown_server_error() -> None:
    wire = vote_response
    refused = wire.VoteResponse(int(ErrorCode.INCONSISTENT_CLUSTER_ID))
    assert quorum_messages.vote_response_from_wire(refused) is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert quorum_messages.vote_response_from_wire(wire.VoteResponse(7777)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert quorum_messages.vote_response_from_wire(wire.VoteResponse(0)) is ErrorCode.UNKNOWN_SERVER_ERROR
    empty = begin_quorum_epoch_response.BeginQuorumEpochResponse(0)
    assert quorum_messages.leader_response_from_wire(empty) is ErrorCode.UNKNOWN_SERVER_ERROR
    strange = quorum_messages.vote_response_to_wire(VoteResponse(ErrorCode.NONE, 1, 1, True), None)
    strange.topics[0].partitions[0].error_code = 7777
    came = quorum_messages.vote_response_from_wire(strange)
    assert isinstance(came, VoteResponse)
    assert came.error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_sender_defaults_to_the_leader_id() -> None:
    message = quorum_messages.end_to_wire(EndEpochRequest(1, 5, 1, ()), None, 0, ())
    partition = quorum_messages.only_partition(message.topics)
    assert partition is not None
    assert quorum_messages.end_from_wire(message, partition).sender_id == 1


def test_sender_that_is_not_the_leader_is_named_since_version_1() -> None:
    request = EndEpochRequest(1, 5, 3, ())
    message = travelled(quorum_messages.end_to_wire(request, CLUSTER, 1, ()), 1)
    partition = quorum_messages.only_partition(message.topics)
    assert partition is not None
    assert quorum_messages.end_from_wire(message, partition) == request


@pytest.mark.parametrize("version", range(2))
def test_knowledge_of_tokens_is_reported_since_version_1(version: int) -> None:
    response = LeaderResponse(ErrorCode.NONE, 1, 5, knows_tokens=True)
    message = quorum_messages.leader_response_to_wire(begin_quorum_epoch_response, response, None, version)
    found = quorum_messages.leader_response_from_wire(travelled(message, version))
    assert isinstance(found, LeaderResponse)
    assert found.knows_tokens is (version >= 1)
