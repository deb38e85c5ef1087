"""Faults of the logins between nodes."""

from __future__ import annotations

from random import Random

from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.faults.base import RunningNodeFault
from quorumd.simulator.peer_logins import NODE, PASSWORDS


class RefusedLogin(RunningNodeFault):
    """A node accepts no logins of other nodes for a while, as after a change of passwords that it has not received
    yet. Connections stay until their login expires, except those that break now."""

    name = "refused login"

    def available(self, cluster: Cluster) -> bool:
        return bool(cluster.options.peer_logins.mechanism) and super().available(cluster)

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        machine.users.pop(NODE, None)
        duration_ms = random.random() * 3.0 * cluster.options.peer_logins.session_ms

        def accept() -> None:
            machine.users[NODE] = PASSWORDS[NODE]

        cluster.heap.call_later(duration_ms, accept, b"users")
        if random.random() < 0.5:
            for side in cluster.network.sides():
                if machine.host in (side.host, side.far.host) and random.random() < 0.3:
                    cluster.network.break_link(side)
