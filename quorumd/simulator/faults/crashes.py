"""Processes and machines that end, and come back."""

from __future__ import annotations

from random import Random

from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.faults.base import RunningNodeFault


class PowerLoss(RunningNodeFault):
    """One machine, or all at once, lose power and what was not synced; half of the time when that is something."""

    name = "power loss"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        victims = cluster.running() if random.random() < 0.15 else [machine]
        if random.random() < 0.5:
            for victim in victims:
                victim.disk.lose_power_at_sync(1)
            return
        for victim in victims:
            cluster.lose_power(victim.node_id)
            cluster.restart_later(victim.node_id)


class PowerLossInDiskCall(RunningNodeFault):
    """Power fails in the middle of what the node is writing: between the steps of a save or of a recovery."""

    name = "power loss in a disk call"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        way = random.random()
        if way < 0.3:
            cluster.kill(machine.node_id)
            cluster.boot_and_lose_power(machine.node_id, 1 + random.randrange(12))
        elif way < 0.55:
            machine.disk.lose_power_at_sync(1 + random.randrange(8))
        else:
            machine.disk.lose_power_within(1 + random.randrange(20))


class Kill(RunningNodeFault):
    """kill -9."""

    name = "kill"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        cluster.kill(machine.node_id)
        cluster.restart_later(machine.node_id)


class KillEverything(RunningNodeFault):
    """kill -9 of every node: all that they know is what their disks hold."""

    name = "kill all"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        for victim in cluster.running():
            cluster.kill(victim.node_id)
            cluster.restart_later(victim.node_id)


class ShutDown(RunningNodeFault):
    """An operator restarts a node."""

    name = "shutdown"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        cluster.shut_down(machine.node_id)
