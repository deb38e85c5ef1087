"""The settings of the broker role of a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from quorumd.broker.settings.broker_settings import BrokerSettings
from quorumd.ids import Endpoint


@dataclass(frozen=True, slots=True)
class BrokerRoleSettings:
    """`template`: the settings of the broker without the cluster id, and with the advertised ports as given.

    `listen`: the listeners for clients; none if those of the node serve them.
    """

    template: BrokerSettings
    listen: tuple[Endpoint, ...] = ()

    def broker_settings(self, cluster_id: str, bound_port: Callable[[str], int]) -> BrokerSettings:
        """The settings of the broker; `bound_port(name)` stands for an advertised port 0."""
        listeners = tuple(
            each._replace(port=each.port or bound_port(each.name)) for each in self.template.listeners
        )
        return replace(self.template, cluster_id=cluster_id, listeners=listeners)
