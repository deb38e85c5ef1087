"""Records of many requests become one batch: gathered, appended, answered when committed.

What arrives in one turn of the loop, or while a flush is running, is one batch (group commit). The image is
changed when a record is proposed, so that the next request is planned against it, and the changes are kept until
the record is committed: losing leadership takes them back, newest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.protocol.record_batch import size_of_records

CommitCallback = Callable[[bool], None]
"""Called once: True when the records are committed, False when this node can no longer tell."""

MAX_BATCH_BYTES = 8 * 1024 * 1024 - 64 * 1024
"""Room that the records of one batch may take (`size_of_records`): stock readers take batches of up to 8 MiB."""


class Proposal(NamedTuple):
    """Records that go into the log together, or not at all. `size`: the room that they take in a batch."""

    values: Sequence[bytes]
    size: int
    changes: Sequence[UndoEntry]
    outcome: CommitCallback


class AppendedBatch(NamedTuple):
    """One batch in the log that is not known to be committed."""

    end_offset: int
    appended_at: float
    records: int
    changes: list[UndoEntry]
    outcomes: list[CommitCallback]


class Proposals:
    """Waiting records, appended but uncommitted ones, and who waits for them.

    `append(values)` puts one batch of record values into the log and returns its end offset, or None when the
    log takes none (not leader any more, or no room). `schedule(callback)` calls back at the end of the turn.
    `on_latency(ms, records)` is told how long a batch took from append to commit. `last_appended_ms`: when the newest
    batch was appended.
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
        self._is_scheduled = False
        self._pending: deque[Proposal] = deque()
        self._appending: list[Proposal] = []
        """What the log is being asked to take: it may cost this node its leadership on the way."""
        self._appended: deque[AppendedBatch] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is proposed that is not committed."""
        return not self._pending and not self._appended

    def await_inherited(self, end_offset: int) -> None:
        """This node leads from now on. What its log holds below this offset is in the image, and is not all known to
        be committed: nobody is told of it before it is."""
        self._appended.append(AppendedBatch(end_offset, self._now_ms(), 0, [], []))

    def propose(self, values: Sequence[bytes], changes: Sequence[UndoEntry], outcome: CommitCallback) -> None:
        """Append these record values together. `changes` are already made to the image.

        Together the values must not take more room than MAX_BATCH_BYTES.
        """
        self._pending.append(Proposal(values, size_of_records(values), changes, outcome))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self._end_of_tick)

    def append_pending(self) -> bool:
        """Append what waits, in as few batches as it fits. False when the log did not take it, so that nothing
        of what was proposed can be told of any more."""
        while self._pending:
            proposals = self._appending = self._next_batch()
            values = [value for proposal in proposals for value in proposal.values]
            changes = [change for proposal in proposals for change in proposal.changes]
            outcomes = [proposal.outcome for proposal in proposals]
            end_offset = self._append(values)
            if end_offset is None:
                self._roll_back()
                return False
            self._appending = []
            now = self.last_appended_ms = self._now_ms()
            self._appended.append(AppendedBatch(end_offset, now, len(values), changes, outcomes))
        return True

    def on_commit(self, outcome: CommitCallback) -> None:
        """Call `outcome` as soon as all that is proposed now is committed, or lost."""
        if not self.append_pending():
            outcome(False)
        elif self._appended:
            self._appended[-1].outcomes.append(outcome)
        else:
            outcome(True)

    def on_commit_deferred(self, outcome: CommitCallback) -> None:
        """As `on_commit`, without hurrying what waits for its batch."""
        if self._pending:
            self._pending.append(Proposal((), 0, (), outcome))
        elif self._appended:
            self._appended[-1].outcomes.append(outcome)
        else:
            outcome(True)

    @property
    def pending_records(self) -> int:
        """How many records are proposed and not in the log yet."""
        return sum(len(proposal.values) for proposal in self._pending)

    def committed(self, high_watermark: int) -> None:
        """Everything below the high watermark is committed."""
        now = self._now_ms()
        while self._appended and self._appended[0].end_offset <= high_watermark:
            batch = self._appended.popleft()
            if batch.records:
                self._on_latency(now - batch.appended_at, batch.records)
            for outcome in batch.outcomes:
                outcome(True)

    def lost(self) -> None:
        """This node leads no longer: what is not committed may or may not become so without it."""
        outcomes = [outcome for batch in self._appended for outcome in batch.outcomes]
        appended, self._appended = self._appended, deque()
        self._roll_back(appended, outcomes)

    def _roll_back(
        self, appended: Sequence[AppendedBatch] = (), outcomes: Sequence[CommitCallback] = ()
    ) -> None:
        """Undo newest first, what waits before what is in the log, and only then tell who waits."""
        proposals = [*self._appending, *self._pending]
        self._appending = []
        self._pending.clear()
        for proposal in proposals[::-1]:
            undo(reversed(proposal.changes))
        for batch in reversed(appended):
            undo(reversed(batch.changes))
        for outcome in [*outcomes, *(proposal.outcome for proposal in proposals)]:
            outcome(False)

    def _next_batch(self) -> list[Proposal]:
        proposals = [self._pending.popleft()]
        size = proposals[0].size
        while self._pending and size + self._pending[0].size <= MAX_BATCH_BYTES:
            proposal = self._pending.popleft()
            size += proposal.size
            proposals.append(proposal)
        return proposals

    def on_flush_completed(self) -> None:
        """A flush ended: the turn of what was gathered meanwhile."""
        if self._pending:
            self.append_pending()

    def _end_of_tick(self) -> None:
        self._is_scheduled = False
        if self._may_append():
            self.append_pending()
