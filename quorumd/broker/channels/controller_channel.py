"""Requests of a broker to the active controller, in this process or another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quorumd.protocol.wire import Message


class NoResponse(Protocol):
    """A request that got no response, and the reason. The request may still take effect."""

    @property
    def reason(self) -> str: ...


class ControllerChannel(Protocol):
    """One connection of a broker to the active controller, with one request at a time.

    As in Kafka, each purpose has its own channel, so that a slow request does not delay the others. A channel sends
    requests in order, even when the controller changes.
    """

    def send(
        self,
        api_key: int,
        build: Callable[[int], Message],
        on_response: Callable[[Message], None],
        on_failure: Callable[[NoResponse], None],
    ) -> None:
        """Send the message that `build(api_version)` returns.

        Calls exactly one callback after this call returns: `on_failure` if no controller is known, or after
        NOT_CONTROLLER.
        """
