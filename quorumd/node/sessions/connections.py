"""The accepted connections of a node."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.node.sessions.context import SessionContext
from quorumd.node.sessions.router import RequestRouter
from quorumd.node.sessions.server_session import ServerSession
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.ports import Connection, Transport


class RejectedConnection:
    """A connection that is closed immediately; the client retries, here or at another node."""

    def connected(self, transport: Transport) -> None:
        transport.close()

    def received(self, data: bytes) -> None: ...

    def closed(self, reason: str, refused: bool) -> None: ...


class IncomingConnections:
    """Accepts connections."""

    def __init__(self, router: RequestRouter, context: SessionContext) -> None:
        self.next_number = 0
        """The number of the next session; numbers increase."""
        self.serves: Callable[[str], bool] = lambda listener: True
        """Whether connections to a listener are accepted yet."""
        self._router = router
        self._context = context
        node = context.node
        self._scheduler = SliceScheduler(node.clock.call_soon, node.settings.slice_partitions, node.paying)
        self._sessions: dict[ServerSession, None] = {}

    def allocate_number(self) -> int:
        """Allocate the number of a session, also of one without a connection."""
        self.next_number += 1
        return self.next_number - 1

    def accept(self, listener: str) -> Connection:
        """Create the session of a connection that is being accepted by the listener with this name."""
        if not self.serves(listener):
            return RejectedConnection()
        number = self.allocate_number()
        session = ServerSession(
            self._context, self._router, self._scheduler, listener, number, on_closed=self._closed
        )
        self._sessions[session] = None
        return session

    def close(self) -> None:
        """Close all sessions."""
        for session in list(self._sessions):
            session.close()

    def _closed(self, session: ServerSession) -> None:
        self._sessions.pop(session, None)
