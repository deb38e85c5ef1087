"""The state that checkers of brokers observe: the committed metadata, all brokers, and the outcomes of records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from quorumd.controller.broker import Broker
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.elect_leaders_request import ElectLeadersRequest
from quorumd.simulator.brokers.data_log import Record
from quorumd.simulator.brokers.partition_history import PartitionHistory
from quorumd.simulator.brokers.produced import Produced


class ObservedLog(Protocol):
    """The log of a replica."""

    @property
    def records(self) -> Sequence[Record]:
        """The records, by offset."""

    @property
    def epochs(self) -> Sequence[tuple[int, int]]:
        """Leader epochs with their start offsets, both increasing."""

    @property
    def end_offset(self) -> int: ...


class ObservedLeadership(Protocol):
    """The state of a leader."""

    @property
    def proposal(self) -> object | None: ...


class ObservedReplica(Protocol):
    """A replica of a running broker; `metadata` is the partition as it knows it."""

    @property
    def partition(self) -> PartitionId: ...
    @property
    def log(self) -> ObservedLog: ...
    @property
    def leadership(self) -> ObservedLeadership | None: ...
    @property
    def metadata(self) -> Partition | None: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def isr(self) -> tuple[int, ...]: ...
    @property
    def maximal_isr(self) -> tuple[int, ...]: ...
    @property
    def min_isr(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...


class ObservedBroker(Protocol):
    """A running broker."""

    @property
    def id(self) -> int: ...
    @property
    def incarnation_id(self) -> KafkaUuid: ...
    @property
    def epoch(self) -> int: ...
    @property
    def previous_epoch(self) -> int: ...
    @property
    def is_published(self) -> bool:
        """Whether its replicas follow the metadata."""

    @property
    def awaits_heartbeat(self) -> bool: ...
    @property
    def replicas(self) -> Mapping[PartitionId, ObservedReplica]: ...
    @property
    def fetchers(self) -> Mapping[int, object]: ...


class PartitionChange(NamedTuple):
    """The effect of one metadata record on a partition."""

    where: PartitionId
    before: Partition | None
    after: Partition | None
    names_leader: bool
    min_isr: int
    """min.insync.replicas of its topic before or after the batch, whichever is smaller."""


class Registration(NamedTuple):
    """The effect of the record at this offset on a broker."""

    before: Broker | None
    after: Broker
    offset: int


class OwnerCommit(NamedTuple):
    """A successful commit of an offset by the owner of a partition; times are those of the owner's requests."""

    group: str
    where: PartitionId
    offset: int
    owner: str
    owned_since_ms: float
    """When the owner began to consume the partition, after it was assigned to it."""
    sent_ms: float
    received_ms: float


@dataclass(slots=True)
class BrokerView:
    """One broker, running or stopped."""

    id: int
    runs: bool = False
    incarnation: int = 0
    is_published: bool = False
    epoch: int = -1
    """Broker epoch of the running process, -1 before it has one."""
    replicas: Mapping[PartitionId, ObservedReplica] = field(default_factory=dict)
    """The replicas of the running process, empty without one."""
    logs: Mapping[PartitionId, ObservedLog] = field(default_factory=dict)
    """The logs on its disk."""
    fetchers: Mapping[int, object] = field(default_factory=dict)
    """The fetchers of its followers, by the leader's broker id."""
    may_request_fence: bool = False
    """Whether a heartbeat that requests fencing may be in flight: the broker is shutting down, or a heartbeat from
    its start was lost."""
    heartbeat_ms: float = -1.0
    """When it sent the last heartbeat that got a response, -1 for never."""
    heartbeat_leader_epoch: int = -1
    """The epoch of the leader that responded, as far as the broker knew."""
    leader_paused_ms: float = 0.0
    """`ClusterView.leader_paused_ms` of that epoch at the time of the response."""
    alter_partition_version: int = 3
    """The version of its last AlterPartition request that got a response."""
    awaits_heartbeat_response: bool = False
    """Whether a heartbeat of this incarnation got no response; it may arrive late, even after the process ended."""
    reported_offline: Sequence[KafkaUuid] = ()
    """The lost directories in its last heartbeat that got a response."""
    ended_ms: float = -1.0
    """When its last process ended, -1 for never."""

    def log(self, where: PartitionId) -> ObservedLog | None:
        """Return the broker's log of a partition, whether or not the broker is running."""
        replica = self.replicas.get(where)
        return replica.log if replica is not None else self.logs.get(where)


@dataclass(slots=True)
class ClusterView:
    """The committed metadata, all brokers, and the outcomes of records."""

    image: ClusterImage = field(default_factory=ClusterImage)
    """The committed metadata."""
    brokers: dict[int, BrokerView] = field(default_factory=dict)
    histories: dict[PartitionId, PartitionHistory] = field(default_factory=dict)
    unclean: dict[int, None] = field(default_factory=dict)
    """The broker epochs of incarnations that started after an unclean shutdown."""
    unregistered: dict[tuple[int, int], None] = field(default_factory=dict)
    """The brokers, by id and epoch, that were unregistered."""
    requested_targets: dict[PartitionId, dict[tuple[int, ...], None]] = field(default_factory=dict)
    """The targets that administrators requested, by partition."""
    unclean_requests: list[ElectLeadersRequest] = field(default_factory=list)
    """Requests for unclean elections that may still be carried out."""
    incarnations: dict[KafkaUuid, int] = field(default_factory=dict)
    """The number of each incarnation of a broker."""
    leads_since: dict[int, float] = field(default_factory=dict)
    """When the leader of each epoch of the quorum was elected."""
    leader_paused_ms: dict[int, float] = field(default_factory=dict)
    """Total pauses of the leader of each epoch; a lower bound."""
    now_ms: float = 0.0
    shortest_session_ms: float = 0.0
    """The session timeout as measured by the fastest clock."""
    longest_session_ms: float = 0.0
    """The session timeout as measured by the slowest clock."""
    brokers_are_nodes: bool = False
    """Whether the brokers are nodes. The quorum lists its nodes as brokers while no broker is unfenced."""
    proposals_have_epochs: bool = True
    """Whether all proposals have the broker epochs of ISR members."""
    is_balanced: bool = False
    """Whether the controller elects preferred leaders."""
    drains_in_batches: bool = False
    """Whether a broker may have more partitions than change in one step."""
    unregisters_in_parts: bool = False
    """Whether an active broker that is unregistered may lose its partitions before its registration."""

    produced: dict[int, Produced] = field(default_factory=dict)
    """The values that producers have sent to nodes."""
    last_isr_members: dict[PartitionId, tuple[int, ...]] = field(default_factory=dict)
    """The ISRs of partitions that were leaderless when ELR was enabled: Kafka keeps them."""

    def elr_enabled(self) -> None:
        """Record that ELR was enabled."""
        for topic in self.image.topics.values():
            for number, row in topic.partitions.items():
                if row.leader == NO_LEADER:
                    self.last_isr_members[PartitionId(topic.id, number)] = row.isr

    def changed(self, where: PartitionId, row: Partition | None) -> None:
        """Record the new state of a partition, None if it was removed."""
        if row is None or row.leader != NO_LEADER or row.isr != self.last_isr_members.get(where):
            self.last_isr_members.pop(where, None)

    def may_remain_last(self, where: PartitionId, row: Partition, member: int) -> bool:
        """Whether this broker may stay in the ISR whatever its state: without ELR the last member stays."""
        return row.isr == (member,) and (not self.image.elr_enabled or where in self.last_isr_members)

    def history(self, where: PartitionId) -> PartitionHistory:
        found = self.histories.get(where)
        if found is None:
            found = self.histories[where] = PartitionHistory()
        return found

    def row(self, where: PartitionId) -> Partition | None:
        return self.image.partition(where)

    def min_isr(self, where: PartitionId) -> int:
        """Return the committed min.insync.replicas."""
        topic = self.image.topics.get(where.topic_id)
        return self.image.min_isr(topic.name) if topic is not None else 1

    def allows_unclean_election(self, where: PartitionId) -> bool:
        """Whether the topic allows unclean elections, or a pending request is for an unclean election of the
        partition."""
        topic = self.image.topics.get(where.topic_id)
        return topic is not None and (
            self.image.unclean_election(topic.name)
            or any(_names(request, topic.name, where.number) for request in self.unclean_requests)
        )

    def is_draining(self, broker: Broker) -> bool:
        """Whether a broker in controlled shutdown may still be in ISRs and lead."""
        return self.drains_in_batches and broker.in_controlled_shutdown and not broker.is_fenced

    def is_up(self, broker_id: int) -> bool:
        """Whether the registered incarnation is running."""
        seen, known = self.brokers.get(broker_id), self.image.brokers.get(broker_id)
        return seen is not None and known is not None and seen.runs and seen.epoch == known.epoch

    def has_its_log(self, where: PartitionId, broker_id: int) -> bool:
        """Whether the registered incarnation is running and has not lost the directory of this partition."""
        lossy = self.history(where).lossy.get(broker_id, -1)
        return self.is_up(broker_id) and lossy != self.brokers[broker_id].incarnation

    def replicas(self, where: PartitionId) -> Iterator[tuple[BrokerView, ObservedReplica]]:
        """Iterate over the replicas of running brokers."""
        for seen in self.brokers.values():
            replica = seen.replicas.get(where)
            if replica is not None:
                yield seen, replica

    def leaders(self, where: PartitionId) -> Iterator[tuple[BrokerView, ObservedReplica]]:
        """Iterate over the leaders in the newest committed epoch ("nonStale")."""
        row = self.row(where)
        for seen, replica in self.replicas(where):
            if (
                row is not None
                and replica.leadership is not None
                and replica.leader_epoch == row.leader_epoch
            ):
                yield seen, replica


def _names(request: ElectLeadersRequest, topic: str, number: int) -> bool:
    """Whether the request is for all partitions or names this one."""
    named = request.topic_partitions
    return named is None or any(each.topic == topic and number in each.partitions for each in named)
