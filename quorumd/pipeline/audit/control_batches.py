"""Reads leaders, their votes and voter sets from the control records of a copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.pipeline.audit.copies import Copy
from quorumd.pipeline.audit.rereading import DirectoryReader
from quorumd.protocol.batch_header import crc_is_valid, read_header
from quorumd.protocol.control_record import ControlMessage, decode_control
from quorumd.protocol.messages.leader_change_message import LeaderChangeMessage
from quorumd.protocol.messages.voters_record import VotersRecord
from quorumd.protocol.record_batch import records


class Leadership(NamedTuple):
    """The LeaderChangeMessage at the start of an epoch in a copy."""

    node: int
    """The node that holds the copy."""
    offset: int
    epoch: int
    leader: int
    voters: tuple[int, ...]
    granting: tuple[int, ...]


class VoterSet(NamedTuple):
    """The voters from `offset` on."""

    offset: int
    voters: tuple[int, ...]


@dataclass(slots=True)
class Controls:
    """The control records of one copy, in the order of the log."""

    leaderships: list[Leadership] = field(default_factory=list)
    voter_sets: list[VoterSet] = field(default_factory=list)


def read_controls(copy: Copy, reader: DirectoryReader) -> Controls:
    """Read the control records of a copy, without damaged batches. Raises InputIncomplete."""
    found = Controls()
    for mark in copy.controls:
        for offset, message in control_messages(reader.batch(copy, mark)):
            if isinstance(message, LeaderChangeMessage):
                ids = (
                    _ids(v.voter_id for v in message.voters),
                    _ids(v.voter_id for v in message.granting_voters),
                )
                found.leaderships.append(Leadership(copy.node, offset, mark.epoch, message.leader_id, *ids))
            elif isinstance(message, VotersRecord):
                found.voter_sets.append(VoterSet(offset, _ids(v.voter_id for v in message.voters)))
    return found


def control_messages(data: bytes) -> Iterator[tuple[int, ControlMessage]]:
    """Yield the offset and message of each record of a control batch; nothing if it is damaged."""
    try:
        header = read_header(data, 0)
        if not header.is_control or header.size > len(data) or not crc_is_valid(data, header):
            return
        for record in records(data, header):
            yield record.offset, decode_control(record.key or b"", record.value or b"")
    except (MalformedMessage, UnsupportedVersion):
        return


def _ids(ids: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(ids))
