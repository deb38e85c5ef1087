"""Dispatch of requests: the handler of each API, and the APIs and versions that this node supports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from quorumd.node.sessions.server_session import Session
from quorumd.protocol.apis import APIS
from quorumd.protocol.connection import Request
from quorumd.protocol.wire import Message

M = TypeVar("M", bound=Message)
Handler = Callable[[Session, Request[M]], None]
"""Responds once through a method of the session, at once or later."""


class Route:
    """The handler of one API, declared for the class of its requests, from `min_version` on."""

    __slots__ = ("api_key", "handler", "min_version")

    def __init__(self, request_class: type[M], handler: Handler[M], min_version: int = 0) -> None:
        assert request_class.API_KEY is not None, f"{request_class.NAME} is not a request"
        self.api_key: int = request_class.API_KEY
        # Requests are decoded by their API key, so a handler gets only messages of its class.
        self.handler = cast("Handler[Message]", handler)
        self.min_version = max(min_version, request_class.MIN_VERSION)


class RequestRouter:
    """Passes each request to the handler of its API.

    `spoken` maps each API that has a handler to its versions: what ApiVersions lists and connections accept.
    """

    def __init__(self, private_apis: bool = True) -> None:
        self._private_apis = private_apis
        self._handlers: dict[int, Handler[Message]] = {}
        self.spoken: dict[int, tuple[int, int]] = {}

    def add(self, routes: Iterable[Route]) -> None:
        """Register handlers; private APIs only if this node supports them."""
        for route in routes:
            api = APIS[route.api_key]
            if api.private and not self._private_apis:
                continue
            self._handlers[route.api_key] = route.handler
            self.spoken[route.api_key] = (route.min_version, api.max_version)

    def route(self, session: Session, request: Request[Message]) -> None:
        """Call the handler of an API and version that `spoken` contains."""
        self._handlers[request.api_key](session, request)
