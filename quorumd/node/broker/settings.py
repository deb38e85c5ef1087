"""The settings of the broker role of a node."""

from __future__ import annotations

from dataclasses import dataclass, replace

from quorumd.broker.settings.broker_settings import BrokerSettings
from quorumd.ids import Endpoint


@dataclass(frozen=True, slots=True)
class BrokerRoleSettings:
    """`template`: the settings of the broker without the cluster id, and with the advertised ports as given.

    `listen`: the listener for clients; None if the node's only listener serves them.
    """

    template: BrokerSettings
    listen: Endpoint | None = None

    def broker_settings(self, cluster_id: str, bound_port: int) -> BrokerSettings:
        """The settings of the broker; `bound_port` stands for an advertised port 0."""
        listeners = tuple(each._replace(port=each.port or bound_port) for each in self.template.listeners)
        return replace(self.template, cluster_id=cluster_id, listeners=listeners)
