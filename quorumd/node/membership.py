"""What a node does by itself for its place in the cluster: registration, vote, address in its voter record."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.ids import Endpoint
from quorumd.node.auto_join import AutoJoin
from quorumd.node.own_registration import OwnRegistration
from quorumd.node.own_voter import OwnVoter
from quorumd.ports import Clock, Timer

LOOK_MS = 250.0


class Membership:
    """`own_endpoint()`: where this node is reached. `registration` is None for a node that does not register,
    `auto_join` for one that gets its vote from an operator."""

    def __init__(
        self,
        clock: Clock,
        own_endpoint: Callable[[], Endpoint],
        voter: OwnVoter,
        registration: OwnRegistration | None,
        auto_join: AutoJoin | None,
    ) -> None:
        self.registration = registration
        self._clock = clock
        self._own_endpoint = own_endpoint
        self._voter = voter
        self._periodic = [each.look for each in (registration, auto_join) if each is not None]
        self._timer: Timer | None = None

    def start(self) -> None:
        """Look from now on, until `stop`."""
        if self._periodic:
            self._look_later()

    def stop(self) -> None:
        """Request nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def update_voter(self) -> None:
        """See that the voter record names the address of this node."""
        self._voter.look(self._own_endpoint())

    def _look_later(self) -> None:
        self._timer = self._clock.call_at(self._clock.now_ms() + LOOK_MS, self._look)

    def _look(self) -> None:
        for look in self._periodic:
            look(self._own_endpoint())
        self._look_later()
