"""What checkers of brokers are asked, and how they complain."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.controller.partition import Partition, PartitionId
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.cluster_view import BrokerView, ClusterView, PartitionChange, Registration
from quorumd.simulator.brokers.data_log import Record
from quorumd.simulator.brokers.replica import Outcome, Proposal, Replica
from quorumd.simulator.checkers.base import InvariantViolation


class BrokerChecker:
    """A promise; the methods are what can be seen of brokers and their controller. By default nothing breaks it.

    docs/decisions.md explains the properties (S1, X1, ...) and races (R1, ...) that docstrings name.
    """

    invariant = ""

    # The committed metadata

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        """One record of one partition; the rest of its batch may still come."""

    def registered(self, view: ClusterView, registration: Registration) -> None:
        """A record that registers a broker; the rest of its batch may still come."""

    def fenced(self, view: ClusterView, broker: BrokerView, leader_epoch: int) -> None:
        """A record that fences a broker, of the leader of this epoch."""

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        """A batch, whole; `changed` are its partitions, all there are if it changed brokers."""

    # Brokers

    def partition_observed(self, view: ClusterView, where: PartitionId) -> None:
        """A partition after an event that may have changed it at some broker or at the controller."""

    def metadata_applied(
        self, view: ClusterView, broker: BrokerView, committed: bytes | None, applied: bytes
    ) -> None:
        """A broker applied a batch; `committed` is what is committed at its offset, None for nothing."""

    def high_watermark_moved(
        self, view: ClusterView, broker: BrokerView, replica: Replica, before: int
    ) -> None:
        """Of a leader, upwards."""

    def leads(self, view: ClusterView, broker: BrokerView, replica: Replica) -> None:
        """A broker leads a partition in another epoch."""

    def settled(self, view: ClusterView, where: PartitionId, value: int, outcome: Outcome) -> None:
        """A producer was told what became of its record."""

    def proposed(self, view: ClusterView, broker: BrokerView, proposal: Proposal) -> None:
        """A leader asks for another ISR."""

    def lost(self, view: ClusterView, where: PartitionId) -> None:
        """A log became shorter, or was removed."""

    def consumed(self, view: ClusterView, where: PartitionId, offset: int, records: Sequence[Record]) -> None:
        """A consumer has read this."""

    # Answers of the controller

    def proposal_completed(
        self,
        view: ClusterView,
        broker: BrokerView,
        proposal: Proposal,
        error: ErrorCode,
        answer: Partition | None,
    ) -> None: ...

    def registration_completed(self, view: ClusterView, broker: BrokerView) -> None: ...

    def heartbeat_completed(
        self, view: ClusterView, broker: BrokerView, answer: BrokerHeartbeatResponse
    ) -> None: ...

    def admin_request_completed(self, view: ClusterView, request: Message, answer: Message) -> None:
        """An administrator, or a broker in need of producer ids, was answered."""

    def metadata_received(self, view: ClusterView, answer: MetadataResponse) -> None:
        """A client was told of all topics."""

    def metadata_lost(self, view: ClusterView, requests: int) -> None:
        """So many requests of a client on one connection got no answer, though nothing fails."""

    def violation(self, text: str) -> InvariantViolation:
        return InvariantViolation(self.invariant, text)


def named(view: ClusterView, where: PartitionId) -> str:
    """A partition, for people."""
    topic = view.image.topics.get(where.topic_id)
    return f"{topic.name if topic is not None else where.topic_id}-{where.number}"
