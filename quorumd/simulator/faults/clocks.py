"""Clocks set by operators and time servers."""

from __future__ import annotations

from random import Random

from quorumd.simulator.cluster import Cluster


class ClockJump:
    """The wall clock of a machine jumps forwards or backwards, by a second up to days.

    Its monotonic clock is unaffected; its rate is drawn once per machine (`SimulationOptions.clock_drift`).
    """

    name = "clock jump"

    def available(self, cluster: Cluster) -> bool:
        return True

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(list(cluster.machines.values()))
        jump_ms = 10 ** random.uniform(3.0, 9.0)
        machine.time.wall_offset_ms += random.choice((-jump_ms, jump_ms))
