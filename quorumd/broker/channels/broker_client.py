"""Requests of a broker to other brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quorumd.broker.channels.controller_channel import NoResponse
from quorumd.protocol.wire import Message


class BrokerClient(Protocol):
    """Connections to the inter-broker listeners of other brokers, at the endpoints in the metadata.

    A leader may delay the response to a Fetch, so fetches have connections of their own.
    """

    def send(
        self,
        broker_id: int,
        api_key: int,
        build: Callable[[int], Message],
        on_response: Callable[[Message], None],
        on_failure: Callable[[NoResponse], None],
        timeout_ms: float,
    ) -> None:
        """Send the message that `build(api_version)` returns.

        Calls exactly one callback after this call returns: `on_failure` if no endpoint is known.
        """
