"""The endpoints of other nodes, by listener name: a client gets the endpoints of its own listener."""

from __future__ import annotations

from quorumd.ids import Endpoint
from quorumd.node.api.context import ApiContext


class NodeEndpoints:
    """Finds endpoints of nodes by listener name.

    Gossip spreads only addresses of the controller listener. The other endpoints are taken from the registrations of
    controllers, or from the newest voter record.
    """

    def __init__(self, context: ApiContext) -> None:
        self._discovery = context.peers.discovery
        self._state_machine = context.metadata.state_machine
        self._engine = context.quorum.engine
        self._controller_listener = context.node.settings.controller_listener_name

    def endpoint_of(self, node_id: int, listener: str) -> Endpoint | None:
        """The endpoint of the node with this listener name, else its endpoint on the controller listener."""
        default = self._discovery.endpoint_of(node_id)
        if listener == self._controller_listener:
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
