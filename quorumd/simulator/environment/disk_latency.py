"""The duration of disk operations."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class DiskLatency:
    """The duration of a submitted operation: mostly within `usual_ms`, sometimes up to `slow_ms`."""

    usual_ms: tuple[float, float] = (0.2, 2.0)
    slow_ms: float = 50.0
    slow_probability: float = 0.01

    def draw(self, random: Random) -> float:
        if random.random() < self.slow_probability:
            return self.usual_ms[1] + random.random() * (self.slow_ms - self.usual_ms[1])
        return self.usual_ms[0] + random.random() * (self.usual_ms[1] - self.usual_ms[0])
