"""The connections that others opened to this node."""

from __future__ import annotations

from quorumd.node.request_router import RequestRouter
from quorumd.node.server_session import ServerSession
from quorumd.node.settings import NodeSettings
from quorumd.node.sliced_work import SlicedWork
from quorumd.node.statistics import NodeStatistics
from quorumd.node.turn import Turn
from quorumd.ports import Clock


class IncomingConnections:
    """`next_number`: that of the session that is accepted next; they grow."""

    def __init__(
        self,
        router: RequestRouter,
        settings: NodeSettings,
        clock: Clock,
        statistics: NodeStatistics,
        turn: Turn,
    ) -> None:
        self.next_number = 0
        self._router = router
        self._max_request_bytes = settings.max_request_bytes
        self._clock = clock
        self._statistics = statistics
        self._turn = turn
        self._sliced = SlicedWork(clock.call_soon, settings.slice_partitions)
        self._sessions: dict[ServerSession, None] = {}

    def accept(self) -> ServerSession:
        """A session for a connection that is being accepted."""
        session = ServerSession(
            self._router.route,
            self._router.spoken,
            self._max_request_bytes,
            self._clock,
            self._statistics,
            self._turn,
            self._sliced,
            self._closed,
            self.next_number,
        )
        self.next_number += 1
        self._sessions[session] = None
        return session

    def close(self) -> None:
        """Close them all."""
        for session in list(self._sessions):
            session.close()

    def _closed(self, session: ServerSession) -> None:
        self._sessions.pop(session, None)
