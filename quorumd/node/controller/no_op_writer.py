"""Appends a NoOpRecord to an idle log once per metadata.max.idle.interval.ms.

Replicas of an idle log know from this record that they are caught up, and since when.
"""

from __future__ import annotations

from collections.abc import Callable

from quorumd.node.state.metadata_writer import MetadataWriter
from quorumd.node.state.proposals import Proposals
from quorumd.ports import Clock, Timer


class NoOpWriter:
    """Writes the records, unless the interval is 0. `can_write()` returns whether records can be written now."""

    def __init__(
        self,
        interval_ms: float,
        clock: Clock,
        proposals: Proposals,
        writer: MetadataWriter,
        can_write: Callable[[], bool],
    ) -> None:
        self._interval_ms = interval_ms
        self._clock = clock
        self._proposals = proposals
        self._writer = writer
        self._can_write = can_write
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Start when this node becomes the active controller."""
        if self._interval_ms > 0:
            self._schedule(self._clock.now_ms() + self._interval_ms)

    def stop(self) -> None:
        """Stop when this node loses leadership."""
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, due: float) -> None:
        self._timer = self._clock.call_at(due, self._write_if_idle)

    def _write_if_idle(self) -> None:
        """Write a record unless another is uncommitted: without a majority, records would accumulate."""
        now, proposals = self._clock.now_ms(), self._proposals
        due = proposals.last_appended_ms + self._interval_ms
        if proposals.is_empty and due <= now and self._can_write():
            self._writer.write_no_op()
        self._schedule(due if due > now else now + self._interval_ms)
