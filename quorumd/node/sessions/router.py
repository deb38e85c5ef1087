"""API key -> handler; which APIs are spoken here and in which versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quorumd.node.sessions.server_session import Session
from quorumd.protocol.apis import APIS
from quorumd.protocol.connection import Request

Handler = Callable[[Session, Request], None]
"""Answers through `session.respond(request, message)`, now or later, once."""


class RequestRouter:
    """Hands each request to the handler of its API.

    `spoken` holds just the APIs that have a handler: what ApiVersions tells, and what connections accept.
    """

    def __init__(self, private_apis: bool = True) -> None:
        self._private_apis = private_apis
        self._handlers: dict[int, Handler] = {}
        self.spoken: dict[int, tuple[int, int]] = {}

    def add(self, handlers: Iterable[tuple[int, Handler]]) -> None:
        """Register handlers by API key, each with all the versions that the schemas know; those of private APIs only
        where this node speaks them."""
        for api_key, handler in handlers:
            if APIS[api_key].private and not self._private_apis:
                continue
            self._handlers[api_key] = handler
            self.spoken[api_key] = (APIS[api_key].min_version, APIS[api_key].max_version)

    def route(self, session: Session, request: Request) -> None:
        """Call the handler. The connection has checked that the API and version are spoken."""
        self._handlers[request.api_key](session, request)
