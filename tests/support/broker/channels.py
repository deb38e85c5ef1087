"""Stand-ins for a broker's connections to the active controller and to other brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from quorumd.broker.channels.controller_channel import NoResponse
from quorumd.protocol.wire import Message


class Failure(NamedTuple):
    """Satisfies `NoResponse`."""

    reason: str


class HeldChannel:
    """A `ControllerChannel` that holds its only open request until the test responds to it or lets it fail. Requests
    are built in `version`."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.requests: list[Any] = []
        """All requests so far; the last one may be open."""
        self._open: tuple[Callable[[Message], None], Callable[[NoResponse], None]] | None = None

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def send(
        self,
        api_key: int,
        build: Callable[[int], Message],
        on_response: Callable[[Message], None],
        on_failure: Callable[[NoResponse], None],
    ) -> None:
        assert self._open is None, "one request at a time"
        request = build(self.version)
        assert api_key == request.API_KEY
        self.requests.append(request)
        self._open = on_response, on_failure

    def respond(self, response: Message) -> None:
        assert self._open is not None
        (on_response, _), self._open = self._open, None
        on_response(response)

    def fail(self, reason: str = "no controller") -> None:
        assert self._open is not None
        (_, on_failure), self._open = self._open, None
        on_failure(Failure(reason))


class RespondingBrokers:
    """A `BrokerClient` whose requests get the response of `respond(broker_id, request)`, or fail if that is None."""

    def __init__(self, version: int, respond: Callable[[int, Message], Message | None]) -> None:
        self.requests: list[tuple[int, Any]] = []
        """All requests so far, each with the id of its broker."""
        self._version = version
        self._respond = respond

    def send(
        self,
        broker_id: int,
        api_key: int,
        build: Callable[[int], Message],
        on_response: Callable[[Message], None],
        on_failure: Callable[[NoResponse], None],
        timeout_ms: float,
    ) -> None:
        request = build(self._version)
        assert api_key == request.API_KEY
        self.requests.append((broker_id, request))
        response = self._respond(broker_id, request)
        if response is None:
            on_failure(Failure("no connection"))
        else:
            on_response(response)
