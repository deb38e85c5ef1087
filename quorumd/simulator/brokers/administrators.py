"""The clients that administer a cluster with brokers: administrator, operators, and a reader of metadata."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

from quorumd.simulator.brokers.admin import Administrator
from quorumd.simulator.brokers.metadata_reader import MetadataReader
from quorumd.simulator.brokers.observation import Observation
from quorumd.simulator.brokers.operators import SOURCES
from quorumd.simulator.brokers.operators.operator import Operator
from quorumd.simulator.brokers.options import OPERATOR_NAMES, BrokerOptions
from quorumd.simulator.cluster import Cluster


class Administrators:
    """The clients that the options of a seed include."""

    def __init__(
        self, cluster: Cluster, options: BrokerOptions, observation: Observation, broker_ids: Sequence[int]
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._observation = observation
        self._broker_ids = list(broker_ids)
        self._administrator = Administrator(
            cluster.heap, cluster.network, self._stream("administrator"), options, observation,
            cluster.addresses(), self._broker_ids,
        )  # fmt: skip
        self._reader = MetadataReader(
            cluster.heap, cluster.network, self._stream("metadata reader"), observation,
            cluster.addresses(), not cluster.options.faults,
        )  # fmt: skip
        self._operators = [self._operator(name) for name in OPERATOR_NAMES if name in options.operators]

    def _stream(self, *name: str | int) -> Random:
        return self._cluster.streams.stream(*name)

    def _operator(self, name: str) -> Operator:
        number, random = OPERATOR_NAMES.index(name), self._stream("operator", OPERATOR_NAMES.index(name))
        source = SOURCES[name](random, lambda: self._observation.view.image, self._broker_ids)
        return Operator(
            name, source, self._options.operators[name], self._cluster.heap,
            partial(self._cluster.network.host, f"10.0.6.{number + 1}"), random, self._observation,
            self._cluster.addresses(),
        )  # fmt: skip

    def start(self) -> None:
        """Begin to send requests."""
        self._administrator.start()
        self._reader.start()
        for operator in self._operators:
            operator.start()

    def stop(self) -> None:
        """Send no further request."""
        self._administrator.running = self._reader.running = False
        for operator in self._operators:
            operator.running = False

    def counters(self) -> dict[str, int]:
        """Return the number of requests by kind and result."""
        return {
            "metadata responses": self._reader.responses,
            **dict(sorted(self._administrator.counters.items())),
            **{name: count for each in self._operators for name, count in sorted(each.counters.items())},
        }
