"""Routes requests to the handler of their API, and lists the APIs and versions that this node supports."""

from __future__ import annotations

from collections.abc import Iterable

from quorumd.protocol.apis import APIS
from quorumd.protocol.connection import Request
from quorumd.protocol.routes import Handler, Route, Session
from quorumd.protocol.wire import Message


class RequestRouter:
    """Passes each request to the handler of its API.

    `supported_versions` maps each API that has a handler to its versions, which ApiVersions lists.
    """

    def __init__(self, private_apis: bool = True) -> None:
        self._private_apis = private_apis
        self._handlers: dict[int, Handler[Message]] = {}
        self.supported_versions: dict[int, tuple[int, int]] = {}

    def add(self, routes: Iterable[Route]) -> None:
        """Register handlers; private APIs only if this node supports them."""
        for route in routes:
            api = APIS[route.api_key]
            if api.private and not self._private_apis:
                continue
            self._handlers[route.api_key] = route.handler
            self.supported_versions[route.api_key] = (route.min_version, api.max_version)

    def handler(self, api_key: int) -> Handler[Message] | None:
        """Return the handler of an API, None if it is not supported."""
        return self._handlers.get(api_key)

    def route(self, session: Session, request: Request[Message]) -> None:
        """Call the handler of an API and version that `supported_versions` contains."""
        self._handlers[request.api_key](session, request)
