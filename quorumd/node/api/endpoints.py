"""The endpoints of other nodes for clients of a listener: those of the listeners with the same name."""

from __future__ import annotations

from quorumd.ids import Endpoint
from quorumd.node.api.context import ApiContext


class NodeEndpoints:
    """Finds endpoints of nodes by listener name.

    Gossip spreads only the addresses of the listener by which nodes connect to each other; other endpoints are those
    that controllers registered, or those in the newest voter record.
    """

    def __init__(self, context: ApiContext) -> None:
        self._discovery = context.peers.discovery
        self._state_machine = context.metadata.state_machine
        self._engine = context.quorum.engine
        self._nodes_listener = context.node.settings.controller_listener_name

    def endpoint_of(self, node_id: int, listener: str) -> Endpoint | None:
        """The endpoint for clients of a listener; that of the nodes' listener if the node has none with this name."""
        default = self._discovery.endpoint_of(node_id)
        if listener == self._nodes_listener:
            return default
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
        return default
