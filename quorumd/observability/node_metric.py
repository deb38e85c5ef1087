"""A metric: how it is read from a node and exposed to Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from quorumd.node.node import Node
from quorumd.node.statistics import Histogram
from quorumd.observability.broker_statistics import BrokerStatistics
from quorumd.observability.image_statistics import EMPTY_STATISTICS, ImageStatistics


@dataclass(slots=True)
class SampledState:
    """State that the event thread samples once per second because other threads must not read it."""

    observers: int = 0
    """Observers that fetch from the leader; 0 on other nodes."""
    idle_ratio: float = 1.0
    """Fraction of the last second in which the event thread used no CPU. Waiting for a disk counts as idle."""
    image: ImageStatistics = EMPTY_STATISTICS
    applied_lag_s: float = 0.0
    """The age of the last record in the image; 0 on the leader, or if no record is applied."""
    broker: BrokerStatistics | None = None
    """None without the broker role. A broker with many replicas is sampled less often: see `Monitor`."""
    loop_delay_ms: Histogram = field(default_factory=Histogram)
    """The delay of scheduled work on the event thread, sampled once per second."""


Sample = tuple[tuple[str, ...], float | Histogram]
"""Label values and the value. Histograms of a node are in milliseconds."""
Read = Callable[[Node, SampledState], Iterable[Sample]]
Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class NodeMetric:
    """One metric."""

    name: str
    """The name, without the `_total` of counters."""
    kind: Kind
    help: str
    read: Read
    labels: tuple[str, ...] = ()
    kip: tuple[str, ...] = ()
    """The names in KIP-595 and later, and in Kafka."""

    @property
    def exposed_name(self) -> str:
        return f"{self.name}_total" if self.kind == "counter" else self.name

    def collect(self, node: Node, sampled: SampledState) -> Metric:
        """Collect the current samples."""
        if self.kind == "histogram":
            histograms = HistogramMetricFamily(self.name, self.help, labels=self.labels)
            for values, histogram in self.read(node, sampled):
                assert isinstance(histogram, Histogram)
                histograms.add_metric(values, buckets(histogram), histogram.total / 1000)
            return histograms
        family_class = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        family = family_class(self.name, self.help, labels=self.labels)
        for values, number in self.read(node, sampled):
            assert not isinstance(number, Histogram)
            family.add_metric(values, number)
        return family


def buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Cumulative counts by upper bound in seconds, the format of Prometheus."""
    cumulative = 0
    result = []
    counts = list(histogram.counts)  # A copy: the event thread keeps counting.
    for bound, count in zip(
        [*(bound / 1000 for bound in histogram.bounds), float("inf")], counts, strict=True
    ):
        cumulative += count
        result.append(("+Inf" if bound == float("inf") else repr(bound), float(cumulative)))
    return result


def single(read: Callable[[Node], float | Histogram]) -> Read:
    """Read a metric without labels."""
    return lambda node, sampled: [((), read(node))]
