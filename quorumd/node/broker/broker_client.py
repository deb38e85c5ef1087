"""Requests of the broker in this process to other brokers."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.node.peers.connection import Call, Failure, Purpose
from quorumd.node.peers.connections import PeerConnections
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.wire import Message


class NodeBrokerClient:
    """Implements `BrokerClient`. Fetches have connections of their own, since their responses may be delayed."""

    metadata: BrokerMetadata
    """The endpoints of the other brokers; set once the broker is built."""

    def __init__(self, clock: Clock, connections: PeerConnections, listener_name: str) -> None:
        self._clock = clock
        self._connections = connections
        self._listener_name = listener_name

    def send(
        self,
        broker_id: int,
        api_key: int,
        build: Callable[[int], Message],
        on_response: Callable[[Message], None],
        on_failure: Callable[[Failure], None],
        timeout_ms: float,
    ) -> None:
        """See `BrokerClient`."""
        endpoint = self.metadata.endpoint(broker_id, self._listener_name)
        if endpoint is None:
            failure = Failure(f"broker {broker_id} has no listener named {self._listener_name}", unsent=True)
            self._clock.call_soon(lambda: on_failure(failure))
            return
        purpose = Purpose.FETCH if api_key == ApiKey.FETCH else Purpose.FORWARD
        call = Call(api_key, build, on_response, on_failure, self._clock.now_ms() + timeout_ms)
        self._connections.call(endpoint.host, endpoint.port, call, purpose)

    def close(self) -> None:
        """Close the connections; pending requests get no callback."""
        self._connections.close()
