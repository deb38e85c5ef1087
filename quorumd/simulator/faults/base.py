"""What a fault is, and what most of them share."""

from __future__ import annotations

from random import Random
from typing import Protocol

from quorumd.simulator.cluster import Cluster, Machine


class Fault(Protocol):
    name: str

    def available(self, cluster: Cluster) -> bool:
        """Whether it can happen now."""

    def inject(self, cluster: Cluster, random: Random) -> None:
        """Let it happen. Only when `available`."""


class RunningNodeFault:
    """A fault of one machine with a running process."""

    def available(self, cluster: Cluster) -> bool:
        return bool(cluster.running())

    def inject(self, cluster: Cluster, random: Random) -> None:
        self.hurt(cluster, random, random.choice(cluster.running()))

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None: ...
