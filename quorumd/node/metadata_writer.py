"""Records into the image and into the log: how a leader changes the metadata."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quorumd.controller.assignment import Change
from quorumd.controller.record_versions import record_version
from quorumd.node.proposals import MAX_BATCH_BYTES, Outcome, Proposals
from quorumd.node.state_machine import StateMachine
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import RECORD_FRAMING_BYTES, room_of_records
from quorumd.protocol.wire import Message


class MetadataWriter:
    """`has_room()`: whether the log takes records."""

    def __init__(
        self, has_room: Callable[[], bool], state_machine: StateMachine, proposals: Proposals
    ) -> None:
        self.has_room = has_room
        self._state_machine = state_machine
        self._proposals = proposals

    def write_whole(self, records: Sequence[Message], outcome: Outcome) -> bool:
        """Apply the records to the image and append them together. False, with nothing done, if they are too large
        for one batch."""
        level = self._state_machine.image.metadata_version
        values = [encode_record(record, record_version(record, level)) for record in records]
        if room_of_records(values) > MAX_BATCH_BYTES:
            return False
        self._propose(records, values, outcome)
        return True

    def write_in_parts(self, records: Sequence[Message], outcome: Outcome) -> None:
        """As `write_whole`, in as many batches as it takes: for records of which the first so many do no harm
        without the rest. `outcome` is that of the last."""
        level = self._state_machine.image.metadata_version
        part: list[Message] = []
        values: list[bytes] = []
        size = 0
        for record in records:
            value = encode_record(record, record_version(record, level))
            room = len(value) + RECORD_FRAMING_BYTES
            if values and size + room > MAX_BATCH_BYTES:
                self._propose(part, values, _nobody_waits)
                part, values, size = [], [], 0
            part.append(record)
            values.append(value)
            size += room
        self._propose(part, values, outcome)

    def append_now(self) -> None:
        """Append what is written without gathering more: the quorum's own records, of its voters say, come between
        otherwise."""
        self._proposals.gather()

    def _propose(self, records: Sequence[Message], values: Sequence[bytes], outcome: Outcome) -> None:
        apply = self._state_machine.image.apply
        changes: list[Change] = []
        for record in records:
            apply(record, changes)
        self._proposals.propose(values, changes, outcome)


def _nobody_waits(committed: bool) -> None:
    del committed
