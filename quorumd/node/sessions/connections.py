"""The accepted connections of a node."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.node.sessions.authentication import Authenticator
from quorumd.node.sessions.fair_shares import FairShares
from quorumd.node.sessions.router import RequestRouter
from quorumd.node.sessions.server_session import ServerSession
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.sessions.throttle import Throttle
from quorumd.node.settings import NodeSettings
from quorumd.node.statistics import NodeStatistics
from quorumd.node.tick import Tick
from quorumd.ports import Clock, Connection, Transport
from quorumd.quotas.client_quotas import ClientQuotas


class RejectedConnection:
    """A connection that is closed at once; the client retries, here or at another node."""

    def connected(self, transport: Transport) -> None:
        transport.close()

    def received(self, data: bytes) -> None: ...

    def closed(self, reason: str, refused: bool) -> None: ...


class IncomingConnections:
    """Accepts connections. `next_number`: the number of the next session; numbers increase.

    `serves(listener)`: whether connections to a listener are accepted yet.
    """

    def __init__(
        self,
        router: RequestRouter,
        settings: NodeSettings,
        clock: Clock,
        statistics: NodeStatistics,
        tick: Tick,
        authenticator: Authenticator,
        shares: FairShares,
        quotas: ClientQuotas,
    ) -> None:
        self.next_number = 0
        self.serves: Callable[[str], bool] = lambda listener: True
        self._router = router
        self._max_request_bytes = settings.max_request_bytes
        self._large_request_bytes = settings.large_request_bytes
        self._clock = clock
        self._statistics = statistics
        self._tick = tick
        self._authenticator = authenticator
        self._shares = shares
        self.quotas = quotas
        self._scheduler = SliceScheduler(clock.call_soon, settings.slice_partitions)
        self._sessions: dict[ServerSession, None] = {}

    def allocate_number(self) -> int:
        """Allocate the number of a session, also of one without a connection."""
        self.next_number += 1
        return self.next_number - 1

    def accept(self, listener: str) -> Connection:
        """Create the session of a connection that is being accepted by the listener with this name."""
        if not self.serves(listener):
            return RejectedConnection()
        session = ServerSession(
            self._router.route,
            self._router.supported_versions,
            self._max_request_bytes,
            self._clock,
            self._statistics,
            self._tick,
            self._scheduler,
            self._closed,
            self.allocate_number(),
            self._large_request_bytes,
            listener,
            self._authenticator.for_connection(listener),
            self._shares,
            Throttle(self.quotas, self._clock),
        )
        self._sessions[session] = None
        return session

    def close(self) -> None:
        """Close all sessions."""
        for session in list(self._sessions):
            session.close()

    def _closed(self, session: ServerSession) -> None:
        self._sessions.pop(session, None)
