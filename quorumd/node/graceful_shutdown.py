"""Graceful shutdown of a node: finish proposals, hand over leadership, close the log."""

from __future__ import annotations

from quorumd.errors import DiskFull, ExitCode, StorageError
from quorumd.node.basics import QuorumParts
from quorumd.node.broker.role import NodeBroker
from quorumd.node.consensus.high_watermark_checkpointer import HighWatermarkCheckpointer
from quorumd.node.consensus.raft_runner import RaftRunner
from quorumd.node.lifecycle import Lifecycle
from quorumd.node.state.proposals import Proposals
from quorumd.ports import Clock
from quorumd.raft.events import ShutdownRequested

HANDOVER_TIMEOUT_MS = 5000.0
DRAIN_TIMEOUT_MS = 500.0
POLL_MS = 5.0


class GracefulShutdown:
    """Finishes proposals, hands over leadership, closes the log, and stops the node.

    The broker in this process shuts down before that: it may need this node as controller.
    """

    def __init__(
        self,
        clock: Clock,
        quorum: QuorumParts,
        runner: RaftRunner,
        proposals: Proposals,
        high_watermark: HighWatermarkCheckpointer,
        lifecycle: Lifecycle,
        broker: NodeBroker | None,
    ) -> None:
        self._clock = clock
        self._engine = quorum.engine
        self._log = quorum.log
        self._runner = runner
        self._proposals = proposals
        self._high_watermark = high_watermark
        self._role = quorum.role
        self._lifecycle = lifecycle
        self._broker = broker

    def begin(self) -> None:
        """Start the shutdown; does nothing if it has started or the node has stopped."""
        if not self._lifecycle.begin_shutdown():
            return
        if self._broker is None:
            self._hand_over()
        else:
            self._broker.shut_down(self._hand_over)

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
