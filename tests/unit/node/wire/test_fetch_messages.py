"""The fetch between quorumd nodes, and the stock Fetch contract, one rule per test."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode, UnsupportedVersion
from quorumd.ids import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    NO_NODE,
    ZERO_UUID,
    Endpoint,
    KafkaUuid,
    OffsetAndEpoch,
    ReplicaKey,
)
from quorumd.node.wire import fetch_messages
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages import fetch_request, fetch_response
from quorumd.raft.messages import NO_READ_ROUND, FetchRequest, FetchResponse

CLUSTER = "c" * 22
DIRECTORY = KafkaUuid(bytes(15) + b"\x41")
OTHER_TOPIC_ID = KafkaUuid(bytes(15) + b"\x99")
LEADER = Endpoint("CONTROLLER", "host-2", 9092)
NEVER = (1 << 63) - 1
VERSIONS = range(12, 19)


def travelled(message: Any, version: int) -> Any:
    """The message as the peer decodes it."""
    return decode(type(message), version, encode(message, version))


# Between quorumd nodes


def test_fetch_of_a_follower_round_trips() -> None:
    request = FetchRequest(ReplicaKey(1, DIRECTORY), 5, 17, 4, 500, 1000, True, 12, 9)
    message = travelled(fetch_messages.fetch_to_wire(request, CLUSTER), 0)
    assert message.cluster_id == CLUSTER
    assert fetch_messages.fetch_from_wire(message) == request


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
@pytest.mark.parametrize("diverging", [None, OffsetAndEpoch(0, 0), OffsetAndEpoch(9, 3)])
def test_response_round_trips(error: ErrorCode, diverging: OffsetAndEpoch | None) -> None:
    """NOT_FOLLOWER too: this API is private, and its records are valid (hole 19)."""
    response = FetchResponse(error, 2, 6, 15, 3, diverging, 8)
    message = travelled(fetch_messages.fetch_response_to_wire(response, b"records", LEADER), 0)
    response.records = b"records"
    assert fetch_messages.fetch_response_from_wire(message) == response


def test_response_of_another_cluster_is_an_error_code() -> None:
    wire = fetch_messages.fetch_quorum_records_response
    refused = wire.FetchQuorumRecordsResponse(int(ErrorCode.INCONSISTENT_CLUSTER_ID))
    assert fetch_messages.fetch_response_from_wire(refused) is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_error_response_carries_the_endpoint_of_the_leader() -> None:
    for error, endpoints in ((ErrorCode.NONE, 0), (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)):
        response = fetch_messages.fetch_response_to_wire(FetchResponse(error, 2, 6), b"", LEADER)
        assert len(response.node_endpoints) == endpoints


def test_size_and_wait_are_limited() -> None:
    """A fetch is parked with its connection, and the connection may be gone."""
    request = FetchRequest(ReplicaKey(1), 5, 17, 4, 2**31 - 1, 2**31 - 1)
    message = travelled(fetch_messages.fetch_to_wire(request, None), 0)
    came = fetch_messages.fetch_from_wire(message)
    assert (came.max_bytes, came.max_wait_ms) == (8 * 1024 * 1024, 30_000)
    stock_came = fetch_messages.stock_fetch_from_wire(stock(18, max_wait_ms=2**31 - 1), 18)
    assert stock_came is not None
    assert (stock_came.max_bytes, stock_came.max_wait_ms) == (8 * 1024 * 1024, 30_000)


# Requests of stock brokers (4.0 to 4.4)


def stock(version: int, replica_id: int = 7, **fields: Any) -> fetch_request.FetchRequest:
    wire = fetch_request
    partition = wire.FetchPartition(
        0,
        5,
        17,
        4,
        -1,
        0,
        DIRECTORY if version >= 17 else ZERO_UUID,
        12 if version >= 18 else NEVER,
    )
    by_id = version >= 13
    topic = wire.FetchTopic(
        "" if by_id else METADATA_TOPIC, METADATA_TOPIC_ID if by_id else ZERO_UUID, [partition]
    )
    message = wire.FetchRequest(CLUSTER, topics=[topic], session_epoch=-1, max_bytes=2**31 - 1)
    message.max_wait_ms = 500
    if version >= 15:
        message.replica_state = wire.ReplicaState(replica_id)
    else:
        message.replica_id = replica_id
    for name, value in fields.items():
        setattr(message, name, value)
    came: fetch_request.FetchRequest = travelled(message, version)
    return came


@pytest.mark.parametrize("version", VERSIONS)
def test_stock_fetch_is_parsed_in_every_version(version: int) -> None:
    """Its partition limit is 0 and is ignored."""
    assert fetch_messages.stock_fetch_from_wire(stock(version), version) == FetchRequest(
        ReplicaKey(7, DIRECTORY if version >= 17 else ZERO_UUID),
        5,
        17,
        4,
        500,
        8 * 1024 * 1024,
        False,
        12 if version >= 18 else NEVER,
        NO_READ_ROUND,
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("replica_id", [-1, -2, -(2**31)])
def test_hole_37_ids_below_0_are_consumers(version: int, replica_id: int) -> None:
    """-2 is stock Kafka's debugging consumer: counted as a replica it would be listed as an observer."""
    came = fetch_messages.stock_fetch_from_wire(stock(version, replica_id), version)
    assert came is not None
    assert came.replica == ReplicaKey(NO_NODE)


@pytest.mark.parametrize("version", VERSIONS)
def test_id_0_is_a_replica(version: int) -> None:
    came = fetch_messages.stock_fetch_from_wire(stock(version, 0), version)
    assert came is not None
    assert came.replica.id == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_other_topics_and_partitions_are_rejected_per_partition(version: int) -> None:
    message = stock(version)
    message.topics[0].partitions[0].partition = 1
    assert fetch_messages.stock_fetch_from_wire(message, version) is None
    message = stock(version)
    message.topics[0].topic, message.topics[0].topic_id = (
        ("", OTHER_TOPIC_ID) if version >= 13 else ("another", ZERO_UUID)
    )
    assert fetch_messages.stock_fetch_from_wire(message, version) is None
    message.topics.append(message.topics[0])
    assert fetch_messages.stock_fetch_from_wire(message, version) is None
    response = travelled(fetch_messages.stock_fetch_error(message, version), version)
    assert len(response.responses) == 2
    (partition,) = response.responses[0].partitions
    expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (response.error_code, partition.error_code) == (0, expected)


# Responses to stock brokers (kafka-interop C.3)


def response(
    version: int, response: FetchResponse, records: bytes = b"", leader: Endpoint | None = LEADER
) -> Any:
    return travelled(fetch_messages.stock_fetch_response_to_wire(response, records, leader, version), version)


def partition_of(message: fetch_response.FetchResponse) -> fetch_response.PartitionData:
    (topic,) = message.responses
    (partition,) = topic.partitions
    return partition


@pytest.mark.parametrize("version", VERSIONS)
def test_stock_response_in_every_version(version: int) -> None:
    message = response(version, FetchResponse(ErrorCode.NONE, 2, 6, 15, 3), b"records")
    (topic,) = message.responses
    if version >= 13:
        assert (topic.topic, topic.topic_id) == ("", METADATA_TOPIC_ID)
    else:
        assert (topic.topic, topic.topic_id) == (METADATA_TOPIC, ZERO_UUID)
    partition = partition_of(message)
    assert (message.error_code, partition.error_code, partition.partition_index) == (0, 0, 0)
    assert (partition.high_watermark, partition.log_start_offset) == (15, 3)
    assert partition.records == b"records"
    assert partition.diverging_epoch is None or partition.diverging_epoch.epoch == -1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.BROKER_NOT_AVAILABLE,
    ],
)
def test_every_response_names_the_leader_and_its_endpoint(version: int, error: ErrorCode) -> None:
    message = response(version, FetchResponse(error, 2, 6))
    current = partition_of(message).current_leader
    assert current is not None
    assert (current.leader_id, current.leader_epoch) == (2, 6)
    endpoints = [(e.node_id, e.host, e.port) for e in message.node_endpoints]
    assert endpoints == ([(2, "host-2", 9092)] if version >= 16 else [])


@pytest.mark.parametrize("version", VERSIONS)
def test_leader_without_address_is_not_named(version: int) -> None:
    """A stock broker halts on a leader without an endpoint."""
    message = response(version, FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 6), leader=None)
    current = partition_of(message).current_leader
    assert current is not None
    assert (current.leader_id, current.leader_epoch) == (NO_NODE, 6)
    assert message.node_endpoints == []


@pytest.mark.parametrize("version", VERSIONS)
def test_diverging_position_gets_the_diverging_epoch_and_no_records(
    version: int,
) -> None:
    partition = partition_of(
        response(version, FetchResponse(ErrorCode.NONE, 2, 6, 15, 0, OffsetAndEpoch(9, 3)))
    )
    assert partition.diverging_epoch is not None
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (3, 9)
    assert partition.records == b""


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_high_watermark_is_minus_1(version: int) -> None:
    assert partition_of(response(version, FetchResponse(ErrorCode.NONE, 2, 6))).high_watermark == -1


def test_hole_19_stock_response_never_carries_the_private_code() -> None:
    private = FetchResponse(ErrorCode.NOT_FOLLOWER, 2, 6)
    assert partition_of(response(18, private)).error_code == ErrorCode.INVALID_REQUEST


# To and from a stock leader


@pytest.mark.parametrize("version", [17, 18])
def test_fetch_of_a_follower_is_sent_as_stock_fetch(version: int) -> None:
    request = FetchRequest(ReplicaKey(1, DIRECTORY), 5, 17, 4, 500, 1000, True, 12, 9)
    message = travelled(fetch_messages.stock_fetch_to_wire(request, CLUSTER, version), version)
    assert (message.cluster_id, message.session_id, message.session_epoch) == (CLUSTER, 0, -1)
    assert message.topics[0].topic_id == METADATA_TOPIC_ID
    known = 12 if version >= 18 else NEVER
    expected = FetchRequest(ReplicaKey(1, DIRECTORY), 5, 17, 4, 500, 1000, False, known, NO_READ_ROUND)
    assert fetch_messages.stock_fetch_from_wire(message, version) == expected


def test_stock_fetch_without_directory_ids_is_unsupported() -> None:
    """The leader would count its voters as observers and commit nothing."""
    request = FetchRequest(ReplicaKey(1, DIRECTORY), 5, 17, 4, 500, 1000)
    with pytest.raises(UnsupportedVersion, match="v16"):
        fetch_messages.stock_fetch_to_wire(request, CLUSTER, 16)


@pytest.mark.parametrize(
    "response",
    [
        FetchResponse(ErrorCode.NONE, 2, 6, 15, 3),
        FetchResponse(ErrorCode.NONE, 2, 6, -1, 0),
        FetchResponse(ErrorCode.NONE, 2, 6, 15, 3, OffsetAndEpoch(9, 3)),
        FetchResponse(ErrorCode.NONE, 2, 6, 15, 3, OffsetAndEpoch(0, 0)),
        FetchResponse(ErrorCode.NONE, 2, 6, 15, 30, snapshot=OffsetAndEpoch(30, 4)),
        FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 6),
        FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, 2, 7),
    ],
    ids=["records", "no high watermark", "diverging", "diverging at 0", "snapshot", "not leader", "fenced"],
)
@pytest.mark.parametrize("version", [17, 18])
def test_stock_response_round_trips(response: FetchResponse, version: int) -> None:
    sent = fetch_messages.stock_fetch_response_to_wire(response, b"records", LEADER, version)
    response.records = b"records"
    assert fetch_messages.stock_fetch_response_from_wire(travelled(sent, version)) == response


def test_stock_response_without_a_partition_is_an_error_code() -> None:
    wire = fetch_response
    refused = wire.FetchResponse(error_code=int(ErrorCode.INCONSISTENT_CLUSTER_ID))
    assert fetch_messages.stock_fetch_response_from_wire(refused) is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert (
        fetch_messages.stock_fetch_response_from_wire(wire.FetchResponse()) is ErrorCode.UNKNOWN_SERVER_ERROR
    )
