"""Writes a leader's metadata changes to the image and to the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quorumd.controller.elections import UncleanElection, is_eligible_election, unclean_election
from quorumd.controller.prepared_partitions import PreparedPartitions
from quorumd.controller.record_versions import encode_for_version
from quorumd.controller.undo_log import UndoEntry
from quorumd.node.state.proposals import MAX_BATCH_BYTES, CommitCallback, Proposals, ignore_commit
from quorumd.node.state.state_machine import StateMachine
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.record_batch import RECORD_FRAMING_BYTES, size_of_records
from quorumd.protocol.wire import Message


class MetadataWriter:
    """Applies records to the image and proposes them.

    `has_free_space()` returns whether the log accepts records. `on_unclean_elections` is called with unclean
    elections once they are committed.
    """

    def __init__(
        self,
        has_free_space: Callable[[], bool],
        state_machine: StateMachine,
        proposals: Proposals,
        on_unclean_elections: Callable[[Sequence[UncleanElection]], None],
    ) -> None:
        self.has_free_space = has_free_space
        self._state_machine = state_machine
        self._proposals = proposals
        self._on_unclean_elections = on_unclean_elections
        self.eligible_elections = 0
        """Number of committed elections of an eligible leader replica (ELR)."""

    def write_batch(
        self, records: Sequence[Message], callback: CommitCallback, prepared: PreparedPartitions | None = None
    ) -> bool:
        """Apply records to the image and append them in one batch, followed by the records of `prepared`.

        Returns False, without any effect, if they are too large for one batch.
        """
        level = self._state_machine.image.metadata_version
        values = [encode_for_version(record, level) for record in records]
        size = size_of_records(values)
        if prepared is not None:
            size += size_of_records(prepared.frames)
        if size > MAX_BATCH_BYTES:
            return False
        self.propose(records, values, size, callback, prepared)
        return True

    def write_batches(self, records: Sequence[Message], callback: CommitCallback) -> None:
        """Write records like `write_batch`, in as many batches as needed, and call `callback` for the last one.

        Every prefix of the records must be valid without the rest.
        """
        level = self._state_machine.image.metadata_version
        part: list[Message] = []
        values: list[bytes] = []
        size = 0
        for record in records:
            value = encode_for_version(record, level)
            framed_size = len(value) + RECORD_FRAMING_BYTES
            if values and size + framed_size > MAX_BATCH_BYTES:
                self.propose(part, values, size, ignore_commit)
                part, values, size = [], [], 0
            part.append(record)
            values.append(value)
            size += framed_size
        self.propose(part, values, size, callback)

    def write_no_op(self) -> None:
        """Append a NoOpRecord, unless other records are about to be appended."""
        level = self._state_machine.image.metadata_version
        if not self._proposals.pending_records:
            frames = [encode_for_version(NoOpRecord(), level)]
            self._proposals.propose(frames, size_of_records(frames), [], ignore_commit)

    def flush_pending(self) -> None:
        """Append pending records now, so that they precede records of the engine such as a voter change."""
        self._proposals.append_pending()

    def propose(
        self,
        records: Sequence[Message],
        frames: Sequence[bytes],
        size: int,
        callback: CommitCallback,
        prepared: PreparedPartitions | None = None,
    ) -> None:
        """Apply records to the image and append their frames. Together with the frames in `prepared` they take `size`
        bytes of one batch (`size_of_records`)."""
        image = self._state_machine.image
        changes: list[UndoEntry] = []
        unclean: list[UncleanElection] = []
        eligible = 0
        for record, frame in zip(records, frames, strict=True):
            if isinstance(record, PartitionChangeRecord):
                election = unclean_election(image, record)
                if election is not None:
                    unclean.append(election)
                eligible += is_eligible_election(image, record)
            image.apply(record, changes, frame)
        if prepared is not None:
            image.add_prepared(prepared, changes)
            frames = [*frames, *prepared.frames]
        self._state_machine.charge(len(frames))
        if unclean or eligible:
            callback = self._with_election_report(unclean, eligible, callback)
        self._proposals.propose(frames, size, changes, callback)

    def _with_election_report(
        self, unclean: Sequence[UncleanElection], eligible: int, callback: CommitCallback
    ) -> CommitCallback:
        def on_commit(committed: bool) -> None:
            if committed:
                self.eligible_elections += eligible
                self._on_unclean_elections(unclean)
            callback(committed)

        return on_commit
