"""The listeners that a node has bound, by name."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.ids import Endpoint
from quorumd.ports import Connection, Listener, Network


class BoundListeners:
    """Binds listeners and knows their ports."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._listeners: dict[str, Listener] = {}

    def bind(self, endpoint: Endpoint, accept: Callable[[str], Connection]) -> None:
        """Bind one listener; `accept` gets its name. Raises OSError if the address is in use."""
        name = endpoint.name
        self._listeners[name] = self._network.listen(endpoint.host, endpoint.port, lambda: accept(name), name)

    def port(self, name: str) -> int:
        """The bound port of a listener."""
        return self._listeners[name].port

    def reachable(self, advertised: Endpoint) -> Endpoint:
        """The advertised endpoint of a bound listener; an advertised port 0 is the bound one."""
        return advertised._replace(port=advertised.port or self.port(advertised.name))

    def close(self) -> None:
        """Close all listeners."""
        for listener in self._listeners.values():
            listener.close()
