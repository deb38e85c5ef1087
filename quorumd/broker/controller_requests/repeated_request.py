"""Sends requests of one API to the active controller, one at a time, each with all waiting content."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from quorumd.broker.channels.controller_channel import ControllerChannel, NoResponse
from quorumd.errors import ErrorCode
from quorumd.ports import Clock, Timer
from quorumd.protocol.apis import api
from quorumd.protocol.wire import Message

logger = logging.getLogger("quorumd.broker")

S = TypeVar("S")


class _Response(Protocol):
    error_code: int


R = TypeVar("R", bound=_Response)


class RepeatedRequest(Generic[S, R]):
    """Sends one request at a time, and a new one `retry_ms` after an error or a lost response.

    `collect()` returns the content of the next request, None if nothing waits. `build(content, version)` builds the
    request. `handle_response(content, response)` handles a response without a top-level error, and returns the delay
    of the next request, None if nothing waits.
    """

    def __init__(
        self,
        clock: Clock,
        channel: ControllerChannel,
        api_key: int,
        retry_ms: float,
        collect: Callable[[], S | None],
        build: Callable[[S, int], Message],
        handle_response: Callable[[S, R], float | None],
    ) -> None:
        self._clock = clock
        self._channel = channel
        self._api_key = api_key
        self._retry_ms = retry_ms
        self._collect = collect
        self._build = build
        self._handle_response = handle_response
        self._is_in_flight = False
        self.is_stopped = False
        self._timer: Timer | None = None

    def send(self) -> None:
        """Send a request in the next iteration of the event loop, unless one is in flight or scheduled."""
        self._schedule(0.0)

    def stop(self) -> None:
        """Stop sending requests."""
        self.is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, delay_ms: float) -> None:
        if not self._is_in_flight and self._timer is None and not self.is_stopped:
            self._timer = self._clock.call_at(self._clock.now_ms() + delay_ms, self._send)

    def _send(self) -> None:
        self._timer = None
        sent = self._collect()
        if sent is None:
            return

        def on_response(response: Message) -> None:
            self._complete(sent, response)  # type: ignore[arg-type]  # of this API

        self._is_in_flight = True
        self._channel.send(self._api_key, lambda version: self._build(sent, version), on_response, self._fail)

    def _complete(self, sent: S, response: R) -> None:
        if response.error_code != ErrorCode.NONE:
            self._retry(ErrorCode.describe(response.error_code))
            return
        self._is_in_flight = False
        if self.is_stopped:
            return
        delay_ms = self._handle_response(sent, response)
        if delay_ms is not None:
            self._schedule(delay_ms)

    def _fail(self, failure: NoResponse) -> None:
        self._retry(failure.reason)

    def _retry(self, reason: str) -> None:
        self._is_in_flight = False
        logger.info("%s failed and will be retried: %s", api(self._api_key).name, reason)
        self._schedule(self._retry_ms)
