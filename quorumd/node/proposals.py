"""Records of many requests become one batch: gathered, appended, answered when committed.

What arrives in one turn of the loop, or while a flush is running, is one batch (group commit). The image is
changed when a record is proposed, so that the next request is planned against it, and the changes are kept until
the record is committed: losing leadership takes them back, newest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from quorumd.controller.cluster_image import Change, undo

Outcome = Callable[[bool], None]
"""Called once: True when the records are committed, False when this node can no longer tell."""


class Proposals:
    """Waiting records, appended but uncommitted ones, and who waits for them.

    `append(values)` puts one batch of record values into the log and returns its end offset, or None when the
    log takes none (not leader any more, or no room); it is called from `gather` only.
    """

    def __init__(
        self,
        append: Callable[[Sequence[bytes]], int | None],
        schedule: Callable[[Callable[[], None]], None],
        may_append: Callable[[], bool],
        now_ms: Callable[[], float],
        on_latency: Callable[[float, int], None],
        max_batch_bytes: int,
    ) -> None:
        self._append = append
        self._schedule = schedule
        self._may_append = may_append
        self._now_ms = now_ms
        self._on_latency = on_latency
        self._max_batch_bytes = max_batch_bytes
        self._scheduled = False
        self._values: list[bytes] = []
        self._changes: list[Change] = []
        self._outcomes: list[Outcome] = []
        self._appended: deque[tuple[int, float, int, list[Change], list[Outcome]]] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is proposed that is not committed."""
        return not self._values and not self._appended

    @property
    def end_offset(self) -> int | None:
        """The end offset of the newest uncommitted batch, None without one."""
        return self._appended[-1][0] if self._appended else None

    @property
    def has_waiting(self) -> bool:
        """Whether records wait to be appended."""
        return bool(self._values)

    def propose(self, values: Sequence[bytes], changes: Sequence[Change], outcome: Outcome) -> None:
        """Append these record values together, atomically. `changes` are already made to the image."""
        self._values.extend(values)
        self._changes.extend(changes)
        self._outcomes.append(outcome)
        if not self._scheduled:
            self._scheduled = True
            self._schedule(self._turn_ended)

    def gather(self) -> None:
        """Append what waits as one batch."""
        if not self._values:
            return
        values, changes, outcomes = self._values, self._changes, self._outcomes
        self._values, self._changes, self._outcomes = [], [], []
        end_offset = self._append(values)
        if end_offset is None:
            undo(reversed(changes))
            for outcome in outcomes:
                outcome(False)
            return
        self._appended.append((end_offset, self._now_ms(), len(values), changes, outcomes))

    def when_settled(self, outcome: Outcome) -> None:
        """Call `outcome` as soon as all that is proposed now is committed, or lost."""
        self.gather()
        if self._appended:
            self._appended[-1][4].append(outcome)
        else:
            outcome(True)

    def committed(self, high_watermark: int) -> None:
        """Everything below the high watermark is committed."""
        now = self._now_ms()
        while self._appended and self._appended[0][0] <= high_watermark:
            _, appended_at, count, _, outcomes = self._appended.popleft()
            self._on_latency(now - appended_at, count)
            for outcome in outcomes:
                outcome(True)

    def lost(self) -> None:
        """This node leads no longer: what is not committed may or may not become so without it."""
        waiting = self._outcomes
        undo(reversed(self._changes))
        self._values, self._changes, self._outcomes = [], [], []
        while self._appended:
            _, _, _, changes, outcomes = self._appended.pop()
            undo(reversed(changes))
            waiting = outcomes + waiting
        for outcome in waiting:
            outcome(False)

    def _turn_ended(self) -> None:
        self._scheduled = False
        if self._may_append():
            self.gather()
