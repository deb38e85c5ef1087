"""Runs a node's registration, its request for a vote and the update of its voter record."""

from __future__ import annotations

from quorumd.ids import Endpoint
from quorumd.node.api.context import ApiContext
from quorumd.node.membership.auto_join import AutoJoin
from quorumd.node.membership.controller_registration import ControllerRegistration
from quorumd.node.membership.voter_endpoint_update import VoterEndpointUpdate
from quorumd.ports import Clock, Entropy, Timer

INTERVAL_MS = 250.0


class MembershipManager:
    """Runs the requests of a node periodically.

    `registration` is None if the node does not register, `auto_join` if only an operator makes it a voter.
    """

    def __init__(
        self,
        clock: Clock,
        own_endpoints: tuple[Endpoint, ...],
        voter: VoterEndpointUpdate,
        registration: ControllerRegistration | None,
        auto_join: AutoJoin | None,
    ) -> None:
        self.registration = registration
        self._clock = clock
        self._own_endpoints = own_endpoints
        self._voter = voter
        self._periodic = [each.update for each in (registration, auto_join) if each is not None]
        self._timer: Timer | None = None

    def start(self) -> None:
        """Run the periodic updates until `stop`."""
        if self._periodic:
            self._schedule()

    def stop(self) -> None:
        """Stop the periodic updates."""
        if self._timer is not None:
            self._timer.cancel()

    def update_voter(self) -> None:
        """Update the voter record if its endpoints differ from this node's."""
        self._voter.update(self._own_endpoints)

    def _schedule(self) -> None:
        self._timer = self._clock.call_at(self._clock.now_ms() + INTERVAL_MS, self._tick)

    def _tick(self) -> None:
        for update in self._periodic:
            update(self._own_endpoints)
        self._schedule()


def create_membership_manager(
    context: ApiContext, entropy: Entropy, own_endpoints: tuple[Endpoint, ...]
) -> MembershipManager:
    """Create the manager of a node, with the tasks that its settings enable."""
    node, quorum, call_leader = context.node, context.quorum, context.peers.call_leader
    voter = VoterEndpointUpdate(node, quorum, call_leader)
    registration = auto_join = None
    if node.settings.registers:
        incarnation_id = entropy.uuid()
        registration = ControllerRegistration(
            incarnation_id, node, quorum.role, context.metadata, call_leader
        )
    if node.settings.auto_join:
        auto_join = AutoJoin(node, quorum, call_leader)
    return MembershipManager(node.clock, own_endpoints, voter, registration, auto_join)
