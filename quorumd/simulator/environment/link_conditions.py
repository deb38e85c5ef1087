"""How late simulated bytes arrive, and cut how often, where nothing is broken.

Part of a simulation's options, which go from one process to another with its report: a frozen dataclass that is
compiled does not, so this stays beside `stream`, which is.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class LinkConditions:
    """How the network behaves when nothing is broken."""

    latency_ms: tuple[float, float] = (0.1, 1.0)
    slow_ms: float = 30.0
    slow_probability: float = 0.01
    split_probability: float = 0.05

    def latency(self, random: Random) -> float:
        if random.random() < self.slow_probability:
            return self.latency_ms[1] + random.random() * self.slow_ms
        return self.latency_ms[0] + random.random() * (self.latency_ms[1] - self.latency_ms[0])
