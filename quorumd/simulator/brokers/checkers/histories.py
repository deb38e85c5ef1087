"""Invariants of the histories of producers and consumers.

Invariants of committed records hold unless a fault exceeds what the protocol tolerates (`PartitionHistory.holds`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final

from quorumd.broker.coordinator.internal_topics import partition_of
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.simulator.brokers.checkers.base import BrokerChecker, named
from quorumd.simulator.brokers.cluster_view import BrokerView, ClusterView, ObservedReplica, OwnerCommit
from quorumd.simulator.brokers.data_log import Record
from quorumd.simulator.brokers.produced import TransactionState
from quorumd.simulator.checkers.base import InvariantViolation

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"


class ConsumersReadCommittedRecords(BrokerChecker):
    """Every record that a consumer reads is below the high watermark of some leader, and committed there."""

    invariant = "consumers read committed records"

    def consumed(self, view: ClusterView, where: PartitionId, offset: int, records: Sequence[Record]) -> None:
        history = view.histories.get(where)
        if history is None or not history.holds:
            return
        if offset + len(records) > history.high_watermark:
            raise self.violation(
                f"{named(view, where)} was read to {offset + len(records)}, its high watermark is "
                f"{history.high_watermark}"
            )
        for number, record in enumerate(records, offset):
            if record.epoch >= 0 and record != history.consumed[number]:
                raise self.violation(
                    f"{named(view, where)} had {record} at {number}, committed is {history.consumed[number]}"
                )


class _Committed(BrokerChecker):
    """Iterates over records once they are committed."""

    def __init__(self) -> None:
        self._checked: dict[PartitionId, int] = {}

    def _new(self, view: ClusterView, where: PartitionId) -> Iterator[tuple[int, Record]]:
        """Iterate over the producers' records that were committed since the last call, with their offsets."""
        history, first = view.history(where), self._checked.get(where, 0)
        self._checked[where] = history.high_watermark
        for offset in range(first, history.high_watermark):
            record = history.consumed[offset]
            if record.value >= 0:
                yield offset, record


class CommittedRecordsWereProduced(_Committed):
    """No record is invented or damaged."""

    invariant = "every committed record was produced"

    def high_watermark_moved(
        self, view: ClusterView, broker: BrokerView, replica: ObservedReplica, before: int
    ) -> None:
        if not view.produced:
            return
        for offset, record in self._new(view, replica.partition):
            if record.value not in view.produced:
                raise self.violation(f"{named(view, replica.partition)} has {record} at {offset}")


class ProducersAreNotRepeated(_Committed):
    """The records of an idempotent producer are in order and not duplicated. Other producers send each record once,
    so their records are not duplicated either."""

    invariant = "a producer's records are not repeated or reordered"

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[int, PartitionId] = {}
        self._newest: dict[tuple[str, PartitionId], int] = {}

    def high_watermark_moved(
        self, view: ClusterView, broker: BrokerView, replica: ObservedReplica, before: int
    ) -> None:
        where = replica.partition
        for offset, record in self._new(view, where):
            produced = view.produced.get(record.value)
            if produced is None or not view.history(where).holds:
                continue
            if record.value in self._seen:
                raise self.violation(f"{named(view, where)} has {record.value} again at {offset}: {produced}")
            self._seen[record.value] = where
            if produced.session:
                newest = self._newest.get((produced.session, where), -1)
                if produced.order <= newest:
                    raise self.violation(
                        f"{named(view, where)} has record {produced.order} of {produced.session} at {offset}, "
                        f"after {newest}"
                    )
                self._newest[produced.session, where] = produced.order


class TransactionsAreIsolated(BrokerChecker):
    """A consumer with isolation level read_committed sees no record of a transaction that is open or aborted."""

    invariant = "readers of committed transactions see no others"

    def read_committed(self, view: ClusterView, where: PartitionId, values: Sequence[int]) -> None:
        if not view.history(where).holds:
            return
        for value in values:
            produced = view.produced.get(value)
            transaction = produced.transaction if produced is not None else None
            if transaction is not None and transaction.state in (
                TransactionState.OPEN,
                TransactionState.ABORTED,
            ):
                raise self.violation(
                    f"{value} of {named(view, where)} was read; its transaction {transaction.name} is "
                    f"{transaction.state.value}"
                )


class AllocatedProducerIdsAreUnique(BrokerChecker):
    """No two producers get the same producer id."""

    invariant = "brokers allocate every producer id once"

    def __init__(self) -> None:
        self._allocated: dict[tuple[int, int], None] = {}

    def producer_id_allocated(self, view: ClusterView, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) in self._allocated:
            raise self.violation(f"producer id {producer_id} with epoch {epoch} was allocated twice")
        self._allocated[producer_id, epoch] = None


class GroupOffsetsNeverGoBack(BrokerChecker):
    """The members of a group commit increasing offsets, beginning with the offset that the group had when the member
    took over the partition. So a decrease means that an offset was lost, or that a former owner committed."""

    invariant = "the offsets of a group never go back"

    def offset_reported(
        self, view: ClusterView, group: str, where: PartitionId, offset: int, committed: int
    ) -> None:
        if where.topic_id not in view.image.topics or not topic_holds(view, OFFSETS_TOPIC):
            return
        if offset < committed:
            raise self.violation(f"{group} has offset {offset} of {named(view, where)}, it had {committed}")


class PartitionsHaveOneOwner(BrokerChecker):
    """No two members own a partition of a group at the same time, whichever protocols they use: once another member
    has committed an offset, the previous owner commits none until it has been assigned the partition again.

    Commits are evidence of ownership because a coordinator that has been replaced cannot acknowledge them.
    """

    invariant = "a partition of a group has one owner"

    def __init__(self) -> None:
        self._newest: dict[tuple[str, PartitionId], dict[str, OwnerCommit]] = {}

    def offset_committed(self, view: ClusterView, commit: OwnerCommit) -> None:
        where = commit.where
        if where.topic_id not in view.image.topics or not topic_holds(view, OFFSETS_TOPIC):
            return
        newest = self._newest.setdefault((commit.group, where), {})
        for other in newest.values():
            was_owner = commit.owned_since_ms < other.sent_ms and other.received_ms < commit.sent_ms
            if other.owner != commit.owner and was_owner:
                raise self.violation(
                    f"{commit.owner} of {commit.group} owned {named(view, where)} and commits {commit.offset} "
                    f"after {other.owner} has committed {other.offset}"
                )
        newest[commit.owner] = commit


class FormerMembersCommitNothing(BrokerChecker):
    """A commit with a previous epoch of the member is refused, however late it arrives."""

    invariant = "only members of the present generation commit"

    def late_commit(self, view: ClusterView, group: str, topic: str, number: int, error: ErrorCode) -> None:
        if error is ErrorCode.NONE and topic_holds(view, OFFSETS_TOPIC):
            raise self.violation(
                f"{group} has accepted an offset of {topic}-{number} of an earlier generation"
            )


class AssignedTopicsAreSubscribed(BrokerChecker):
    """A member gets only partitions of topics to which it subscribes, by name or by regular expression."""

    invariant = "members get only topics to which they subscribe"

    def assigned(
        self, view: ClusterView, group: str, subscribed: Sequence[str], assigned: Sequence[PartitionId]
    ) -> None:
        for where in assigned:
            topic = view.image.topics.get(where.topic_id)
            if topic is not None and topic.name not in subscribed:
                raise self.violation(
                    f"{group} has assigned {named(view, where)} to a subscriber of {subscribed}"
                )


def topic_holds(view: ClusterView, topic: str) -> bool:
    """Whether the guarantees of all partitions of an internal topic hold."""
    found = view.image.topic_by_name(topic)
    return found is not None and all(
        view.history(PartitionId(found.id, number)).holds for number in found.partitions
    )


def _coordinator_holds(view: ClusterView, transactional_id: str) -> bool:
    """Whether the guarantees of the partition that coordinates a transactional id hold."""
    found = view.image.topic_by_name(TRANSACTIONS_TOPIC)
    if found is None:
        return True
    number = partition_of(transactional_id, len(found.partitions))
    return view.history(PartitionId(found.id, number)).holds


def require_atomic(view: ClusterView, visible: Container[int]) -> None:
    """Require that a consumer of all committed records saw all or nothing of each transaction, as its producer
    expects. Raises InvariantViolation.

    Transactions whose coordinator may have lost records are exempt: only the coordinator's partition has the decision
    to commit. Without it some partitions may get a commit marker and others an abort marker.
    """
    stable = {
        value
        for where, history in view.histories.items()
        if history.holds and where.topic_id in view.image.topics
        for value in history.acknowledged
    }
    transactions = {produced.transaction: None for produced in view.produced.values() if produced.transaction}
    for transaction in transactions:
        if not _coordinator_holds(view, transaction.transactional_id):
            continue
        state = transaction.state
        values = [value for value in transaction.acknowledged if value in stable]
        seen = [value for value in values if value in visible]
        may_be_whole = state is not TransactionState.ABORTED and state is not TransactionState.OPEN
        may_be_absent = state is not TransactionState.COMMITTED
        if not ((len(seen) == len(values) and may_be_whole) or (not seen and may_be_absent)):
            raise InvariantViolation(
                "transactions are atomic",
                f"{transaction.name} is {state.value}: of {values}, {seen} can be read",
            )
