"""Forwards commits, flushes and elections to the parts of the node, in the order of their dependencies."""

from __future__ import annotations

from quorumd.node.api.context import ApiContext
from quorumd.node.broker.role import NodeBroker
from quorumd.node.consensus.high_watermark_checkpointer import HighWatermarkCheckpointer
from quorumd.node.consensus.voter_log import VoterLog
from quorumd.node.controller.leadership import Leadership


class CommitListeners:
    """The `ProgressListener` of the runner. The image is updated before waiting clients get their responses."""

    def __init__(
        self,
        context: ApiContext,
        voter_log: VoterLog,
        checkpointer: HighWatermarkCheckpointer,
        leadership: Leadership,
        broker: NodeBroker | None,
    ) -> None:
        self._engine = context.quorum.engine
        self._log = context.quorum.log
        self._state_machine = context.metadata.state_machine
        self._proposals = context.metadata.proposals
        self._discovery = context.peers.discovery
        self._monitor = context.peers.monitor
        self._voter_log = voter_log
        self._checkpointer = checkpointer
        self._leadership = leadership
        self._broker = broker

    def committed(self, high_watermark: int) -> None:
        """Handle a new high watermark."""
        self._monitor.committed()
        self._state_machine.committed(high_watermark)
        self._proposals.committed(high_watermark)
        self._voter_log.committed(high_watermark)
        self._checkpointer.save_if_sealed(self._log.active_base_offset)
        self._leadership.committed()
        if self._broker is not None:
            self._broker.committed(high_watermark)

    def on_flush_completed(self) -> None:
        """Append the records that accumulated during a flush of the log."""
        self._proposals.on_flush_completed()
        self._checkpointer.save_if_sealed(self._log.active_base_offset)

    def leadership_changed(self) -> None:
        """Handle a change of role, epoch or leader."""
        self._leadership.changed()
        if self._engine.leader_id >= 0:
            self._discovery.announce_to(self._engine.leader_id)
        self._monitor.leadership_changed()
        if self._broker is not None:
            self._broker.leadership_changed()
