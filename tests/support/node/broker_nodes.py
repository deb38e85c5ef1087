"""Nodes with the broker role on the simulator's ports."""

from __future__ import annotations

from quorumd.broker.settings.broker_settings import BrokerSettings
from quorumd.controller.broker import BrokerEndpoint
from quorumd.ids import Endpoint
from quorumd.node.broker_settings import BrokerRoleSettings
from tests.support.node.nodes import DATA_DIRECTORY, Cluster, host_of

CLIENT_PORT = 9093


class BrokerCluster(Cluster):
    """A cluster whose directory ids are above the reserved ones, which brokers must not register."""

    first_directory_number = 1


def broker_role(node_id: int, is_controller: bool = True) -> BrokerRoleSettings:
    """Return the broker role of a node, with a separate listener if the node is a controller, too."""
    host = host_of(node_id)
    port = CLIENT_PORT if is_controller else 9092
    template = BrokerSettings(
        broker_id=node_id,
        cluster_id="",
        log_directories=(DATA_DIRECTORY,),
        listeners=(BrokerEndpoint("PLAINTEXT", host, port, 0),),
    )
    return BrokerRoleSettings(template, (Endpoint("PLAINTEXT", host, CLIENT_PORT),) if is_controller else ())
