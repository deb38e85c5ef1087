"""Routing of requests: the handler of an API, the origin of a request, and the session that it responds through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from quorumd.ports import ANONYMOUS
from quorumd.protocol.connection import Request
from quorumd.protocol.wire import Message

M = TypeVar("M", bound=Message)


@dataclass(slots=True)
class Origin:
    """The sender of a request, and how the request reached this node."""

    peer: str
    """The other end of the connection, for logs."""
    host: str
    """The address of the client, as the hosts of ACLs are written; see `security.acls.java_host`."""
    number: int
    """The number of the connection; newer connections have higher numbers."""
    listener: str = ""
    """The name of the listener that the connection was accepted at."""
    principal: str = ANONYMOUS
    """The principal of the client, as `Type:Name`; see `ports.Transport.principal`."""
    token_authenticated: bool = False
    """Whether the client authenticated with a delegation token, and so must not create tokens."""
    is_controller_client: bool = False
    """Whether the client finds controllers itself (DescribeCluster, endpoint type 2)."""
    is_internal: bool = False
    """Whether this process itself sends the requests, which need no authorization."""
    is_peer: bool = False
    """Whether the connection has been proven to be that of a voter."""
    comes_from_broker: bool = False
    """Whether a broker forwarded the request, after the checks that only brokers can make."""


class Session(Protocol):
    """The source of a request and the destination of its response: a connection or an Envelope around it."""

    origin: Origin

    def respond(self, request: Request[Message], message: Message) -> None: ...

    def respond_immediately(self, request: Request[Message], message: Message) -> None:
        """Respond as `respond` does, but send the response without waiting for the end of the tick."""

    def respond_encoded(self, request: Request[Message], response: bytes) -> None:
        """Respond as `respond` does, with header and message already encoded, by the leader or in slices."""

    def extend(self, message: Message, is_rest: bool = True) -> Session:
        """Add to a response that is encoded in slices what this session adds to responses; return the session that
        sends it unchanged. `is_rest`: whether no further part of the response follows."""

    def respond_nothing(self, request: Request[Message]) -> None:
        """Complete a request that gets no response (Produce with acks=0)."""

    def block(self, request: Request[Message], on_unblocked: Callable[[], None] | None = None) -> None:
        """Queue later requests of this session until this one has its response: one large response at a time.

        `on_unblocked` is called once, when the client has received most of the response or its connection is closed.
        """

    def close(self) -> None:
        """Close the connection without a response."""

    def respond_not_leader(self, request: Request[Message], message: Message) -> None:
        """Respond as `respond` does on a node that is not the leader and where the request has had no effect, so that
        another node may handle it."""


class SlicedTask(Protocol):
    """A long task that can pause after any step and continue in a later iteration of the event loop."""

    def advance(self, budget: int) -> int:
        """Do up to `budget` units of work, but at least one step; return the number of units."""

    @property
    def is_done(self) -> bool: ...


Handler = Callable[[Session, Request[M]], None]
"""Responds exactly once, through a method of the session, immediately or later."""


class Route:
    """The handler of one API, declared for the class of its requests, from `min_version` on."""

    __slots__ = ("api_key", "handler", "min_version")

    def __init__(self, request_class: type[M], handler: Handler[M], min_version: int = 0) -> None:
        assert request_class.API_KEY is not None, f"{request_class.NAME} is not a request"
        self.api_key: int = request_class.API_KEY
        # Requests are decoded by their API key, so a handler receives only messages of its class.
        self.handler = cast("Handler[Message]", handler)
        self.min_version = max(min_version, request_class.MIN_VERSION)
