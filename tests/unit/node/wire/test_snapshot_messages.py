"""FetchSnapshot between the engine's flat values and the bytes that stock Kafka writes and reads."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, ZERO_UUID, Endpoint, KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.node.wire import fetch_messages, snapshot_messages
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from quorumd.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse
from quorumd.raft.messages import FetchResponse, SnapshotRequest, SnapshotResponse

DIRECTORY = KafkaUuid(bytes(15) + b"\x41")
LEADER = Endpoint("CONTROLLER", "host-2", 9092)
SNAPSHOT = OffsetAndEpoch(100, 3)
REQUEST = SnapshotRequest(ReplicaKey(7, DIRECTORY), 5, SNAPSHOT, 17, 1 << 20)
PIECE = SnapshotResponse(ErrorCode.NONE, 2, 5, SNAPSHOT, 17, 400)

# As kio, generated from Kafka's own schemas, encodes them.
REQUEST_V0 = (
    "000000070010000002135f5f636c75737465725f6d65746164617461020000000000000005000000"
    "00000000640000000300000000000000001100000100020243"
)
REQUEST_V1 = (
    "000000070010000002135f5f636c75737465725f6d65746164617461020000000000000005000000"
    "00000000640000000300000000000000001101001000000000000000000000000000000041000100"
    "020243"
)
RESPONSE_V0 = (
    "00000000000002135f5f636c75737465725f6d657461646174610200000000000000000000000000"
    "64000000030000000000000003e80000000000000011066279746573010009000000020000000500"
    "0000"
)
RESPONSE_V1 = (
    "00000000000002135f5f636c75737465725f6d657461646174610200000000000000000000000000"
    "64000000030000000000000003e80000000000000011066279746573010009000000020000000500"
    "0001000f020000000207686f73742d32238400"
)


@pytest.mark.parametrize(("version", "golden"), [(0, REQUEST_V0), (1, REQUEST_V1)])
def test_request_has_the_fields_of_stock_kafka(version: int, golden: str) -> None:
    message = snapshot_messages.snapshot_request_to_wire(REQUEST, "C", version)
    assert encode(message, version).hex() == golden
    came = decode(FetchSnapshotRequest, version, bytes.fromhex(golden))
    expected = REQUEST
    if version == 0:
        expected = SnapshotRequest(ReplicaKey(7, ZERO_UUID), 5, SNAPSHOT, 17, 1 << 20)
    assert snapshot_messages.snapshot_request_from_wire(came) == expected


@pytest.mark.parametrize(("version", "golden"), [(0, RESPONSE_V0), (1, RESPONSE_V1)])
def test_response_has_the_fields_of_stock_kafka(version: int, golden: str) -> None:
    message = snapshot_messages.snapshot_response_to_wire(
        PIECE, ErrorCode.NONE, 1000, b"bytes", LEADER, version
    )
    assert encode(message, version).hex() == golden
    came = snapshot_messages.snapshot_response_from_wire(
        decode(FetchSnapshotResponse, version, bytes.fromhex(golden))
    )
    assert came == SnapshotResponse(ErrorCode.NONE, 2, 5, SNAPSHOT, 17, size=1000, data=b"bytes")


@pytest.mark.parametrize("replica_id", [-1, -2, -(2**31)])
def test_negative_replica_id_is_not_a_replica(replica_id: int) -> None:
    message = snapshot_messages.snapshot_request_to_wire(REQUEST, None, 1)
    message.replica_id = replica_id
    parsed = snapshot_messages.snapshot_request_from_wire(message)
    assert parsed is not None
    assert parsed.replica.id == NO_NODE


@pytest.mark.parametrize("error", [e for e in ErrorCode if e is not ErrorCode.INVALID_REQUEST])
def test_error_repeats_the_request_and_names_the_leader(error: ErrorCode) -> None:
    message = snapshot_messages.snapshot_response_to_wire(PIECE, error, 0, b"", LEADER, 1)
    (partition,) = message.topics[0].partitions
    echo = partition.snapshot_id, partition.position, partition.current_leader, message.node_endpoints[0]
    assert (echo[0].end_offset, echo[0].epoch, echo[1]) == (100, 3, 17)
    assert (echo[2].leader_id, echo[2].leader_epoch) == (2, 5)
    assert (echo[3].node_id, echo[3].host, echo[3].port) == (2, "host-2", 9092)


def test_leader_without_an_address_is_not_named() -> None:
    """A stock broker halts on a leader without an endpoint."""
    message = snapshot_messages.snapshot_response_to_wire(PIECE, ErrorCode.NONE, 1000, b"bytes", None, 1)
    leader = message.topics[0].partitions[0].current_leader
    assert (leader.leader_id, leader.leader_epoch, message.node_endpoints) == (NO_NODE, 5, [])


def with_topics(names: list[str], partitions: list[int]) -> FetchSnapshotRequest:
    message = snapshot_messages.snapshot_request_to_wire(REQUEST, None, 1)
    wire: Any = snapshot_messages.fetch_snapshot_request
    message.topics = [
        wire.TopicSnapshot(
            name, [wire.PartitionSnapshot(p, 5, wire.SnapshotId(100, 3), 17) for p in partitions]
        )
        for name in names
    ]
    return message


@pytest.mark.parametrize(
    ("names", "partitions"),
    [
        (["another"], [0]),
        (["__cluster_metadata"], [1]),
        (["__cluster_metadata"], [0, 1]),
        (["__cluster_metadata"], []),
        (["__cluster_metadata", "another"], [0]),
        ([], [0]),
    ],
    ids=str,
)
def test_other_partitions_are_rejected_per_partition(names: list[str], partitions: list[int]) -> None:
    message = with_topics(names, partitions)
    assert snapshot_messages.snapshot_request_from_wire(message) is None
    response = decode(FetchSnapshotResponse, 1, encode(snapshot_messages.snapshot_error(message), 1))
    assert response.error_code == 0
    assert [(topic.name, [p.index for p in topic.partitions]) for topic in response.topics] == [
        (name, partitions) for name in names
    ]
    for topic in response.topics:
        for slot in topic.partitions:
            assert slot.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (slot.snapshot_id.end_offset, slot.snapshot_id.epoch, slot.position) == (100, 3, 17)


def test_top_level_error_or_other_partition_is_an_error_code() -> None:
    refused = FetchSnapshotResponse(error_code=int(ErrorCode.INCONSISTENT_CLUSTER_ID))
    assert snapshot_messages.snapshot_response_from_wire(refused) is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert (
        snapshot_messages.snapshot_response_from_wire(FetchSnapshotResponse())
        is ErrorCode.UNKNOWN_SERVER_ERROR
    )


# Fetch responses that refer to a snapshot


@pytest.mark.parametrize("snapshot", [None, SNAPSHOT])
def test_fetch_quorum_records_response_carries_the_snapshot_id(snapshot: OffsetAndEpoch | None) -> None:
    response = FetchResponse(ErrorCode.NONE, 2, 5, 100, 100, snapshot=snapshot)
    message = fetch_messages.fetch_response_to_wire(response, b"", LEADER)
    assert fetch_messages.fetch_response_from_wire(decode(type(message), 0, encode(message, 0))) == response


@pytest.mark.parametrize("version", range(12, 19))
@pytest.mark.parametrize("snapshot", [None, SNAPSHOT])
def test_stock_fetch_response_carries_the_snapshot_id(version: int, snapshot: OffsetAndEpoch | None) -> None:
    response = FetchResponse(ErrorCode.NONE, 2, 5, 100, 100, snapshot=snapshot)
    message = fetch_messages.stock_fetch_response_to_wire(response, b"", LEADER, version)
    came: Any = decode(type(message), version, encode(message, version))
    snapshot_id = came.responses[0].partitions[0].snapshot_id
    expected = (-1, -1) if snapshot is None else tuple(snapshot)
    assert (snapshot_id.end_offset, snapshot_id.epoch) == expected
