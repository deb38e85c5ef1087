"""A log to which nothing is appended gets a NoOpRecord now and then (metadata.max.idle.interval.ms).

Whoever follows it then learns that it is up to date, and how long ago it was.
"""

from __future__ import annotations

from collections.abc import Callable

from quorumd.node.state.metadata_writer import MetadataWriter
from quorumd.node.state.proposals import Proposals
from quorumd.ports import Clock, Timer


class NoOpWriter:
    """`may_write()`: whether records can be written now. With an interval of 0 nothing is written."""

    def __init__(
        self,
        interval_ms: float,
        clock: Clock,
        proposals: Proposals,
        writer: MetadataWriter,
        may_write: Callable[[], bool],
    ) -> None:
        self._interval_ms = interval_ms
        self._clock = clock
        self._proposals = proposals
        self._writer = writer
        self._may_write = may_write
        self._timer: Timer | None = None

    def begin(self) -> None:
        """This node decides from now on."""
        if self._interval_ms > 0:
            self._schedule(self._clock.now_ms() + self._interval_ms)

    def stop(self) -> None:
        """This node decides no longer."""
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, due: float) -> None:
        self._timer = self._clock.call_at(due, self._write_if_idle)

    def _write_if_idle(self) -> None:
        """What waits to be committed is news enough: without a majority one NoOpRecord waits, not many."""
        now, proposals = self._clock.now_ms(), self._proposals
        due = proposals.last_appended_ms + self._interval_ms
        if proposals.is_empty and due <= now and self._may_write():
            self._writer.write_no_op()
        self._schedule(due if due > now else now + self._interval_ms)
