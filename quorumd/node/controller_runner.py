"""The controller inside a node: it decides while the node leads, and fences brokers that fell silent."""

from __future__ import annotations

import logging
from collections.abc import Callable

from quorumd.controller.controller import Controller, ControllerSettings
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.cluster_identity import ClusterIdentity
from quorumd.node.metadata_writer import MetadataWriter
from quorumd.node.proposals import Proposals
from quorumd.node.state_machine import StateMachine
from quorumd.ports import Clock, Entropy, Timer

logger = logging.getLogger("quorumd.controller")

LOOKS_A_SESSION = 8
LONGEST_WAIT_MS = 500.0


class ControllerRunner:
    """`controller` is for planning while the node leads (`leads()`), `writer` for what is planned."""

    def __init__(
        self,
        settings: ControllerSettings,
        clock: Clock,
        entropy: Entropy,
        identity: ClusterIdentity,
        log: SegmentedLog,
        state_machine: StateMachine,
        proposals: Proposals,
        leads: Callable[[], bool],
    ) -> None:
        self.controller = Controller(
            settings,
            lambda: identity.cluster_id,
            clock.now_ms,
            lambda: log.end_offset + proposals.waiting_records,
            entropy.uuid,
        )
        self.writer = MetadataWriter(log.has_room, state_machine, proposals)
        self._clock = clock
        self._state_machine = state_machine
        self._leads = leads
        self._wait_ms = min(settings.broker_session_timeout_ms / LOOKS_A_SESSION, LONGEST_WAIT_MS)
        self._timer: Timer | None = None

    def lead(self) -> None:
        """The image is that of the whole log now. Every broker begins a whole session: nobody knows when the leader
        before this one heard of it."""
        controller = self.controller
        controller.image = self._state_machine.image
        alive = [broker.id for broker in controller.image.brokers.values() if not broker.is_fenced]
        controller.sessions.begin(alive, self._clock.now_ms())

    def lost_leadership(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
