"""Nodes that move to other addresses, one at a time."""

from __future__ import annotations

from functools import partial
from random import Random

from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.faults.base import RunningNodeFault

DOWN_MS = 300.0


class MovedNode(RunningNodeFault):
    """A node restarts at another address. The next node moves only once every running node has the current addresses
    of all voters in its log: an operator who moves nodes faster may cut some off permanently."""

    name = "moved node"

    def available(self, cluster: Cluster) -> bool:
        running = cluster.running()
        return bool(running) and all(_knows_addresses(cluster, machine) for machine in running)

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        cluster.kill(machine.node_id)
        machine.port += 1
        cluster.addresses()
        cluster.heap.call_later(DOWN_MS * random.random(), partial(cluster.boot, machine.node_id), b"boot")


def _knows_addresses(cluster: Cluster, machine: Machine) -> bool:
    node = machine.node
    if node is None or machine.starting or machine.exiting or machine.set_aside is not None:
        return False
    voters = node.engine.voters.current.voters
    return bool(voters) and all(
        [endpoint.port for endpoint in voter.endpoints] == [cluster.machines[voter.key.id].port]
        for voter in voters
    )
