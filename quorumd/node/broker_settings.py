"""The settings of the broker role of a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from quorumd.broker.settings.broker_settings import BrokerSettings
from quorumd.ids import Endpoint


@dataclass(frozen=True, slots=True)
class BrokerRoleSettings:
    """The settings of the broker role, before the cluster id and the bound ports are known."""

    template: BrokerSettings
    """The settings of the broker without the cluster id; an advertised port may be 0."""
    listen: tuple[Endpoint, ...] = ()
    """The listeners for clients; empty if the listeners of the node serve clients."""

    def broker_settings(self, cluster_id: str, bound_port: Callable[[str], int]) -> BrokerSettings:
        """The settings of the broker; `bound_port(name)` replaces an advertised port 0."""
        listeners = tuple(
            each._replace(port=each.port or bound_port(each.name)) for each in self.template.listeners
        )
        return replace(self.template, cluster_id=cluster_id, listeners=listeners)
