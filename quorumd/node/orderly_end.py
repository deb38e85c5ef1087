"""How a node leaves in good order: what is proposed is finished, leadership handed over, the folder tidied."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.errors import StorageError
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.high_watermark_saver import HighWatermarkSaver
from quorumd.node.proposals import Proposals
from quorumd.node.raft_runner import RaftRunner
from quorumd.ports import Clock
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import ShutDown

HAND_OVER_MS = 5000.0
DRAIN_MS = 500.0
POLL_MS = 5.0


class OrderlyEnd:
    """`begin` once; `done(error)` when all is tidy, with the error that kept it from being so. `is_stopped()`: the
    node ended otherwise meanwhile."""

    def __init__(
        self,
        clock: Clock,
        engine: RaftEngine,
        log: SegmentedLog,
        runner: RaftRunner,
        proposals: Proposals,
        high_watermark: HighWatermarkSaver,
        is_stopped: Callable[[], bool],
        done: Callable[[StorageError | None], None],
    ) -> None:
        self.has_begun = False
        self._clock = clock
        self._engine = engine
        self._log = log
        self._runner = runner
        self._proposals = proposals
        self._high_watermark = high_watermark
        self._is_stopped = is_stopped
        self._done = done

    @property
    def is_ending(self) -> bool:
        """Whether the node stops or has stopped, in good order or otherwise."""
        return self.has_begun or self._is_stopped()

    def begin(self) -> None:
        if self.has_begun or self._is_stopped():
            return
        self.has_begun = True
        now = self._clock.now_ms()
        self._drain(now + DRAIN_MS, now + HAND_OVER_MS)

    def _drain(self, drain_ends: float, hand_over_ends: float) -> None:
        now = self._clock.now_ms()
        if self._is_stopped():
            return
        if self._engine.is_leader and not self._proposals.is_empty and now < drain_ends:
            self._clock.call_at(now + POLL_MS, lambda: self._drain(drain_ends, hand_over_ends))
            return
        self._runner.step(ShutDown())
        self._wait_for_hand_over(hand_over_ends)

    def _wait_for_hand_over(self, ends: float) -> None:
        now = self._clock.now_ms()
        if self._is_stopped():
            return
        busy = self._runner.is_flushing or self._runner.is_saving
        if (not self._engine.handed_over and now < ends) or busy:
            self._clock.call_at(now + POLL_MS, lambda: self._wait_for_hand_over(ends))
            return
        try:
            self._log.close()
            self._high_watermark.save_last(min(self._engine.high_watermark, self._log.end_offset))
        except StorageError as error:
            self._done(error)
            return
        self._done(None)
