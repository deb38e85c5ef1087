"""Replicas of one partition under test, with the metadata of their brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quorumd.broker.replication.isr_proposal import IsrProposal
from quorumd.broker.replication.replica import Replica
from quorumd.broker.replication.replica_fetch import FetchDecision, FetchedPartition, ReplicaFetch
from quorumd.controller.partition import Partition, PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from tests.support.broker.memory_log import MemoryLog

PARTITION = PartitionId(KafkaUuid(bytes(15) + b"\x07"), 0)
LAG_MS = 1000.0


class Context:
    """A `ReplicaContext` with given metadata. Broker epochs are 10 times the broker id."""

    def __init__(self) -> None:
        self.least = 2
        self.epochs = {broker_id: 10 * broker_id for broker_id in range(1, 8)}
        self.ineligible: set[int] = set()
        self.is_open = True
        self.on_proposal: Callable[[], None] = lambda: None
        self.proposals: list[IsrProposal] = []
        self.advanced: list[tuple[int, int]] = []
        self.truncations: list[tuple[int, int, int]] = []

    def min_isr(self, partition: PartitionId) -> int:
        return self.least

    def broker_epoch(self, broker_id: int) -> int:
        return self.epochs.get(broker_id, -1)

    def is_eligible(self, broker_id: int) -> bool:
        return broker_id in self.epochs and broker_id not in self.ineligible

    def propose(self, proposal: IsrProposal) -> bool:
        self.proposals.append(proposal)
        self.on_proposal()
        return self.is_open

    def high_watermark_advanced(self, replica: Replica[Any], before: int) -> None:
        self.advanced.append((before, replica.high_watermark))

    def truncated(self, replica: Replica[Any], before: int, high_watermark: int) -> None:
        self.truncations.append((before, replica.log.end_offset, high_watermark))


class Leader:
    """Broker 1, leader of epoch 1 in partition epoch 5, with min.insync.replicas 2 unless given."""

    def __init__(
        self,
        isr: tuple[int, ...] = (1, 2),
        epochs: tuple[int, ...] = (),
        replicas: tuple[int, ...] = (1, 2, 3),
        min_isr: int = 2,
        leader_epoch: int = 1,
    ) -> None:
        self.context = Context()
        self.context.least = min_isr
        self.log = MemoryLog(epochs)
        self.replica = Replica(PARTITION, 1, self.log, self.context, max_lag_ms=LAG_MS)
        self.replicas = replicas
        self.now_ms = 0.0
        self.outcomes: list[ErrorCode] = []
        self.apply(isr, leader_epoch=leader_epoch)

    def apply(
        self,
        isr: tuple[int, ...],
        partition_epoch: int = 5,
        leader_epoch: int = 1,
        leader: int = 1,
        replicas: tuple[int, ...] | None = None,
        **others: Any,
    ) -> Any:
        """Apply metadata."""
        partition = Partition(replicas or self.replicas, isr, leader, leader_epoch, partition_epoch, **others)
        return self.replica.apply(partition, self.now_ms)

    def append(self, count: int = 1) -> None:
        """Append records with acks=1."""
        for _ in range(count):
            self.log.append(self.replica.leader_epoch, self.log.end_offset)
            self.replica.handle_append(self.now_ms)

    def produce(self, timeout_ms: float = 100.0) -> ErrorCode:
        """Append a record with acks=all, unless the returned error refuses it. Its outcome is added to `outcomes`."""
        error = self.replica.check_produce(-1)
        if error is ErrorCode.NONE:
            self.append()
            self.replica.await_replication(
                self.log.end_offset, self.now_ms + timeout_ms, self.outcomes.append
            )
        return error

    def fetch(
        self,
        replica_id: int,
        offset: int,
        broker_epoch: int | None = None,
        leader_epoch: int | None = None,
        last_epoch: int | None = None,
        start_offset: int = 0,
        is_delayed: bool = False,
    ) -> FetchDecision:
        """Fetch as a follower that has the leader's records below `offset`, unless `last_epoch` is given."""
        if last_epoch is None:
            last_epoch = self.log.epochs[offset - 1] if 0 < offset <= self.log.end_offset else -1
        request = ReplicaFetch(
            replica_id,
            10 * replica_id if broker_epoch is None else broker_epoch,
            self.replica.leader_epoch if leader_epoch is None else leader_epoch,
            offset,
            last_epoch,
            start_offset,
        )
        return self.replica.serve_fetch(request, self.now_ms, is_delayed=is_delayed)

    @property
    def proposed(self) -> list[tuple[int, ...]]:
        """The members of every proposal so far."""
        return [proposal.members for proposal in self.context.proposals]

    def end_offset_of(self, replica_id: int) -> int:
        """Return the follower's end offset, as the leader knows it."""
        assert self.replica.leadership is not None
        return self.replica.leadership.end_offset_of(replica_id)


class Follower:
    """Broker 2, a follower of broker 1 in leader epoch 1, whose log has records of these epochs."""

    def __init__(self, *epochs: int, high_watermark: int = 0, leader_epoch: int = 1) -> None:
        self.context = Context()
        self.log = MemoryLog(epochs)
        self.replica = Replica(PARTITION, 2, self.log, self.context, high_watermark)
        self.replica.apply(Partition((1, 2, 3), (1, 2), 1, leader_epoch, 5), 0.0)

    def receive(self, response: FetchedPartition, request: ReplicaFetch | None = None) -> Any:
        """Handle the response to `request`, by default the next fetch."""
        return self.replica.handle_fetched(request or self.replica.next_fetch(20), response, 0.0)

    def fetch_from(self, leader: Leader) -> Any:
        """Fetch once from a leader."""
        request = self.replica.next_fetch(20)
        decision = leader.replica.serve_fetch(request, leader.now_ms)
        records = leader.log.read(request.offset, decision.end_offset) if decision.has_records else b""
        return self.receive(
            FetchedPartition(
                decision.error, decision.high_watermark, decision.start_offset, records, decision.diverging
            ),
            request,
        )
