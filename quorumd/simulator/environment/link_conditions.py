"""Latency and fragmentation of simulated connections without faults.

Part of a simulation's options, which are pickled with its report. A compiled frozen dataclass cannot be pickled, so
this is separate from `stream`, which is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class LinkConditions:
    """The behaviour of the network without faults."""

    latency_ms: tuple[float, float] = (0.1, 1.0)
    slow_ms: float = 30.0
    slow_probability: float = 0.01
    split_probability: float = 0.05

    def latency(self, random: Random) -> float:
        if random.random() < self.slow_probability:
            return self.latency_ms[1] + random.random() * self.slow_ms
        return self.latency_ms[0] + random.random() * (self.latency_ms[1] - self.latency_ms[0])
