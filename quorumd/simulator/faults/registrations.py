"""Operators that unregister controllers, those that run among them."""

from __future__ import annotations

from random import Random

from quorumd.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from quorumd.protocol.wire import Message
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.faults.voters import OPERATOR
from quorumd.simulator.workload.request_connection import RequestConnection


class Unregistration:
    """UnregisterController at any node, of any node."""

    name = "unregistration"

    def available(self, cluster: Cluster) -> bool:
        return cluster.options.registers and bool(cluster.running())

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(cluster.running())
        request = UnregisterControllerRequest(random.choice(list(cluster.machines)))
        link = RequestConnection("operator", request, 0, _ignore)
        cluster.network.host(OPERATOR, Process("operator")).connect(machine.host, machine.port, link)


def _ignore(message: Message | None) -> None:
    """What the operator is told, who does not look."""
