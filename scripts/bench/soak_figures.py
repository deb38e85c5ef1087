"""Figures of the soak from its samples: percentiles, growth of memory, the longest stall in a histogram."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ERRORS_OF_95_PERCENT = 1.96


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the value that `percent` of the ascending values do not exceed (nearest rank); 0.0 if there are none."""
    if not ordered:
        return 0.0
    rank = math.ceil(len(ordered) * percent / 100)
    return ordered[max(0, rank - 1)]


@dataclass(frozen=True, slots=True)
class Growth:
    """The slope of a line through samples."""

    per_hour: float
    uncertainty: float
    """Half of the 95 % interval of the slope, for errors that do not depend on each other; inf with fewer than three
    samples."""

    @property
    def is_certain(self) -> bool:
        """Whether the values grow, with a probability of 97.5 %."""
        return self.per_hour > self.uncertainty


def growth(samples: Sequence[tuple[float, float]]) -> Growth:
    """Fit a line to (seconds, value) by least squares; return its slope per hour."""
    count = len(samples)
    if count < 2:
        return Growth(0.0, math.inf)
    mean_h = sum(seconds for seconds, _ in samples) / count / 3600
    mean = sum(value for _, value in samples) / count
    spread = sum((seconds / 3600 - mean_h) ** 2 for seconds, _ in samples)
    slope = sum((seconds / 3600 - mean_h) * (value - mean) for seconds, value in samples) / spread
    if count == 2:
        return Growth(slope, math.inf)
    residuals = sum((value - mean - slope * (seconds / 3600 - mean_h)) ** 2 for seconds, value in samples)
    return Growth(slope, ERRORS_OF_95_PERCENT * math.sqrt(residuals / (count - 2) / spread))


def settled(samples: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Return the samples of the last two thirds of the time: before, caches fill."""
    begin = samples[0][0] + (samples[-1][0] - samples[0][0]) / 3
    return [sample for sample in samples if sample[0] >= begin]


def longest_bucket(cumulative: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the bounds of the bucket with the largest observation; (0.0, 0.0) without observations.

    A bucket is given as (upper bound, number of observations up to it).
    """
    lower, before, longest = 0.0, 0.0, (0.0, 0.0)
    for upper, count in sorted(cumulative):
        if count > before:
            longest = lower, upper
        lower, before = upper, count
    return longest


def parse_metrics(exposition: str) -> dict[str, float]:
    """Return the samples of a page in Prometheus' text format by name with labels, such as `x_bucket{le="0.5"}`."""
    lines = (line for line in exposition.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def buckets_since(
    metric: str, before: Mapping[str, float], after: Mapping[str, float]
) -> list[tuple[float, float]]:
    """Return (upper bound, observations up to it) of a histogram without labels for the time between two pages."""
    start = f'{metric}_bucket{{le="'
    return [
        (float(name[len(start) :].partition('"')[0]), value - before.get(name, 0.0))
        for name, value in after.items()
        if name.startswith(start)
    ]
