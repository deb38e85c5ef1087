"""Requests of a broker to the active controller, in this process or another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quorumd.protocol.wire import Message


class NoResponse(Protocol):
    """The reason why a request got no response. It may still take effect."""

    @property
    def reason(self) -> str: ...


class ControllerChannel(Protocol):
    """One connection of a broker to the active controller, with one request at a time.

    Kafka's brokers have one channel for each purpose, so that a slow request does not delay the others. The order of
    the requests of one channel is kept, also when the controller changes.
    """

    def send(
        self,
        api_key: int,
        build: Callable[[int], Message],
        on_response: Callable[[Message], None],
        on_failure: Callable[[NoResponse], None],
    ) -> None:
        """Send the message of `build(api_version)`. Exactly one callback is called, later; without a known
        controller, or after NOT_CONTROLLER, that is `on_failure`."""
