"""What the checkers of brokers look at: the committed metadata, all brokers, and what became of records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from quorumd.controller.broker import Broker
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId
from quorumd.ids import KafkaUuid
from quorumd.simulator.brokers.data_log import DataLog
from quorumd.simulator.brokers.partition_history import PartitionHistory
from quorumd.simulator.brokers.replica import Replica


class PartitionChange(NamedTuple):
    """What one record of the metadata log made of a partition."""

    where: PartitionId
    before: Partition | None
    after: Partition | None
    names_leader: bool
    min_isr: int
    """Of its topic, before or after the batch, whichever is smaller."""


class Registration(NamedTuple):
    """What one record, at this offset, made of a broker."""

    before: Broker | None
    after: Broker
    offset: int


@dataclass(slots=True)
class BrokerView:
    """One broker. `replicas`: of the process that runs, empty without one; `logs`: what is on its disk."""

    id: int
    runs: bool = False
    incarnation: int = 0
    is_published: bool = False
    epoch: int = -1
    """Of the process that runs, -1 as long as it has none."""
    replicas: Mapping[PartitionId, Replica] = field(default_factory=dict)
    logs: Mapping[PartitionId, DataLog] = field(default_factory=dict)
    fetchers: Mapping[int, object] = field(default_factory=dict)
    """By the leader that they fetch from."""
    may_request_fence: bool = False
    """Whether a heartbeat may be on its way that asks to be fenced: it shuts down, or one from its start was lost."""
    heard_ms: float = -1.0
    """When it sent the last heartbeat that was answered, -1 for never."""
    heartbeat_leader_epoch: int = -1
    """By the leader of which epoch, as far as it knew."""
    leader_paused_ms: float = 0.0
    """`ClusterView.leader_paused_ms` of that epoch when the heartbeat was answered."""
    ended_ms: float = -1.0
    """When its last process ended, -1 for never."""

    def log(self, where: PartitionId) -> DataLog | None:
        """Its log of a partition, be it up or down."""
        replica = self.replicas.get(where)
        return replica.log if replica is not None else self.logs.get(where)


@dataclass(slots=True)
class ClusterView:
    """`image`: everything that is committed. `unclean`: broker epochs that began with less than a clean shutdown."""

    image: ClusterImage = field(default_factory=ClusterImage)
    brokers: dict[int, BrokerView] = field(default_factory=dict)
    histories: dict[PartitionId, PartitionHistory] = field(default_factory=dict)
    unclean: dict[int, None] = field(default_factory=dict)
    requested_targets: dict[PartitionId, dict[tuple[int, ...], None]] = field(default_factory=dict)
    """What administrators wanted partitions to be moved to."""
    incarnations: dict[KafkaUuid, int] = field(default_factory=dict)
    """Which start of its broker an incarnation is."""
    leads_since: dict[int, float] = field(default_factory=dict)
    """When each epoch of the quorum came to have a leader."""
    leader_paused_ms: dict[int, float] = field(default_factory=dict)
    """How long the leader of each epoch has been paused in all; less than the truth where that is not certain."""
    now_ms: float = 0.0
    shortest_session_ms: float = 0.0
    """On the fastest of all clocks."""
    longest_session_ms: float = 0.0
    """On the slowest of all clocks."""
    is_balanced: bool = False
    """Whether the controller gives leadership back to preferred leaders."""
    drains_in_batches: bool = False
    """Whether a broker may have more partitions than change at once when it comes or goes."""

    last_isr_members: dict[PartitionId, tuple[int, ...]] = field(default_factory=dict)
    """The ISRs of partitions that had no leader when the ELR was enabled: Kafka leaves them so."""

    def elr_enabled(self) -> None:
        """It was off until now."""
        for topic in self.image.topics.values():
            for number, row in topic.partitions.items():
                if row.leader == NO_LEADER:
                    self.last_isr_members[PartitionId(topic.id, number)] = row.isr

    def changed(self, where: PartitionId, row: Partition | None) -> None:
        """A partition is like that now, None for gone."""
        if row is None or row.leader != NO_LEADER or row.isr != self.last_isr_members.get(where):
            self.last_isr_members.pop(where, None)

    def may_remain_last(self, where: PartitionId, row: Partition, member: int) -> bool:
        """Whether this broker may be in the ISR whatever became of it: without an ELR the last one stays."""
        return row.isr == (member,) and (not self.image.elr_enabled or where in self.last_isr_members)

    def history(self, where: PartitionId) -> PartitionHistory:
        found = self.histories.get(where)
        if found is None:
            found = self.histories[where] = PartitionHistory()
        return found

    def row(self, where: PartitionId) -> Partition | None:
        return self.image.partition(where)

    def min_isr(self, where: PartitionId) -> int:
        """What is committed of min.insync.replicas."""
        topic = self.image.topics.get(where.topic_id)
        return self.image.min_isr(topic.name) if topic is not None else 1

    def is_draining(self, broker: Broker) -> bool:
        """Whether it may still be in sync and lead, though it is about to stop."""
        return self.drains_in_batches and broker.in_controlled_shutdown and not broker.is_fenced

    def is_up(self, broker_id: int) -> bool:
        """Whether the incarnation that the controller knows runs."""
        seen, known = self.brokers.get(broker_id), self.image.brokers.get(broker_id)
        return seen is not None and known is not None and seen.runs and seen.epoch == known.epoch

    def replicas(self, where: PartitionId) -> Iterator[tuple[BrokerView, Replica]]:
        """Those of running brokers."""
        for seen in self.brokers.values():
            replica = seen.replicas.get(where)
            if replica is not None:
                yield seen, replica

    def leaders(self, where: PartitionId) -> Iterator[tuple[BrokerView, Replica]]:
        """Who leads in the epoch that is the newest committed one ("nonStale")."""
        row = self.row(where)
        for seen, replica in self.replicas(where):
            if (
                row is not None
                and replica.leadership is not None
                and replica.leader_epoch == row.leader_epoch
            ):
                yield seen, replica
