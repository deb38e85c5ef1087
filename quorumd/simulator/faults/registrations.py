"""Operators that unregister controllers, running or not."""

from __future__ import annotations

from functools import partial
from random import Random

from quorumd.protocol.wire import Message
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.liveness.membership import require_recorded, unregister


class Unregistration:
    """UnregisterController at any node, preferably for a node that is down."""

    name = "unregistration"

    def available(self, cluster: Cluster) -> bool:
        return cluster.options.registers and bool(cluster.running())

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(cluster.running())
        target = random.choice(list(cluster.machines))
        down = [each.node_id for each in cluster.machines.values() if each.process is None]
        if down and random.random() < 0.5:
            target = random.choice(down)
        unregister(cluster, machine, target, partial(_on_response, cluster))


def _on_response(cluster: Cluster, message: Message | None) -> None:
    """Require that images and records agree, whether or not the request succeeded."""
    del message
    require_recorded(cluster)
