"""The brokers of a simulation, as models or as nodes, with their clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from quorumd.broker.api.topic_messages import INTERNAL_TOPICS
from quorumd.simulator.brokers.administrators import Administrators
from quorumd.simulator.brokers.cluster_view import BrokerView
from quorumd.simulator.brokers.observation import Observation
from quorumd.simulator.brokers.options import BrokerOptions
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.inspection.log_mirror import Batch


class BrokerPopulation(ABC):
    """The brokers, their clients and their observation, as the simulation controls them."""

    def __init__(
        self, cluster: Cluster, options: BrokerOptions, committed: Sequence[Batch], broker_ids: Sequence[int]
    ) -> None:
        self.cluster = cluster
        self.options = options
        session_ms, drift = options.session_timeout_ms, cluster.options.clock_drift
        self.observation = Observation(
            committed, lambda: cluster.heap.now_ms, session_ms / (1.0 + drift), session_ms * (1.0 + drift)
        )
        self.observation.view.is_balanced = options.balance_ms > 0
        for broker_id in broker_ids:
            self.observation.view.brokers[broker_id] = BrokerView(broker_id)
        self.administrators = Administrators(cluster, options, self.observation, broker_ids)

    @abstractmethod
    def start(self) -> None:
        """Start clients, and brokers that the cluster does not start."""

    @property
    @abstractmethod
    def acknowledged(self) -> int:
        """The number of records that were acknowledged with acks=all."""

    @abstractmethod
    def end_faults(self) -> None:
        """End faults, start all brokers, and stop administrators."""

    @abstractmethod
    def end_traffic(self) -> None:
        """Stop producers and consumers."""

    def stop_background_requests(self) -> None:  # noqa: B027 - nodes have none
        """Stop requests that write metadata records."""

    @abstractmethod
    def missing(self) -> str:
        """Describe a condition that is not met yet, "" if all are."""

    @abstractmethod
    def counters(self) -> dict[str, int]:
        """Return the number of events by name."""

    def can_write(self) -> bool:
        """Whether there is a partition for producers that a replica may lead."""
        topics = self.observation.view.image.topics.values()
        own = [topic for topic in topics if topic.name not in INTERNAL_TOPICS]
        return any(row.leader >= 0 for topic in own for row in topic.partitions.values())
