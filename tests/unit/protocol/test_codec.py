"""Known bytes of messages, and the errors of both directions."""

from __future__ import annotations

import pytest

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.ids import METADATA_TOPIC as TOPIC
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.codec import decode, decode_prefix, encode, encode_into
from quorumd.protocol.messages import alter_partition_request as partition_request
from quorumd.protocol.messages import alter_partition_response as partition_response
from quorumd.protocol.messages import alter_quorum_request as alter_request
from quorumd.protocol.messages import alter_quorum_response as alter_response
from quorumd.protocol.messages import begin_quorum_epoch_request as begin_request
from quorumd.protocol.messages import begin_quorum_epoch_response as begin_response
from quorumd.protocol.messages import describe_quorum_request as describe_request
from quorumd.protocol.messages import describe_quorum_response as describe_response
from quorumd.protocol.messages import discover_brokers_request as discover_request
from quorumd.protocol.messages import discover_brokers_response as discover_response
from quorumd.protocol.messages import end_quorum_epoch_request as end_request
from quorumd.protocol.messages import fetch_quorum_records_request as fetch_request
from quorumd.protocol.messages import fetch_quorum_records_response as fetch_response
from quorumd.protocol.messages import leader_change_message as leader_change
from quorumd.protocol.messages import vote_request, vote_response, voters_record
from quorumd.protocol.messages.fetch_request import FetchRequest, ReplicaState
from quorumd.protocol.messages.kraft_version_record import KRaftVersionRecord
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.wire import Message

TOPIC_HEX = "5f5f636c75737465725f6d65746164617461"
DIRECTORY = KafkaUuid(bytes(range(16)))
BOOT = 1_700_000_000_000

VOTE_PARTITION = vote_request.PartitionData(0, 5, 1, last_offset_epoch=4, last_offset=10)
VOTE = vote_request.VoteRequest("C", topics=[vote_request.TopicData(TOPIC, [VOTE_PARTITION])])

DRAFT: list[tuple[str, Message, str]] = [
    (
        "DiscoverBrokers request",
        discover_request.DiscoverBrokersRequest(1, BOOT, "h1", 9092),
        "000000010000018bcfe568000368310000238400",
    ),
    (
        "DiscoverBrokers response",
        discover_response.DiscoverBrokersResponse(0, "C", [discover_response.Broker(1, BOOT, "h1", 9092)]),
        "0000024302000000010000018bcfe56800036831000023840000",
    ),
    (
        "AlterQuorum request",
        alter_request.AlterQuorumRequest(
            "C",
            [
                alter_request.TopicData(
                    TOPIC,
                    [
                        alter_request.PartitionData(
                            0, [alter_request.TargetVoter(voter) for voter in (4, 5, 6)]
                        )
                    ],
                )
            ],
        ),
        f"02430213{TOPIC_HEX}020000000004000000040000000005000000000600000000",
    ),
    (
        "AlterQuorum request that cancels",
        alter_request.AlterQuorumRequest(
            "C", [alter_request.TopicData(TOPIC, [alter_request.PartitionData(0, None)])]
        ),
        f"02430213{TOPIC_HEX}020000000000000000",
    ),
    (
        "AlterQuorum response",
        alter_response.AlterQuorumResponse(
            [alter_response.TopicData(TOPIC, [alter_response.PartitionData(0, 0)])]
        ),
        f"0213{TOPIC_HEX}02000000000000000000",
    ),
]

SHIPPED: list[tuple[str, Message, str]] = [
    ("Vote request", VOTE, f"02430213{TOPIC_HEX}0200000000000000050000000100000004000000000000000a000000"),
    (
        "Vote response",
        vote_response.VoteResponse(
            0, [vote_response.TopicData(TOPIC, [vote_response.PartitionData(0, 0, -1, 5, True)])]
        ),
        f"00000213{TOPIC_HEX}02000000000000ffffffff0000000501000000",
    ),
    (
        "BeginQuorumEpoch request",
        begin_request.BeginQuorumEpochRequest(
            "C",
            topics=[
                begin_request.TopicData(TOPIC, [begin_request.PartitionData(0, leader_id=1, leader_epoch=5)])
            ],
        ),
        f"000143000000010012{TOPIC_HEX}00000001000000000000000100000005",
    ),
    (
        "BeginQuorumEpoch response",
        begin_response.BeginQuorumEpochResponse(
            0, [begin_response.TopicData(TOPIC, [begin_response.PartitionData(0, 0, 1, 5)])]
        ),
        f"0000000000010012{TOPIC_HEX}000000010000000000000000000100000005",
    ),
    (
        "EndQuorumEpoch request",
        end_request.EndQuorumEpochRequest(
            "C", [end_request.TopicData(TOPIC, [end_request.PartitionData(0, 1, 5, [2, 3])])]
        ),
        f"000143000000010012{TOPIC_HEX}00000001000000000000000100000005000000020000000200000003",
    ),
    (
        "DescribeQuorum request",
        describe_request.DescribeQuorumRequest(
            [describe_request.TopicData(TOPIC, [describe_request.PartitionData(0)])]
        ),
        f"0213{TOPIC_HEX}0200000000000000",
    ),
    (
        "DescribeQuorum response",
        describe_response.DescribeQuorumResponse(
            topics=[
                describe_response.TopicData(
                    TOPIC,
                    [
                        describe_response.PartitionData(
                            leader_id=1,
                            leader_epoch=5,
                            high_watermark=10,
                            current_voters=[
                                describe_response.ReplicaState(1, log_end_offset=10),
                                describe_response.ReplicaState(2, log_end_offset=9),
                            ],
                            observers=[describe_response.ReplicaState(4, log_end_offset=8)],
                        )
                    ],
                )
            ]
        ),
        f"00000213{TOPIC_HEX}020000000000000000000100000005000000000000000a0300000001000000000000000a00"
        "000000020000000000000009000200000004000000000000000800000000",
    ),
    (
        "LeaderChange",
        leader_change.LeaderChangeMessage(
            0,
            1,
            [leader_change.Voter(voter) for voter in (1, 2, 3)],
            [leader_change.Voter(voter) for voter in (1, 2)],
        ),
        "00000000000104000000010000000002000000000300030000000100000000020000",
    ),
    ("KRaftVersion", KRaftVersionRecord(0, 1), "0000000100"),
]

OWN: list[tuple[str, Message, str]] = [
    (
        "DiscoverBrokers request with a directory id",
        discover_request.DiscoverBrokersRequest(1, BOOT, "h1", 9092, DIRECTORY),
        f"000000010000018bcfe568000368310000238401904e10{DIRECTORY.hex()}",
    ),
    (
        "AlterQuorum response that knows the leader",
        alter_response.AlterQuorumResponse(
            [alter_response.TopicData(TOPIC, [alter_response.PartitionData(0, 6, 2, 7)])]
        ),
        f"0213{TOPIC_HEX}0200000000000602904e0400000002914e04000000070000",
    ),
    (
        "AlterQuorum response that says why not",
        alter_response.AlterQuorumResponse(
            [alter_response.TopicData(TOPIC, [alter_response.PartitionData(0, 42, error_message="no")])]
        ),
        f"0213{TOPIC_HEX}0200000000002a01924e03036e6f0000",
    ),
    (
        "FetchQuorumRecords request",
        fetch_request.FetchQuorumRecordsRequest(
            "C",
            1,
            DIRECTORY,
            500,
            1 << 20,
            5,
            10,
            4,
            True,
            9,
            77,
        ),
        f"024300000001{DIRECTORY.hex()}000001f400100000"
        "00000005000000000000000a00000004010000000000000009000000000000004d00",
    ),
    (
        "FetchQuorumRecords response",
        fetch_response.FetchQuorumRecordsResponse(
            0, 1, 5, -1, -1, 9, 0, -1, 77, b"abc", [fetch_response.NodeEndpoint(1, "h1", 9092)]
        ),
        "00000000000100000005ffffffffffffffffffffffff0000000000000009"
        "0000000000000000ffffffffffffffff000000000000004d0461626301000b0200000001036831238400",
    ),
    (
        "KRaftVoters that is a VoterAssignment",
        voters_record.VotersRecord(
            0,
            [voters_record.Voter(1, DIRECTORY, [voters_record.Endpoint("C", "h", 1)])],
            "C",
            [voters_record.TargetVoter(4)],
        ),
        f"00000200000001{DIRECTORY.hex()}020243026800010000000000000002904e020243914e06020000000400",
    ),
]


@pytest.mark.parametrize(
    ("message", "encoded"),
    [pytest.param(message, encoded, id=name) for name, message, encoded in [*DRAFT, *SHIPPED, *OWN]],
)
def test_known_bytes(message: Message, encoded: str) -> None:
    assert encode(message, 0).hex() == encoded
    assert decode(type(message), 0, bytes.fromhex(encoded)) == message


@pytest.mark.parametrize(("version", "recovery"), [(0, ""), (1, "01")])
def test_alter_partition_before_kafka_4_names_the_topic(version: int, recovery: str) -> None:
    """The oracles know v2 and v3 only."""
    state = 1 if recovery else 0
    requested = partition_request.PartitionData(2, 3, [1, 4], leader_recovery_state=state, partition_epoch=5)
    request = partition_request.AlterPartitionRequest(
        1, 9, [partition_request.TopicData("t", partitions=[requested])]
    )
    encoded = f"000000010000000000000009020274020000000200000003030000000100000004{recovery}00000005000000"
    assert encode(request, version).hex() == encoded
    assert decode(type(request), version, bytes.fromhex(encoded)) == request

    reported = partition_response.PartitionData(2, 107, 1, 3, [1, 4], 1, 5)
    topic = partition_response.TopicData("t", DIRECTORY, [reported])
    response = partition_response.AlterPartitionResponse(0, 0, [topic])
    encoded = f"0000000000000202740200000002006b0000000100000003030000000100000004{recovery}00000005000000"
    assert encode(response, version).hex() == encoded
    topic.topic_id, reported.leader_recovery_state = ZERO_UUID, state
    assert decode(type(response), version, bytes.fromhex(encoded)) == response


def test_field_missing_in_a_version_is_decoded_as_its_default() -> None:
    decoded = decode(FetchRequest, 12, encode(FetchRequest(replica_id=3), 12))
    assert decoded.replica_id == 3
    assert decoded.replica_state == ReplicaState(-1, -1)
    newer = decode(FetchRequest, 17, encode(FetchRequest(replica_state=ReplicaState(3, 9)), 17))
    assert newer.replica_id == -1
    assert newer.replica_state == ReplicaState(3, 9)


def test_field_unknown_to_a_version_is_rejected() -> None:
    partition = vote_request.PartitionData(pre_vote=True)
    message = vote_request.VoteRequest(topics=[vote_request.TopicData(TOPIC, [partition])])
    out = bytearray(b"before")
    with pytest.raises(UnsupportedVersion, match=r"VoteRequest v1 .*pre_vote"):
        encode_into(message, 1, out)
    assert out == b"before"
    assert encode(message, 2)


def test_ignorable_field_is_omitted_from_versions_without_it() -> None:
    partition = vote_request.PartitionData(replica_directory_id=DIRECTORY)
    message = vote_request.VoteRequest(voter_id=3, topics=[vote_request.TopicData(TOPIC, [partition])])
    decoded = decode(vote_request.VoteRequest, 0, encode(message, 0))
    assert decoded == vote_request.VoteRequest(
        topics=[vote_request.TopicData(TOPIC, [vote_request.PartitionData()])]
    )


def test_null_is_rejected_in_versions_without_it() -> None:
    assert encode(MetadataRequest(None), 1)
    with pytest.raises(UnsupportedVersion, match=r"MetadataRequest v0 .*topics"):
        encode(MetadataRequest(None), 0)


def test_value_that_does_not_fit_its_type_is_refused() -> None:
    out = bytearray(b"before")
    with pytest.raises(ValueError, match="KRaftVersionRecord v0"):
        encode_into(KRaftVersionRecord(0, 1 << 15), 0, out)
    with pytest.raises(ValueError, match=r"VoteRequest v0.*surrogates"):
        encode_into(vote_request.VoteRequest("\ud800"), 0, out)
    with pytest.raises(ValueError, match=r"VoteRequest v0.*maximum"):
        encode_into(vote_request.VoteRequest("x" * 40_000), 0, out)
    assert out == b"before"


def test_unknown_version_is_refused_in_both_directions() -> None:
    with pytest.raises(UnsupportedVersion, match=r"FetchRequest v3 .*4 to 18"):
        encode(FetchRequest(), 3)
    for read in (decode, decode_prefix):
        with pytest.raises(UnsupportedVersion, match="FetchRequest v19"):
            read(FetchRequest, 19, b"")


def test_malformed_bytes_are_reported_with_message_version_and_byte() -> None:
    encoded = encode(VOTE, 0)
    for data, reason in (
        (b"", "VoteRequest v0: the data ends at byte 0"),
        (
            encoded[:-1],
            f"VoteRequest v0: the data ends at byte {len(encoded) - 1}, before the end of the message",
        ),
        (encoded + b"xy", f"VoteRequest v0 ends at byte {len(encoded)}, but 2 bytes follow it"),
        (b"\x03C\xff", "VoteRequest v0: a string is not UTF-8 at byte 2"),
        (b"\x00\x7f\x00\x00", "VoteRequest v0: 126 elements of at least 3 bytes are declared at byte 2"),
        (b"\x00\x00", "VoteRequest v0: null or a negative length before byte 2"),
        (b"\x00\x01\x01\x00\x09", "VoteRequest v0: tagged field 0 declares 9 bytes at byte 5"),
    ):
        with pytest.raises(MalformedMessage, match=reason):
            decode(vote_request.VoteRequest, 0, data)


def test_tagged_field_is_bounded_by_its_size() -> None:
    encoded = encode(discover_request.DiscoverBrokersRequest(1, BOOT, "h1", 9092, DIRECTORY), 0)
    assert encoded[-17] == 16
    wrong = encoded[:-17] + b"\x11" + encoded[-16:] + b"x"
    with pytest.raises(MalformedMessage, match=r"tagged field 10000 .*byte 40,.*byte 39"):
        decode(discover_request.DiscoverBrokersRequest, 0, wrong)


def test_unknown_tagged_fields_are_skipped() -> None:
    encoded = encode(VOTE, 0)
    assert decode(vote_request.VoteRequest, 0, encoded[:-1] + b"\x02\x07\x01x\x91\x4e\x00") == VOTE


def test_message_within_other_bytes() -> None:
    data = b"before" + encode(VOTE, 0) + b"after"
    message, end, _ = decode_prefix(vote_request.VoteRequest, 0, data, 6)
    assert (message, end) == (VOTE, len(data) - 5)
    assert decode(vote_request.VoteRequest, 0, data[:-5], 6) == VOTE


def test_messages_do_not_share_default_objects() -> None:
    first, second = FetchRequest(), FetchRequest()
    assert first.topics is not second.topics
    assert first.replica_state is not second.replica_state
