"""Graceful shutdown of a node: finish proposals, hand over leadership, close the log."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.errors import DiskFull, ExitCode, StorageError
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.consensus.high_watermark_checkpointer import HighWatermarkCheckpointer
from quorumd.node.consensus.leader_role import LeaderRole
from quorumd.node.consensus.raft_runner import RaftRunner
from quorumd.node.lifecycle import Lifecycle
from quorumd.node.state.proposals import Proposals
from quorumd.ports import Clock
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import ShutdownRequested

HANDOVER_TIMEOUT_MS = 5000.0
DRAIN_TIMEOUT_MS = 500.0
POLL_MS = 5.0


class GracefulShutdown:
    """Finishes proposals, hands over leadership, closes the log, and stops the node.

    `shut_down_broker(on_done)`: shuts down the broker in this process first, which may need this node as controller.
    """

    def __init__(
        self,
        clock: Clock,
        engine: RaftEngine,
        log: SegmentedLog,
        runner: RaftRunner,
        proposals: Proposals,
        high_watermark: HighWatermarkCheckpointer,
        role: LeaderRole,
        lifecycle: Lifecycle,
    ) -> None:
        self._clock = clock
        self._engine = engine
        self._log = log
        self._runner = runner
        self._proposals = proposals
        self._high_watermark = high_watermark
        self._role = role
        self._lifecycle = lifecycle
        self._has_begun = False
        self.shut_down_broker: Callable[[Callable[[], None]], None] = lambda on_done: on_done()

    @property
    def is_stopping(self) -> bool:
        """Whether the node is stopping or has stopped, gracefully or otherwise."""
        return self._has_begun or self._lifecycle.is_stopped

    def begin(self) -> None:
        """Start the shutdown; does nothing if it has started or the node has stopped."""
        if self.is_stopping:
            return
        self._has_begun = True
        self.shut_down_broker(self._hand_over)

    def _hand_over(self) -> None:
        self._role.is_handing_over = True
        now = self._clock.now_ms()
        self._drain(now + DRAIN_TIMEOUT_MS, now + HANDOVER_TIMEOUT_MS)

    def _drain(self, drain_deadline: float, handover_deadline: float) -> None:
        now = self._clock.now_ms()
        if self._lifecycle.is_stopped:
            return
        if self._engine.is_leader and not self._proposals.is_empty and now < drain_deadline:
            self._clock.call_at(now + POLL_MS, lambda: self._drain(drain_deadline, handover_deadline))
            return
        self._runner.step(ShutdownRequested())
        self._await_handover(handover_deadline)

    def _await_handover(self, deadline: float) -> None:
        now = self._clock.now_ms()
        if self._lifecycle.is_stopped:
            return
        is_disk_busy = self._runner.is_flushing or self._runner.is_saving
        if (not self._engine.handover_complete and now < deadline) or is_disk_busy:
            self._clock.call_at(now + POLL_MS, lambda: self._await_handover(deadline))
            return
        try:
            self._log.close()
            self._high_watermark.save_blocking(min(self._engine.high_watermark, self._log.end_offset))
        except DiskFull as error:
            self._lifecycle.file_written(error)
        except StorageError as error:
            self._lifecycle.fail(error)
            return
        self._lifecycle.stop(ExitCode.DONE, "")
