"""Crashes and restarts of processes and machines."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.faults.base import RunningNodeFault

REPEATED_SIGNAL_MS: Final = 50.0
"""The longest time after which an operator repeats the signal to shut down."""


class PowerLoss(RunningNodeFault):
    """One machine, or all at once, lose power and unsynced data; half of the time while there are unsynced writes."""

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
    """Power fails while the node writes: between the steps of a save or of a recovery."""

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
    """SIGKILL of one node."""

    name = "kill"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        cluster.kill(machine.node_id)
        cluster.restart_later(machine.node_id)


class KillEverything(RunningNodeFault):
    """SIGKILL of every node: all state in memory is lost."""

    name = "kill all"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        for victim in cluster.running():
            cluster.kill(victim.node_id)
            cluster.restart_later(victim.node_id)


class ShutDown(RunningNodeFault):
    """An operator restarts a node, or all of them at once, and sometimes repeats the signal."""

    name = "shutdown"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        machines = cluster.running() if random.random() < 0.15 else [machine]
        repeats = random.random() < 0.3
        for each in machines:
            cluster.shut_down(each.node_id)
            if repeats:
                delay_ms = random.random() * REPEATED_SIGNAL_MS
                cluster.heap.call_later(
                    delay_ms, partial(self._repeat, cluster, each, each.process), b"signal"
                )

    def _repeat(self, cluster: Cluster, machine: Machine, process: Process | None) -> None:
        if machine.process is process:
            cluster.shut_down(machine.node_id)
