"""Where clients of a listener reach other nodes: at their listeners of the same name."""

from __future__ import annotations

from quorumd.ids import Endpoint
from quorumd.node.api.context import ApiContext


class NodeEndpoints:
    """Endpoints of nodes by listener name.

    Gossip spreads the addresses of the listener by which nodes connect to each other; the others are those that
    controllers registered, or those of the newest voter record.
    """

    def __init__(self, context: ApiContext) -> None:
        self._discovery = context.discovery
        self._state_machine = context.state_machine
        self._engine = context.engine
        self._nodes_listener = context.settings.controller_listener_name

    def endpoint_of(self, node_id: int, listener: str) -> Endpoint | None:
        """The endpoint for clients of a listener. A node that has none with this name gives its usual one."""
        usual = self._discovery.endpoint_of(node_id)
        if listener == self._nodes_listener:
            return usual
        registered = self._state_machine.image.controllers.get(node_id)
        if registered is not None:
            for each in registered.listeners:
                if each.name == listener:
                    return Endpoint(each.name, each.host, each.port)
        recorded = self._engine.voters.current.by_id(node_id)
        if recorded is not None:
            for endpoint in recorded.endpoints:
                if endpoint.name == listener:
                    return endpoint
        return usual
