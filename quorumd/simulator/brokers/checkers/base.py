"""The base class of checkers of brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from quorumd.broker.replication.isr_proposal import CommittedIsr, IsrProposal
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.cluster_view import (
    BrokerView,
    ClusterView,
    ObservedReplica,
    OwnerCommit,
    PartitionChange,
    Registration,
)
from quorumd.simulator.brokers.data_log import Record
from quorumd.simulator.brokers.partition_history import Outcome
from quorumd.simulator.checkers.base import InvariantViolation

T = TypeVar("T")


class BrokerChecker:
    """An invariant. Its methods receive observations of brokers and controllers; the defaults accept everything.

    docs/decisions.md explains the properties (S1, X1, ...) and races (R1, ...) that docstrings name.
    """

    invariant = ""

    # The committed metadata

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        """Check a partition record; the rest of its batch may follow."""

    def registered(self, view: ClusterView, registration: Registration) -> None:
        """Check a broker registration record; the rest of its batch may follow."""

    def fenced(self, view: ClusterView, broker: BrokerView, leader_epoch: int) -> None:
        """Check a record that fences a broker; `leader_epoch` is the epoch of the controller that wrote it."""

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        """Check a complete batch; `changed` are its partitions, or all partitions if it changed brokers."""

    def config_changed(self, view: ClusterView, record: ConfigRecord) -> None:
        """Check a config record; the rest of its batch may follow."""

    def unregistered(self, view: ClusterView, record: UnregisterBrokerRecord) -> None:
        """Check a record that unregisters a broker."""

    # Brokers

    def partition_observed(self, view: ClusterView, where: PartitionId) -> None:
        """Check a partition after an event that may have changed it at a broker or at the controller."""

    def metadata_applied(
        self, view: ClusterView, broker: BrokerView, committed: bytes | None, applied: bytes
    ) -> None:
        """Check a batch applied by a broker; `committed` is the batch committed at its offset, None if there is
        none."""

    def high_watermark_moved(
        self, view: ClusterView, broker: BrokerView, replica: ObservedReplica, before: int
    ) -> None:
        """Check an advance of a leader's high watermark."""

    def leads(self, view: ClusterView, broker: BrokerView, replica: ObservedReplica) -> None:
        """Check a broker that starts to lead a partition in a new epoch."""

    def settled(self, view: ClusterView, where: PartitionId, value: int, outcome: Outcome) -> None:
        """Check the outcome of a produced record."""

    def proposed(self, view: ClusterView, broker: BrokerView, proposal: IsrProposal) -> None:
        """Check an ISR that a leader proposes."""

    def lost(self, view: ClusterView, where: PartitionId) -> None:
        """Check a partition after a log was truncated or removed."""

    def consumed(self, view: ClusterView, where: PartitionId, offset: int, records: Sequence[Record]) -> None:
        """Check records that a consumer read."""

    def read_committed(self, view: ClusterView, where: PartitionId, values: Sequence[int]) -> None:
        """Check values that a consumer with isolation level read_committed saw."""

    def offset_reported(
        self, view: ClusterView, group: str, where: PartitionId, offset: int, committed: int
    ) -> None:
        """Check an offset of a group that a response confirms or returns; `committed` is the newest offset that was
        committed before the request, -1 for none."""

    def offset_committed(self, view: ClusterView, commit: OwnerCommit) -> None:
        """Check a successful commit of an offset by a member that owns the partition."""

    def late_commit(self, view: ClusterView, group: str, topic: str, number: int, error: ErrorCode) -> None:
        """Check the response to a commit with an epoch of the member that is no longer current."""

    def assigned(
        self, view: ClusterView, group: str, subscribed: Sequence[str], assigned: Sequence[PartitionId]
    ) -> None:
        """Check the partitions assigned to a member that subscribes to these topics."""

    def producer_id_allocated(self, view: ClusterView, producer_id: int, epoch: int) -> None:
        """Check the id of a producer without transactions."""

    # Responses of the controller

    def proposal_completed(
        self,
        view: ClusterView,
        broker: BrokerView,
        proposal: IsrProposal,
        error: ErrorCode,
        committed: CommittedIsr | None,
    ) -> None: ...

    def registration_completed(self, view: ClusterView, broker: BrokerView) -> None: ...

    def heartbeat_completed(
        self, view: ClusterView, broker: BrokerView, response: BrokerHeartbeatResponse
    ) -> None: ...

    def admin_request_sent(self, view: ClusterView, request: Message) -> None:
        """Observe a request of an administrator or operator, before it is sent."""

    def admin_request_completed(self, view: ClusterView, request: Message, response: Message) -> None:
        """Check the response to an administrator, or to a broker that needs producer ids."""

    def metadata_received(self, view: ClusterView, response: MetadataResponse) -> None:
        """Check a client's metadata of all topics."""

    def metadata_lost(self, view: ClusterView, requests: int) -> None:
        """Report requests of a client on one connection that got no response although there were no faults."""

    def violation(self, text: str) -> InvariantViolation:
        return InvariantViolation(self.invariant, text)


class SentRequests(Generic[T]):
    """Requests without a response, each with what the checker knew when it was sent. They are compared by identity,
    since equal requests may be sent."""

    def __init__(self) -> None:
        self._sent: list[tuple[Message, T]] = []

    def add(self, request: Message, known: T) -> None:
        self._sent.append((request, known))

    def take(self, request: Message) -> T | None:
        """Remove a request and return what was known; None if it was not added."""
        for index, (other, known) in enumerate(self._sent):
            if other is request:
                del self._sent[index]
                return known
        return None


def named(view: ClusterView, where: PartitionId) -> str:
    """Format a partition as topic-number."""
    topic = view.image.topics.get(where.topic_id)
    return f"{topic.name if topic is not None else where.topic_id}-{where.number}"
