"""The periodic background work of a node: checkpoints, snapshots and its own voter record."""

from __future__ import annotations

from quorumd.node.basics import NodeBasics
from quorumd.node.consensus.high_watermark_checkpointer import HighWatermarkCheckpointer
from quorumd.node.lifecycle import Lifecycle
from quorumd.node.membership.manager import MembershipManager
from quorumd.node.snapshots.manager import SnapshotManager


class Maintenance:
    """Runs the work once per interval until the node stops."""

    def __init__(
        self,
        node: NodeBasics,
        lifecycle: Lifecycle,
        checkpointer: HighWatermarkCheckpointer,
        membership: MembershipManager,
        snapshots: SnapshotManager,
    ) -> None:
        self._clock = node.clock
        self._interval_ms = node.settings.maintenance_interval_ms
        self._lifecycle = lifecycle
        self._checkpointer = checkpointer
        self._membership = membership
        self._snapshots = snapshots

    def start(self) -> None:
        """Run for the first time after one interval."""
        self._clock.call_at(self._clock.now_ms() + self._interval_ms, self._run)

    def _run(self) -> None:
        if self._lifecycle.is_stopped:
            return
        self._checkpointer.save()
        self._membership.update_voter()
        self._lifecycle.run_guarded(self._maintain_snapshots)
        self.start()

    def _maintain_snapshots(self) -> None:
        # A snapshot must not end beyond the checkpoint: the next start would treat the missing log up to there as
        # damage.
        self._snapshots.maintain(self._checkpointer.durable_checkpoint)
