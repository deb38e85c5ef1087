"""Gathers the records of many requests into batches, appends them and reports their commit.

Records that arrive in one tick, or during a flush, form one batch (group commit). The image is changed when a record
is proposed, so that the next request is planned against it. The undo entries are kept until the record is committed;
when leadership is lost they are undone, newest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from quorumd.controller.undo_log import UndoEntry, undo

CommitCallback = Callable[[bool], None]
"""Called once: with True when the records are committed, with False if this node does not know whether they will
be."""


def ignore_commit(committed: bool) -> None:
    """A `CommitCallback` that does nothing."""


MAX_BATCH_BYTES = 8 * 1024 * 1024 - 64 * 1024
"""Maximum size of the records in a batch (`size_of_records`): stock readers accept batches of up to 8 MiB."""


class Proposal:
    """Records that are appended together or not at all. `size`: their size in a batch."""

    __slots__ = ("callback", "changes", "size", "values")

    def __init__(
        self, values: Sequence[bytes], size: int, changes: Sequence[UndoEntry], callback: CommitCallback
    ) -> None:
        self.values = values
        self.size = size
        self.changes = changes
        self.callback = callback


class AppendedBatch(NamedTuple):
    """A batch in the log that is not known to be committed."""

    end_offset: int
    appended_at: float
    records: int
    changes: list[UndoEntry]
    callbacks: list[CommitCallback]


class Proposals:
    """Pending records, appended but uncommitted batches, and the callbacks that wait for them.

    `append(values)` appends one batch of record values and returns its end offset, or None if it was not appended
    (leadership lost, or the disk is full). `schedule(callback)` calls back at the end of the tick.
    `on_latency(ms, records)` is called with the time from append to commit of each batch.
    """

    def __init__(
        self,
        append: Callable[[Sequence[bytes]], int | None],
        schedule: Callable[[Callable[[], None]], None],
        may_append: Callable[[], bool],
        now_ms: Callable[[], float],
        on_latency: Callable[[float, int], None],
    ) -> None:
        self._append = append
        self._schedule = schedule
        self._may_append = may_append
        self._now_ms = now_ms
        self._on_latency = on_latency
        self.last_appended_ms = 0.0
        """When the newest batch was appended."""
        self._is_scheduled = False
        self._pending: deque[Proposal] = deque()
        self._appending: list[Proposal] = []
        """Proposals in the batch that is being appended; leadership may be lost during the append."""
        self._appended: deque[AppendedBatch] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether all proposed records are committed."""
        return not self._pending and not self._appended

    def await_uncommitted(self, end_offset: int) -> None:
        """Make later callbacks wait for the commit of the log below `end_offset`.

        Called when this node becomes leader: its image holds that part of the log, which may be uncommitted.
        """
        self._appended.append(AppendedBatch(end_offset, self._now_ms(), 0, [], []))

    def propose(
        self, values: Sequence[bytes], size: int, changes: Sequence[UndoEntry], callback: CommitCallback
    ) -> None:
        """Append record values together. `size` is their `size_of_records`, at most MAX_BATCH_BYTES. `changes` has
        the undo entries of the image, which contains the records already."""
        self._pending.append(Proposal(values, size, changes, callback))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self._end_of_tick)

    def append_pending(self) -> bool:
        """Append the pending records in as few batches as possible. Returns False if the append failed, so that all
        pending proposals were rolled back."""
        while self._pending:
            proposals = self._appending = self._next_batch()
            values = [value for proposal in proposals for value in proposal.values]
            changes = [change for proposal in proposals for change in proposal.changes]
            callbacks = [proposal.callback for proposal in proposals]
            end_offset = self._append(values)
            if end_offset is None:
                self._roll_back()
                return False
            self._appending = []
            now = self.last_appended_ms = self._now_ms()
            self._appended.append(AppendedBatch(end_offset, now, len(values), changes, callbacks))
        return True

    def on_commit(self, callback: CommitCallback) -> None:
        """Append pending records, and call `callback` as soon as all proposals are committed or lost."""
        if not self.append_pending():
            callback(False)
        elif self._appended:
            self._appended[-1].callbacks.append(callback)
        else:
            callback(True)

    def on_commit_deferred(self, callback: CommitCallback) -> None:
        """Call `callback` like `on_commit`, but leave pending records to their next batch."""
        if self._pending:
            self._pending.append(Proposal((), 0, (), callback))
        elif self._appended:
            self._appended[-1].callbacks.append(callback)
        else:
            callback(True)

    def uncommitted_changes(self) -> list[UndoEntry]:
        """The undo entries of all records that are not known to be committed, newest first."""
        changes: list[UndoEntry] = []
        for batch in self._appended:
            changes.extend(batch.changes)
        for proposal in self._appending:
            changes.extend(proposal.changes)
        for proposal in self._pending:
            changes.extend(proposal.changes)
        changes.reverse()
        return changes

    @property
    def pending_records(self) -> int:
        """Number of records that are proposed but not in the log yet."""
        return sum(len(proposal.values) for proposal in self._pending)

    def committed(self, high_watermark: int) -> None:
        """Call back for the batches below the new high watermark."""
        now = self._now_ms()
        while self._appended and self._appended[0].end_offset <= high_watermark:
            batch = self._appended.popleft()
            if batch.records:
                self._on_latency(now - batch.appended_at, batch.records)
            for callback in batch.callbacks:
                callback(True)

    def on_leadership_lost(self) -> None:
        """Undo uncommitted changes and call back with False: their records may be committed later or not."""
        callbacks = [callback for batch in self._appended for callback in batch.callbacks]
        appended, self._appended = self._appended, deque()
        self._roll_back(appended, callbacks)

    def _roll_back(
        self, appended: Sequence[AppendedBatch] = (), callbacks: Sequence[CommitCallback] = ()
    ) -> None:
        """Undo the changes newest first, changes of pending records before appended ones, and then call back."""
        proposals = [*self._appending, *self._pending]
        self._appending = []
        self._pending.clear()
        for proposal in proposals[::-1]:
            undo(reversed(proposal.changes))
        for batch in reversed(appended):
            undo(reversed(batch.changes))
        for callback in [*callbacks, *(proposal.callback for proposal in proposals)]:
            callback(False)

    def _next_batch(self) -> list[Proposal]:
        proposals = [self._pending.popleft()]
        size = proposals[0].size
        while self._pending and size + self._pending[0].size <= MAX_BATCH_BYTES:
            proposal = self._pending.popleft()
            size += proposal.size
            proposals.append(proposal)
        return proposals

    def on_flush_completed(self) -> None:
        """Append the records that accumulated during a flush."""
        if self._pending:
            self.append_pending()

    def _end_of_tick(self) -> None:
        self._is_scheduled = False
        if self._may_append():
            self.append_pending()
