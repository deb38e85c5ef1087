"""Translates between the engine's control records and batches in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from quorumd.errors import CorruptLog, MalformedMessage, UnsupportedVersion
from quorumd.ids import Endpoint, OffsetAndEpoch, ReplicaKey
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.control_record import ControlMessage, decode_control, encode_control
from quorumd.protocol.messages import kraft_version_record, leader_change_message, voters_record
from quorumd.protocol.record_batch import encode_control_batch, records
from quorumd.raft.effects import ControlBatch, KRaftVersion, LeaderChange
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet

SCAN_BYTES = 1024 * 1024


class VoterRecord(NamedTuple):
    """A voter record and its offset in the log."""

    offset: int
    assignment: VoterAssignment
    cluster_id: str | None


def encode_control_records(
    batch: ControlBatch, base_offset: int, epoch: int, timestamp_ms: int, cluster_id: str
) -> bytes:
    """Encode the batch to append; every voter record in it carries the cluster id."""
    pairs = [encode_control(_record_to_message(record, cluster_id)) for record in batch.records]
    return encode_control_batch(base_offset, epoch, timestamp_ms, pairs)


def voter_records(data: bytes, header: BatchHeader) -> Iterator[VoterRecord]:
    """Yield the voter records of one control batch in offset order.

    Raises MalformedMessage for a record that cannot be decoded and for an invalid voter set, of which the engine
    could not determine a majority.
    """
    for index, record in enumerate(records(data, header)):
        if record.offset != header.base_offset + index:
            raise MalformedMessage(f"record {index} has offset {record.offset}")
        try:
            message = decode_control(record.key or b"", record.value or b"")
        except UnsupportedVersion as error:
            raise MalformedMessage(str(error)) from None
        if isinstance(message, voters_record.VotersRecord):
            _check_voters([voter.voter_id for voter in message.voters])
            yield VoterRecord(record.offset, _message_to_assignment(message), message.cluster_id)


def snapshot_voters(snapshot: OffsetAndEpoch, message: voters_record.VotersRecord) -> VoterRecord:
    """Return the voters of a snapshot as a record at its last offset. Raises MalformedMessage."""
    _check_voters([voter.voter_id for voter in message.voters])
    return VoterRecord(snapshot.offset - 1, _message_to_assignment(message), message.cluster_id)


def scan_voter_records(
    read: Callable[[int, int], bytes], start_offset: int, end_offset: int
) -> Iterator[VoterRecord]:
    """Yield all voter records of a log. `read(offset, limit)` returns whole batches. Raises CorruptLog."""
    offset = start_offset
    while offset < end_offset:
        data = read(offset, SCAN_BYTES)
        for header in headers(data):
            if header.is_control:
                try:
                    yield from voter_records(data, header)
                except MalformedMessage as error:
                    raise CorruptLog(f"the control batch at offset {header.base_offset}: {error}") from None
            offset = header.end_offset


def _check_voters(ids: list[int]) -> None:
    if not ids or min(ids) < 0 or len(set(ids)) != len(ids):
        raise MalformedMessage(
            f"a voter record has the voters {ids}; expected one or more distinct non-negative ids"
        )


def _record_to_message(
    record: LeaderChange | KRaftVersion | VoterAssignment, cluster_id: str
) -> ControlMessage:
    if isinstance(record, LeaderChange):
        wire = leader_change_message
        return wire.LeaderChangeMessage(
            0,
            record.leader_id,
            [wire.Voter(voter_id) for voter_id in record.voters],
            [wire.Voter(voter_id) for voter_id in record.granting],
        )
    if isinstance(record, KRaftVersion):
        return kraft_version_record.KRaftVersionRecord(0, record.level)
    voters = [
        voters_record.Voter(
            voter.key.id,
            voter.key.directory_id,
            [voters_record.Endpoint(*endpoint) for endpoint in voter.endpoints],
            voters_record.KRaftVersionFeature(0, 1),
        )
        for voter in record.current.voters
    ]
    target = None if record.target is None else [voters_record.TargetVoter(v) for v in record.target]
    return voters_record.VotersRecord(0, voters, cluster_id, target)


def _message_to_assignment(message: voters_record.VotersRecord) -> VoterAssignment:
    voters = sorted(
        (
            Voter(
                ReplicaKey(voter.voter_id, voter.voter_directory_id),
                tuple(Endpoint(e.name, e.host, e.port) for e in voter.endpoints),
            )
            for voter in message.voters
        ),
        key=lambda voter: voter.key.id,
    )
    target = message.target_voters
    return VoterAssignment(
        VoterSet(tuple(voters)), None if target is None else tuple(t.voter_id for t in target)
    )
