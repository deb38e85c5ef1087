"""Clocks that people and time servers set."""

from __future__ import annotations

from random import Random

from quorumd.simulator.cluster import Cluster


class ClockJump:
    """The wall clock of a machine is set forwards or backwards, by a second up to days.

    Its monotonic clock runs on: how fast, is drawn once for each machine (`SimulationOptions.clock_drift`).
    """

    name = "clock jump"

    def available(self, cluster: Cluster) -> bool:
        return True

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(list(cluster.machines.values()))
        jump_ms = 10 ** random.uniform(3.0, 9.0)
        machine.time.wall_offset_ms += random.choice((-jump_ms, jump_ms))
