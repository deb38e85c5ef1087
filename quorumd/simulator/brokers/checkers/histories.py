"""Invariants of what producers and consumers saw.

Those of committed records hold unless a fault exceeds what the protocol tolerates, like those of replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorumd.controller.partition import PartitionId
from quorumd.simulator.brokers.checkers.base import BrokerChecker, named
from quorumd.simulator.brokers.cluster_view import BrokerView, ClusterView, ObservedReplica
from quorumd.simulator.brokers.data_log import Record
from quorumd.simulator.brokers.produced import TransactionState


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
        """The records of producers that were committed since the last call, with their offsets."""
        history, first = view.history(where), self._checked.get(where, 0)
        self._checked[where] = history.high_watermark
        for offset in range(first, history.high_watermark):
            record = history.consumed[offset]
            if record.value >= 0:
                yield offset, record


class CommittedRecordsWereProduced(_Committed):
    """No record is made up or damaged."""

    invariant = "every committed record was produced"

    def high_watermark_moved(
        self, view: ClusterView, broker: BrokerView, replica: ObservedReplica, before: int
    ) -> None:
        if not view.produced:
            return
        for offset, record in self._new(view, replica.where):
            if record.value not in view.produced:
                raise self.violation(f"{named(view, replica.where)} has {record} at {offset}")


class ProducersAreNotRepeated(_Committed):
    """The records of an idempotent producer are in their order, each once; those of others are there once, as these
    are sent once."""

    invariant = "a producer's records are not repeated or reordered"

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[int, PartitionId] = {}
        self._newest: dict[tuple[str, PartitionId], int] = {}

    def high_watermark_moved(
        self, view: ClusterView, broker: BrokerView, replica: ObservedReplica, before: int
    ) -> None:
        where = replica.where
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
