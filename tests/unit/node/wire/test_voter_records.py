from __future__ import annotations

import pytest

from quorumd.errors import CorruptLog, MalformedMessage
from quorumd.ids import Endpoint, KafkaUuid, ReplicaKey
from quorumd.node.wire.voter_records import (
    VoterRecord,
    encode_control_records,
    scan_voter_records,
    voter_records,
)
from quorumd.protocol.batch_header import HEADER_SIZE
from quorumd.protocol.batch_scan import Gapless, validate
from quorumd.protocol.control_record import decode_control, encode_control
from quorumd.protocol.messages import kraft_version_record, leader_change_message, voters_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch, records
from quorumd.raft.effects import ControlBatch, KRaftVersion, LeaderChange
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet

CLUSTER = "c" * 22


def voter(node_id: int) -> Voter:
    directory_id = KafkaUuid(bytes(15) + bytes([64 + node_id]))
    return Voter(ReplicaKey(node_id, directory_id), (Endpoint("CONTROLLER", f"host-{node_id}", 9092),))


ASSIGNMENT = VoterAssignment(VoterSet((voter(1), voter(2))))
CHANGE = LeaderChange(1, (1, 2), (1,))


def encoded(*batch: LeaderChange | KRaftVersion | VoterAssignment, base_offset: int = 5) -> bytes:
    return encode_control_records(ControlBatch(batch), base_offset, 3, 1000, CLUSTER)


def read(data: bytes) -> list[VoterRecord]:
    return [found for header in validate(data, Gapless()) for found in voter_records(data, header)]


@pytest.mark.parametrize("target", [None, (), (2, 3)])
def test_assignment_round_trips_with_offset_and_cluster_id(target: tuple[int, ...] | None) -> None:
    assignment = VoterAssignment(ASSIGNMENT.current, target)
    assert read(encoded(CHANGE, KRaftVersion(1), assignment)) == [VoterRecord(7, assignment, CLUSTER)]


def test_other_control_records_have_the_fields_of_stock_readers() -> None:
    data = encoded(CHANGE, KRaftVersion(1), ASSIGNMENT)
    (header,) = validate(data, Gapless())
    assert (header.is_control, header.base_offset, header.end_offset, header.epoch) == (True, 5, 8, 3)
    change, version, voters = (
        decode_control(record.key or b"", record.value or b"") for record in records(data, header)
    )
    assert isinstance(change, leader_change_message.LeaderChangeMessage)
    assert change.leader_id == 1
    assert [v.voter_id for v in change.voters] == [1, 2]
    assert [v.voter_id for v in change.granting_voters] == [1]
    assert isinstance(version, kraft_version_record.KRaftVersionRecord)
    assert version.kraft_version == 1
    assert isinstance(voters, voters_record.VotersRecord)
    assert [(v.kraft_version_feature.max_supported_version) for v in voters.voters] == [1, 1]


def test_record_of_a_stock_controller_has_no_cluster_id() -> None:
    record = voters_record.VotersRecord(0, [voters_record.Voter(4)])
    assert read(control_batch(record)) == [
        VoterRecord(0, VoterAssignment(VoterSet((Voter(ReplicaKey(4), ()),))), None)
    ]


@pytest.mark.parametrize("ids", [[], [1, 1], [-1], [2, 1, 2]])
def test_invalid_voter_sets_are_malformed(ids: list[int]) -> None:
    """They would have no defined majority."""
    record = voters_record.VotersRecord(0, [voters_record.Voter(node_id) for node_id in ids])
    with pytest.raises(MalformedMessage, match="has the voters"):
        read(control_batch(record))


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"", b""), (b"\x00\x00\x00\x09", b""), (b"\x00\x00\x00\x06", b""), (b"\x00\x00\x00\x06", b"\xff" * 9)],
)
def test_undecodable_control_record_is_malformed(key: bytes, value: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read(encode_control_batch(0, 1, 1000, [(key, value)]))


def test_two_records_at_one_offset_are_malformed() -> None:
    """The engine would treat the second as a change of the first at the same offset."""
    data = encoded(ASSIGNMENT, ASSIGNMENT)
    (header,) = validate(data, Gapless())
    size = (len(data) - HEADER_SIZE) // 2
    doubled = data[:HEADER_SIZE] + data[HEADER_SIZE : HEADER_SIZE + size] * 2
    with pytest.raises(MalformedMessage, match=r"record 1 .*offset 5\b"):
        list(voter_records(doubled, header))


def test_scan_finds_all_voter_records_over_several_reads() -> None:
    other = VoterAssignment(VoterSet((voter(1),)))
    batches = [
        encoded(CHANGE, KRaftVersion(1), ASSIGNMENT, base_offset=0),
        encode_batch(3, 3, 1000, [b"not looked into"]),
        encoded(other, base_offset=4),
    ]

    def read_one(offset: int, limit: int) -> bytes:
        return {0: batches[0], 3: batches[1], 4: batches[2]}[offset]

    found = list(scan_voter_records(read_one, 0, 5))
    assert found == [VoterRecord(2, ASSIGNMENT, CLUSTER), VoterRecord(4, other, CLUSTER)]


def test_scan_reports_the_offset_of_a_damaged_control_batch() -> None:
    data = encode_control_batch(0, 1, 1000, [(b"\x00\x00\x00\x09", b"")])
    with pytest.raises(CorruptLog, match=r"offset 0\b"):
        list(scan_voter_records(lambda offset, limit: data, 0, 1))


def control_batch(record: voters_record.VotersRecord) -> bytes:
    return encode_control_batch(0, 1, 1000, [encode_control(record)])


def test_node_id_0_may_vote() -> None:
    record = voters_record.VotersRecord(0, [voters_record.Voter(0), voters_record.Voter(1)])
    (found,) = read(control_batch(record))
    assert found.assignment.current.ids == (0, 1)
