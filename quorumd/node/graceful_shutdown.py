"""How a node leaves in good order: what is proposed is finished, leadership handed over, the folder tidied."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.errors import StorageError
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.consensus.high_watermark_checkpointer import HighWatermarkCheckpointer
from quorumd.node.consensus.raft_runner import RaftRunner
from quorumd.node.state.proposals import Proposals
from quorumd.ports import Clock
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import ShutdownRequested

HANDOVER_TIMEOUT_MS = 5000.0
DRAIN_TIMEOUT_MS = 500.0
POLL_MS = 5.0


class GracefulShutdown:
    """`begin` once; `done(error)` when all is tidy, with the error that kept it from being so. `is_stopped()`: the
    node ended otherwise meanwhile."""

    def __init__(
        self,
        clock: Clock,
        engine: RaftEngine,
        log: SegmentedLog,
        runner: RaftRunner,
        proposals: Proposals,
        high_watermark: HighWatermarkCheckpointer,
        is_stopped: Callable[[], bool],
        on_done: Callable[[StorageError | None], None],
    ) -> None:
        self.is_started = False
        self._clock = clock
        self._engine = engine
        self._log = log
        self._runner = runner
        self._proposals = proposals
        self._high_watermark = high_watermark
        self._is_stopped = is_stopped
        self._on_done = on_done

    @property
    def is_stopping(self) -> bool:
        """Whether the node stops or has stopped, in good order or otherwise."""
        return self.is_started or self._is_stopped()

    def begin(self) -> None:
        if self.is_started or self._is_stopped():
            return
        self.is_started = True
        now = self._clock.now_ms()
        self._drain(now + DRAIN_TIMEOUT_MS, now + HANDOVER_TIMEOUT_MS)

    def _drain(self, drain_deadline: float, handover_deadline: float) -> None:
        now = self._clock.now_ms()
        if self._is_stopped():
            return
        if self._engine.is_leader and not self._proposals.is_empty and now < drain_deadline:
            self._clock.call_at(now + POLL_MS, lambda: self._drain(drain_deadline, handover_deadline))
            return
        self._runner.step(ShutdownRequested())
        self._await_handover(handover_deadline)

    def _await_handover(self, deadline: float) -> None:
        now = self._clock.now_ms()
        if self._is_stopped():
            return
        is_disk_busy = self._runner.is_flushing or self._runner.is_saving
        if (not self._engine.handover_complete and now < deadline) or is_disk_busy:
            self._clock.call_at(now + POLL_MS, lambda: self._await_handover(deadline))
            return
        try:
            self._log.close()
            self._high_watermark.save_blocking(min(self._engine.high_watermark, self._log.end_offset))
        except StorageError as error:
            self._on_done(error)
            return
        self._on_done(None)
