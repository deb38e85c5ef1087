"""The protocol of faults, and the base class of faults of a running node."""

from __future__ import annotations

from random import Random
from typing import Protocol

from quorumd.simulator.cluster import Cluster, Machine


class Fault(Protocol):
    """A fault that a simulation injects. Its name is unique."""

    name: str

    def available(self, cluster: Cluster) -> bool:
        """Whether the fault is possible now."""

    def inject(self, cluster: Cluster, random: Random) -> None:
        """Carry out the fault, which must be `available`."""


def undisturbed(cluster: Cluster) -> list[Machine]:
    """Return the running machines that are not affected by another fault, by node id."""
    return [
        machine
        for machine in cluster.running()
        if machine.set_aside is None
        and not machine.disk.is_corrupted
        and not machine.starting
        and not machine.exiting
    ]


class RunningNodeFault:
    """A fault of one machine with a running process."""

    def available(self, cluster: Cluster) -> bool:
        return bool(cluster.running())

    def inject(self, cluster: Cluster, random: Random) -> None:
        self.hurt(cluster, random, random.choice(cluster.running()))

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None: ...
