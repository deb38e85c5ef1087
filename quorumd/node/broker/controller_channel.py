"""Requests of the broker in this process to the active controller, which may also be in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE
from quorumd.node.basics import NodeBasics, QuorumParts
from quorumd.node.broker.local_session import LocalSession
from quorumd.node.peers.connection import Call, Failure
from quorumd.node.peers.connections import PeerConnections
from quorumd.node.peers.discovery import Discovery
from quorumd.node.sessions.router import RequestRouter
from quorumd.protocol.connection import Request
from quorumd.protocol.wire import Message


@dataclass(frozen=True, slots=True)
class ControllerAccess:
    """The parts of the node that channels use."""

    node: NodeBasics
    quorum: QuorumParts
    discovery: Discovery
    router: RequestRouter
    """Routes requests as on the listener of the quorum."""
    next_number: Callable[[], int]
    """Allocates the number of a connection."""
    connect: Callable[[str], PeerConnections]
    """Creates connections of one channel to other nodes, on the listener with the given name."""


class _PendingRequest:
    """One request and its callbacks."""

    __slots__ = ("api_key", "build", "on_failure", "on_response")

    def __init__(
        self,
        api_key: int,
        build: Callable[[int], Message],
        on_response: Callable[[Message], None],
        on_failure: Callable[[Failure], None],
    ) -> None:
        self.api_key = api_key
        self.build = build
        self.on_response = on_response
        self.on_failure = on_failure


class NodeControllerChannel:
    """Implements `ControllerChannel`. Sends one request at a time."""

    def __init__(self, access: ControllerAccess) -> None:
        self._access = access
        self._clock = access.node.clock
        self._settings = access.node.settings
        self._engine = access.quorum.engine
        self._waiting: deque[_PendingRequest] = deque()
        self._in_flight: _PendingRequest | None = None
        self._leader_id = NO_NODE
        """The node to which the request in flight was sent."""
        self._connections: PeerConnections | None = None
        self._local: LocalSession | None = None
        self._request: Request[Message] | None = None
        """The request in flight within this process."""
        self._local_epoch = -1
        """The epoch of this node's leadership in which `_local` was opened."""
        self._is_closed = False

    def send(
        self,
        api_key: int,
        build: Callable[[int], Message],
        on_response: Callable[[Message], None],
        on_failure: Callable[[Failure], None],
    ) -> None:
        """See `ControllerChannel`."""
        self._waiting.append(_PendingRequest(api_key, build, on_response, on_failure))
        self._send_next()

    def leader_changed(self) -> None:
        """Fail the request in flight if its controller no longer leads, since it may never respond."""
        if self._in_flight is None or self._leader_id == self._engine.leader_id:
            return
        self._drop_connections()
        self._fail(self._in_flight, f"node {self._leader_id} is no longer the active controller")

    def close(self) -> None:
        """Close the connections; pending requests get no callback."""
        self._is_closed = True
        self._waiting.clear()
        self._in_flight = None
        self._drop_connections()

    def _drop_connections(self) -> None:
        if self._connections is not None:
            self._connections.close()
            self._connections = None

    def _send_next(self) -> None:
        if self._in_flight is not None or not self._waiting or self._is_closed:
            return
        pending = self._in_flight = self._waiting.popleft()
        access = self._access
        self._leader_id = self._engine.leader_id
        if access.quorum.role.is_active_controller:
            self._send_locally(pending)
        elif self._leader_id == NO_NODE:
            self._fail(pending, "no active controller is known")
        elif self._leader_id == access.quorum.own.id:
            self._fail(pending, "this node is not the active controller yet")
        else:
            self._send_to_leader(pending)

    def _send_to_leader(self, pending: _PendingRequest) -> None:
        access = self._access
        address = access.discovery.address_of(self._leader_id)
        if address is None:
            self._fail(pending, f"the address of node {self._leader_id} is not known")
            return
        if self._connections is None:
            self._connections = access.connect(self._settings.controller_listener_name)

        def on_failure(failure: Failure) -> None:
            self._complete(pending, lambda: pending.on_failure(failure))

        deadline_ms = self._clock.now_ms() + self._settings.request_timeout_ms
        call = Call(
            pending.api_key,
            pending.build,
            lambda response: self._on_response(pending, response),
            on_failure,
            deadline_ms,
        )
        self._connections.call(address.host, address.port, call)

    # Within this process

    def _send_locally(self, pending: _PendingRequest) -> None:
        access = self._access
        self._drop_connections()
        if self._local is None or self._local_epoch != self._engine.epoch:
            self._local = LocalSession(access.next_number(), self)
            self._local_epoch = self._engine.epoch
        versions = access.router.supported_versions.get(pending.api_key)
        if versions is None:
            self._fail(pending, f"API {pending.api_key} is not supported by this node")
            return
        message = pending.build(versions[1])
        request = Request(pending.api_key, versions[1], 0, self._settings.client_id, message, b"", 0)
        self._request = request
        # In a later iteration of the event loop, since the sender is still running.
        session = self._local
        self._clock.call_soon(lambda: self._route(session, request))

    def _route(self, session: LocalSession, request: Request[Message]) -> None:
        if not self._is_closed:
            self._access.router.route(session, request)

    def on_response(self, request: Request[Message], response: Message) -> None:
        """See `local_session.ResponseHandler`."""
        if request is self._request and self._in_flight is not None:
            self._respond_later(self._in_flight, response)

    def on_refused(self, request: Request[Message], reason: str) -> None:
        """See `local_session.ResponseHandler`."""
        if request is self._request and self._in_flight is not None:
            self._fail(self._in_flight, reason)

    def on_closed(self, reason: str) -> None:
        """See `local_session.ResponseHandler`."""
        self._local = None
        if self._request is not None and self._in_flight is not None:
            self._fail(self._in_flight, reason)

    def _respond_later(self, pending: _PendingRequest, response: Message) -> None:
        self._clock.call_soon(lambda: self._on_response(pending, response))

    # Outcomes

    def _on_response(self, pending: _PendingRequest, response: Message) -> None:
        if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
            # A leader refuses AlterPartition on connections from before its leadership.
            self._drop_connections()
            failure = Failure(f"node {self._leader_id} is not the active controller")
            self._complete(pending, lambda: pending.on_failure(failure))
        else:
            self._complete(pending, lambda: pending.on_response(response))

    def _fail(self, pending: _PendingRequest, reason: str) -> None:
        self._clock.call_soon(lambda: self._complete(pending, lambda: pending.on_failure(Failure(reason))))

    def _complete(self, pending: _PendingRequest, callback: Callable[[], None]) -> None:
        """Report an outcome unless the request has had one, then send the next request."""
        if pending is not self._in_flight:
            return
        self._in_flight = self._request = None
        callback()
        self._send_next()
