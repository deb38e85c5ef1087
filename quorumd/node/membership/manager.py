"""What a node does by itself for its place in the cluster: registration, vote, address in its voter record."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.ids import Endpoint
from quorumd.node.membership.auto_join import AutoJoin
from quorumd.node.membership.controller_registration import ControllerRegistration
from quorumd.node.membership.voter_endpoint_update import VoterEndpointUpdate
from quorumd.ports import Clock, Timer

INTERVAL_MS = 250.0


class MembershipManager:
    """`own_endpoint()`: where this node is reached. `registration` is None for a node that does not register,
    `auto_join` for one that gets its vote from an operator."""

    def __init__(
        self,
        clock: Clock,
        own_endpoint: Callable[[], Endpoint],
        voter: VoterEndpointUpdate,
        registration: ControllerRegistration | None,
        auto_join: AutoJoin | None,
    ) -> None:
        self.registration = registration
        self._clock = clock
        self._own_endpoint = own_endpoint
        self._voter = voter
        self._periodic = [each.update for each in (registration, auto_join) if each is not None]
        self._timer: Timer | None = None

    def start(self) -> None:
        """Look from now on, until `stop`."""
        if self._periodic:
            self._schedule()

    def stop(self) -> None:
        """Request nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def update_voter(self) -> None:
        """See that the voter record names the address of this node."""
        self._voter.update(self._own_endpoint())

    def _schedule(self) -> None:
        self._timer = self._clock.call_at(self._clock.now_ms() + INTERVAL_MS, self._tick)

    def _tick(self) -> None:
        for update in self._periodic:
            update(self._own_endpoint())
        self._schedule()
