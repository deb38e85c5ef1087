"""Activates the controller when this node becomes leader, and undoes uncommitted changes when it loses leadership."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quorumd.node.basics import QuorumParts
from quorumd.node.controller.runner import ControllerRunner
from quorumd.node.state.bootstrap_records import propose_bootstrap_records
from quorumd.node.state.proposals import Proposals
from quorumd.node.state.state_machine import StateMachine
from quorumd.protocol.wire import Message


class Leadership:
    """Starts and stops the active controller.

    A new leader replicates, but plans nothing before the image holds all records that the log had at its election.
    `bootstrap` is the list of records that an empty log begins with. `next_session()` returns the number of the next
    connection that is accepted.
    """

    def __init__(
        self,
        quorum: QuorumParts,
        state_machine: StateMachine,
        proposals: Proposals,
        controller: ControllerRunner,
        bootstrap: Sequence[Message],
        next_session: Callable[[], int],
    ) -> None:
        self._is_leading = False
        self._is_bootstrapped = False
        self._role = quorum.role
        self._engine = quorum.engine
        self._log = quorum.log
        self._state_machine = state_machine
        self._proposals = proposals
        self._controller = controller
        self._bootstrap = bootstrap
        self._next_session = next_session

    def changed(self) -> None:
        """Handle a possible change of this node's role. Raises StorageError if the log cannot be applied."""
        if self._engine.is_leader and not self._is_leading:
            self._is_leading = True
            self._controller.lead(self._next_session())
            if self._engine.high_watermark < self._log.end_offset:
                self._proposals.await_uncommitted(self._log.end_offset)
            self._state_machine.lead(self._activate)
        elif self._is_leading and not self._engine.is_leader:
            self._is_leading = self._role.is_image_complete = self._is_bootstrapped = False
            self._controller.on_leadership_lost()
            self._proposals.on_leadership_lost()
            self._state_machine.on_leadership_lost()

    def committed(self) -> None:
        """After the first commit in this epoch, propose the bootstrap records that the image lacks."""
        if self._role.is_image_complete and not self._is_bootstrapped and self._engine.high_watermark >= 0:
            self._is_bootstrapped = True
            min_insync_replicas = self._controller.controller.settings.min_insync_replicas
            propose_bootstrap_records(
                self._state_machine, self._bootstrap, min_insync_replicas, self._proposals
            )

    def _activate(self) -> None:
        self._role.is_image_complete = True
        self._controller.activate()
        self.committed()
