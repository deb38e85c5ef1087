"""Three replicas of a partition, a small controller and a network that delays and loses messages, driven by one seed.

The controller checks proposals like the real one. It has no ELR, so that the last member stays in the ISR.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from quorumd.broker.replication.isr_proposal import FINAL, CommittedIsr, IsrProposal
from quorumd.broker.replication.replica import Replica
from quorumd.broker.replication.replica_fetch import FetchedPartition, ReplicaFetch
from quorumd.controller.partition import NO_LEADER, Partition
from quorumd.errors import ErrorCode
from tests.support.broker.memory_log import MemoryLog
from tests.support.broker.replicas import LAG_MS, PARTITION

BROKERS = (1, 2, 3)
MIN_ISR = 2


class Metadata(NamedTuple):
    """The metadata that a broker applies."""

    partition: Partition
    epochs: dict[int, int]
    eligible: frozenset[int]


class Broker:
    """One broker and its replica. Satisfies `ReplicaContext`."""

    def __init__(self, cluster: ReplicaCluster, broker_id: int) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.epoch = cluster.metadata.epochs[broker_id]
        self.log = MemoryLog()
        self.known = cluster.metadata
        self.request: IsrProposal | None = None
        self.start(high_watermark=0)

    def start(self, high_watermark: int) -> None:
        """Start a replica on the present log."""
        self.request = None
        self.replica = Replica(PARTITION, self.id, self.log, self, high_watermark, LAG_MS)

    def apply_metadata(self) -> None:
        self.known = self.cluster.metadata
        self.replica.apply(self.known.partition, self.cluster.now_ms)

    def min_isr(self, partition: object) -> int:
        return MIN_ISR

    def broker_epoch(self, broker_id: int) -> int:
        return self.known.epochs[broker_id]

    def is_eligible(self, broker_id: int) -> bool:
        return broker_id in self.known.eligible

    def propose(self, proposal: IsrProposal) -> bool:
        if self.request is not None:
            return False
        self.request = proposal
        return True

    def high_watermark_advanced(self, replica: Replica[Any], before: int) -> None:
        assert before < replica.high_watermark <= self.log.end_offset

    def truncated(self, replica: Replica[Any], before: int, high_watermark: int) -> None:
        if self.id in self.known.partition.isr:
            assert self.log.end_offset >= high_watermark, "a member of the ISR lost committed records"


class ReplicaCluster:
    """The brokers, the controller and the network. `step` takes one random action and checks the invariants."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0.0
        self.next_epoch = 10
        self.next_value = 1
        self.metadata = Metadata(
            Partition(BROKERS, BROKERS, 1, 1, 1),
            {broker_id: broker_id for broker_id in BROKERS},
            frozenset(BROKERS),
        )
        self.brokers = {broker_id: Broker(self, broker_id) for broker_id in BROKERS}
        self.fetches: list[tuple[int, int, ReplicaFetch]] = []
        """Requests in flight, as (follower, leader, request)."""
        self.responses: list[tuple[int, ReplicaFetch, FetchedPartition]] = []
        self.acknowledged: dict[int, tuple[int, int]] = {}
        """The acknowledged record at each offset."""
        self.leaders: dict[int, int] = {}
        for broker in self.brokers.values():
            broker.apply_metadata()

    # Steps

    def step(self) -> None:
        """Take one action at one broker."""
        self.now_ms += self.random.choice((1.0, 10.0, LAG_MS / 20))
        broker = self.brokers[self.random.choice(BROKERS)]
        actions = (
            (60, self.produce), (150, self.fetch), (150, self.deliver_fetch), (150, self.deliver_response),
            (50, self.handle_proposal), (20, self.shrink), (100, self.deliver_metadata), (4, self.fence),
            (20, self.unfence), (3, self.restart),
        )  # fmt: skip
        weights, chosen = zip(*actions, strict=True)
        (action,) = self.random.choices(chosen, weights)
        action(broker)
        self.check()

    def produce(self, broker: Broker) -> None:
        replica = broker.replica
        if replica.check_produce(-1) is ErrorCode.NONE:
            record = (replica.leader_epoch, self.next_value)
            self.next_value += 1
            offset = broker.log.end_offset
            broker.log.append(*record)
            replica.handle_append(self.now_ms)

            def complete(error: ErrorCode) -> None:
                if error is ErrorCode.NONE:
                    self.acknowledged[offset] = record

            replica.await_replication(offset + 1, self.now_ms + 5 * LAG_MS, complete)

    def fetch(self, broker: Broker) -> None:
        leader = broker.known.partition.leader
        is_waiting = sum(follower == broker.id for follower, _, _ in self.fetches) > 1
        if broker.replica.leadership is None and leader not in (NO_LEADER, broker.id) and not is_waiting:
            request = broker.replica.next_fetch(broker.epoch)
            self.fetches.append((broker.id, leader, request))

    def deliver_fetch(self, broker: Broker) -> None:
        del broker
        if not self.fetches:
            return
        follower, leader, request = self.fetches.pop(self.random.randrange(len(self.fetches)))
        serving = self.brokers[leader]
        decision = serving.replica.serve_fetch(request, self.now_ms, is_delayed=self.random.random() < 0.1)
        records = b""
        if decision.has_records:
            end = min(decision.end_offset, request.offset + self.random.randint(1, 4))
            records = serving.log.read(request.offset, end)
        response = FetchedPartition(
            decision.error, decision.high_watermark, decision.start_offset, records, decision.diverging
        )
        if self.random.random() < 0.9:
            self.responses.append((follower, request, response))

    def deliver_response(self, broker: Broker) -> None:
        del broker
        if self.responses:
            follower, request, response = self.responses.pop(self.random.randrange(len(self.responses)))
            if request.broker_epoch == self.brokers[follower].epoch:
                self.brokers[follower].replica.handle_fetched(request, response, self.now_ms)

    def shrink(self, broker: Broker) -> None:
        broker.replica.shrink_isr(self.now_ms)
        broker.replica.expire_produces(self.now_ms)

    def deliver_metadata(self, broker: Broker) -> None:
        broker.apply_metadata()

    # Controller

    def handle_proposal(self, broker: Broker) -> None:
        """Handle the request of a broker, which repeats it if the response is lost."""
        proposal = broker.request
        if proposal is None:
            return
        error, committed = self.decide(broker, proposal)
        if self.random.random() < 0.7 and error in FINAL:
            broker.request = None
            broker.replica.handle_proposal_response(proposal, error, committed, self.now_ms)

    def decide(self, broker: Broker, proposal: IsrProposal) -> tuple[ErrorCode, CommittedIsr | None]:
        partition, epochs, eligible = self.metadata
        if broker.epoch != epochs[broker.id]:
            return ErrorCode.STALE_BROKER_EPOCH, None
        if proposal.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, None
        if proposal.partition_epoch < partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION, None
        for member, epoch in proposal.isr:
            if member not in eligible or epoch not in (-1, epochs[member]):
                return ErrorCode.INELIGIBLE_REPLICA, None
        if set(proposal.members) != set(partition.isr):
            self.change(proposal.members, partition.leader)
        now = self.metadata.partition
        return ErrorCode.NONE, CommittedIsr(now.leader, now.leader_epoch, now.isr, now.partition_epoch)

    def change(self, isr: tuple[int, ...], leader: int) -> None:
        before = self.metadata.partition
        is_new = leader != before.leader
        partition = Partition(BROKERS, isr, leader, before.leader_epoch + is_new, before.partition_epoch + 1)
        self.metadata = self.metadata._replace(partition=partition)

    def fence(self, broker: Broker) -> None:
        """Fence a broker: remove it from the ISR, and elect a leader. The last member stays, but does not lead."""
        self.metadata = self.metadata._replace(eligible=self.metadata.eligible - {broker.id})
        partition = self.metadata.partition
        if broker.id not in partition.isr:
            return
        isr = tuple(member for member in partition.isr if member != broker.id) or partition.isr
        leader = partition.leader
        if leader in (broker.id, NO_LEADER):
            leader = next((member for member in isr if member in self.metadata.eligible), NO_LEADER)
        if isr != partition.isr or leader != partition.leader:
            self.change(isr, leader)

    def unfence(self, broker: Broker) -> None:
        self.metadata = self.metadata._replace(eligible=self.metadata.eligible | {broker.id})
        partition = self.metadata.partition
        if partition.leader == NO_LEADER and broker.id in partition.isr:
            self.change(partition.isr, broker.id)

    def restart(self, broker: Broker) -> None:
        """Start a new incarnation, which may have lost records if other replicas have every committed record."""
        self.fence(broker)
        self.next_epoch += 1
        broker.epoch = self.next_epoch
        epochs = {**self.metadata.epochs, broker.id: broker.epoch}
        self.metadata = self.metadata._replace(epochs=epochs)
        if broker.id not in self.metadata.partition.isr and self.random.random() < 0.5:
            broker.log.truncate(self.random.randint(0, broker.log.end_offset))
        broker.start(high_watermark=self.random.randint(0, broker.replica.high_watermark))
        broker.apply_metadata()

    # Invariants

    def check(self) -> None:
        """Check that members of the ISR have every acknowledged record, that logs agree, and that no leader epoch has
        two leaders."""
        partition = self.metadata.partition
        for member in partition.isr:
            records = self.brokers[member].log.records
            for offset, record in self.acknowledged.items():
                assert offset < len(records), f"{member} lacks acknowledged offset {offset}"
                assert records[offset] == record, f"{member} has another record at {offset}"
        for broker in self.brokers.values():
            replica = broker.replica
            assert 0 <= replica.high_watermark <= broker.log.end_offset
            if replica.leadership is not None:
                assert self.leaders.setdefault(replica.leader_epoch, broker.id) == broker.id
            for other in self.brokers.values():
                common = min(replica.high_watermark, other.replica.high_watermark)
                assert broker.log.records[:common] == other.log.records[:common]
