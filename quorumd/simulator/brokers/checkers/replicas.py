"""Invariants of replicas: logs, high watermarks, and ISRs as known to leaders.

Invariants of committed records hold unless a fault exceeds what the protocol tolerates (X14): an
election of a replica that is known to lack records, or as many disks lost at once as there were copies.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.broker.replication.isr_proposal import IsrProposal
from quorumd.controller.partition import Partition, PartitionId
from quorumd.simulator.brokers.checkers.base import BrokerChecker, named
from quorumd.simulator.brokers.checkers.metadata import was_eligible
from quorumd.simulator.brokers.cluster_view import BrokerView, ClusterView, ObservedReplica, PartitionChange
from quorumd.simulator.brokers.data_log import Record
from quorumd.simulator.brokers.partition_history import Outcome


class LeadersHaveCommittedRecords(BrokerChecker):
    """Leader completeness (S1, LeaderCompleteness)."""

    invariant = "a leader has every committed record"

    def partition_observed(self, view: ClusterView, where: PartitionId) -> None:
        row, history = view.row(where), view.history(where)
        if (
            row is None
            or not history.holds
            or not history.consumed
            or not view.has_its_log(where, row.leader)
        ):
            return
        log = view.brokers[row.leader].log(where)
        if log is None or log.records[: history.high_watermark] != history.consumed:
            raise self.violation(
                f"broker {row.leader} of {named(view, where)}: {_missing(log, history.consumed)}"
            )


class EligibleReplicasHaveCommittedRecords(BrokerChecker):
    """Checks members of ISR and ELR whose registered incarnation is running (S2, LeaderCandidateCompleteness)."""

    invariant = "an eligible replica has every committed record"

    def partition_observed(self, view: ClusterView, where: PartitionId) -> None:
        row, history = view.row(where), view.history(where)
        if row is None or not history.holds or not history.consumed:
            return
        for member in (*row.isr, *row.elr):
            if view.has_its_log(where, member):
                log = view.brokers[member].log(where)
                if log is None or log.records[: history.high_watermark] != history.consumed:
                    text = (
                        f"{named(view, where)}: broker {member} of {row!r}: {_missing(log, history.consumed)}"
                    )
                    raise self.violation(text)


class LeadersKnowTheirIsr(BrokerChecker):
    """The newest leader, without a pending proposal, waits for the committed ISR of the partition epoch that it
    knows, from the metadata or from a response (S3, ReplicationQuorumSuperset)."""

    invariant = "a leader without a pending proposal waits for the committed ISR"

    def __init__(self) -> None:
        self._committed: dict[tuple[PartitionId, int], frozenset[int]] = {}

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        if change.after is not None:
            self._committed[change.where, change.after.partition_epoch] = frozenset(change.after.isr)

    def partition_observed(self, view: ClusterView, where: PartitionId) -> None:
        for seen, replica in view.leaders(where):
            assert replica.leadership is not None
            if replica.leadership.proposal is not None or replica.metadata is None:
                continue
            epoch = replica.metadata.partition_epoch
            committed = self._committed.get((where, epoch))
            if committed != frozenset(replica.maximal_isr):
                raise self.violation(
                    f"broker {seen.id} of {named(view, where)} waits for {replica.maximal_isr}, committed with "
                    f"partition epoch {epoch} is {sorted(committed) if committed is not None else None}"
                )


class LeadersWaitForEligibleReplicas(BrokerChecker):
    """A leader waits for all electable replicas if its ISR is large enough; otherwise the high watermark does not
    advance (S4, ReplicationQuorumSuperset)."""

    invariant = "a leader waits for every replica that may be elected"

    def partition_observed(self, view: ClusterView, where: PartitionId) -> None:
        row = view.row(where)
        if row is None or not view.history(where).holds:
            return
        for seen, replica in view.leaders(where):
            if len(replica.isr) < replica.min_isr:
                continue
            missing = {*row.isr, *row.elr} - set(replica.maximal_isr)
            if missing:
                raise self.violation(
                    f"broker {seen.id} leads {named(view, where)} without waiting for {sorted(missing)}: it has "
                    f"{replica.metadata!r}, committed is {row!r}"
                )


class CommittedRecordsAgree(BrokerChecker):
    """Compares each log with the records over which a high watermark first advanced (S5, LogMatching)."""

    invariant = "logs agree below their high watermarks"

    def partition_observed(self, view: ClusterView, where: PartitionId) -> None:
        history = view.histories.get(where)
        if history is None or not history.holds:
            return
        for seen, replica in view.replicas(where):
            end = min(replica.high_watermark, replica.log.end_offset)
            if replica.log.records[:end] != history.consumed[:end]:
                text = _missing(replica.log, history.consumed[:end])
                raise self.violation(
                    f"broker {seen.id} of {named(view, where)}, high watermark {end}: {text}"
                )


class AppliedMetadataIsCommitted(BrokerChecker):
    """Metadata log matching (S6, MetadataLogMatching)."""

    invariant = "brokers apply only committed metadata"

    def metadata_applied(
        self, view: ClusterView, broker: BrokerView, committed: bytes | None, applied: bytes
    ) -> None:
        if committed != applied:
            raise self.violation(f"broker {broker.id} applied {applied!r}, committed is {committed!r}")


class NewestLeadersAreConsistent(BrokerChecker):
    """Consistent reads (S7, ConsistentRead)."""

    invariant = "the newest leader has every consumed record"

    def partition_observed(self, view: ClusterView, where: PartitionId) -> None:
        history = view.histories.get(where)
        if history is None or not history.holds or not history.consumed:
            return
        for seen, replica in view.leaders(where):
            if replica.log.records[: history.high_watermark] != history.consumed:
                text = _missing(replica.log, history.consumed)
                raise self.violation(f"broker {seen.id} leads {named(view, where)}: {text}")


class ConsumersSeeOneLog(BrokerChecker):
    """Consumers read the same records from every leader (S7)."""

    invariant = "consumers read one log"

    def __init__(self) -> None:
        self._read: dict[PartitionId, dict[int, Record]] = {}

    def consumed(self, view: ClusterView, where: PartitionId, offset: int, records: Sequence[Record]) -> None:
        read = self._read.setdefault(where, {})
        for number, record in enumerate(records, offset):
            if read.setdefault(number, record) != record and view.history(where).holds:
                raise self.violation(f"{named(view, where)} had {read[number]} at {number}, and now {record}")


class AcknowledgedRecordsSurvive(BrokerChecker):
    """Every acknowledged record is in some log, of a running or stopped broker (S8,
    NoCommittedRecordLostGlobally)."""

    invariant = "no acknowledged record is lost"

    def lost(self, view: ClusterView, where: PartitionId) -> None:
        row, history = view.row(where), view.histories.get(where)
        if row is None or history is None or not history.holds:
            return
        logs = [seen.log(where) for seen in view.brokers.values()]
        left = {record.value for log in logs if log is not None for record in log.records}
        gone = [value for value in history.acknowledged if value not in left]
        if gone:
            raise self.violation(f"{named(view, where)}: {gone[:5]}... are in no log; {row!r}")


class ReplicasAreValid(BrokerChecker):
    """Valid replica states (S12, ValidReplicaState)."""

    invariant = "a leader was elected, and epochs in logs never decrease"

    def partition_observed(self, view: ClusterView, where: PartitionId) -> None:
        for seen, replica in view.replicas(where):
            known = replica.metadata
            if replica.leadership is not None and (known is None or known.leader != seen.id):
                raise self.violation(f"broker {seen.id} leads {named(view, where)}, but has {known!r}")
            epochs = [epoch for epoch, _ in replica.log.epochs]
            if epochs != sorted(set(epochs)):
                raise self.violation(
                    f"broker {seen.id} has the epochs {replica.log.epochs} of {named(view, where)}"
                )


class FollowersFetch(BrokerChecker):
    """Valid fetcher states (S13, ValidFetcherState)."""

    invariant = "a follower fetches from its leader"

    def partition_observed(self, view: ClusterView, where: PartitionId) -> None:
        for seen, replica in view.replicas(where):
            known = replica.metadata
            follows = known is not None and replica.leadership is None and known.leader >= 0
            if seen.is_published and follows and known is not None and known.leader not in seen.fetchers:
                raise self.violation(
                    f"broker {seen.id} does not fetch {named(view, where)} from {known.leader}"
                )


class OneLeaderPerEpoch(BrokerChecker):
    """Only one incarnation of one broker acts as leader in a leader epoch (X1)."""

    invariant = "at most one leader per partition and leader epoch"

    def __init__(self) -> None:
        self._leaders: dict[tuple[PartitionId, int], tuple[int, int]] = {}

    def leads(self, view: ClusterView, broker: BrokerView, replica: ObservedReplica) -> None:
        key = replica.partition, replica.leader_epoch
        leader = self._leaders.setdefault(key, (broker.id, broker.epoch))
        if leader != (broker.id, broker.epoch):
            raise self.violation(
                f"{named(view, replica.partition)} is led in epoch {replica.leader_epoch} by broker {leader[0]} with "
                f"epoch {leader[1]}, and by broker {broker.id} with epoch {broker.epoch}"
            )


class KnownEpochsIncrease(BrokerChecker):
    """Partition epoch and leader epoch never decrease within one incarnation (X2)."""

    invariant = "a broker's view of a partition never goes back"

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, PartitionId], tuple[int, int]] = {}

    def partition_observed(self, view: ClusterView, where: PartitionId) -> None:
        for seen, replica in view.replicas(where):
            if replica.metadata is None:
                continue
            key = seen.id, seen.epoch, where
            now = replica.metadata.partition_epoch, replica.metadata.leader_epoch
            before = self._known.get(key, now)
            if now[0] < before[0] or now[1] < before[1]:
                raise self.violation(f"broker {seen.id} had {before} for {named(view, where)}, and now {now}")
            self._known[key] = now


class HighWatermarksAreValid(BrokerChecker):
    """A leader's high watermark never decreases within one leadership (X3)."""

    invariant = "a high watermark is within its log, and a leader's never decreases"

    def __init__(self) -> None:
        self._reached: dict[tuple[int, int, PartitionId, int], int] = {}

    def partition_observed(self, view: ClusterView, where: PartitionId) -> None:
        for seen, replica in view.replicas(where):
            high_watermark = replica.high_watermark
            if high_watermark > replica.log.end_offset:
                raise self.violation(
                    f"broker {seen.id} has high watermark {high_watermark} of {named(view, where)}, its log ends at "
                    f"{replica.log.end_offset}"
                )
            if replica.leadership is not None:
                key = seen.id, seen.epoch, where, replica.leader_epoch
                if high_watermark < self._reached.get(key, 0):
                    raise self.violation(f"broker {seen.id} had {self._reached[key]} of {named(view, where)}")
                self._reached[key] = high_watermark


class CommitsNeedMinIsr(BrokerChecker):
    """min.insync.replicas must be met by the committed ISR, not by proposed members (X4, race R15, KIP-966)."""

    invariant = "the high watermark advances only with min.insync.replicas in sync"

    def high_watermark_moved(
        self, view: ClusterView, broker: BrokerView, replica: ObservedReplica, before: int
    ) -> None:
        if len(replica.isr) < replica.min_isr:
            raise self.violation(
                f"broker {broker.id} of {named(view, replica.partition)}: from {before} to {replica.high_watermark} "
                f"with {replica.isr} of at least {replica.min_isr} in sync"
            )


class IsrJoinersHaveCommittedRecords(BrokerChecker):
    """A replica that joins an ISR is the incarnation whose fetches the leader saw, and has every committed record."""

    invariant = "a replica that joins an ISR fetched every committed record"

    def __init__(self) -> None:
        self._proposals: dict[tuple[PartitionId, int], list[IsrProposal]] = {}

    def proposed(self, view: ClusterView, broker: BrokerView, proposal: IsrProposal) -> None:
        self._proposals.setdefault((proposal.partition, proposal.partition_epoch), []).append(proposal)

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None or after.recovery or was_eligible(before, after):
            return
        for member in after.isr:
            if member not in before.isr:
                self._check(view, change.where, before, member)

    def _check(self, view: ClusterView, where: PartitionId, before: Partition, member: int) -> None:
        proposals = self._proposals.get((where, before.partition_epoch), [])
        epochs = [epoch for each in proposals for broker_id, epoch in each.isr if broker_id == member]
        broker = view.image.brokers.get(member)
        if broker is not None and broker.epoch not in epochs and not view.proposals_have_epochs:
            # Older versions of AlterPartition name no incarnations, and no topic ids (KIP-841, KIP-903).
            view.history(where).break_guarantee(
                f"broker {member} joined in an incarnation that was not proposed"
            )
            return
        if broker is None or broker.epoch not in epochs:
            raise self.violation(
                f"{named(view, where)}: broker {member} joins after {before!r}; it is {broker!r}, and was proposed "
                f"with the epochs {epochs}"
            )
        history = view.history(where)
        if not history.holds or not history.consumed or not view.has_its_log(where, member):
            return
        log = view.brokers[member].log(where)
        if log is None or log.records[: history.high_watermark] != history.consumed:
            raise self.violation(
                f"{named(view, where)}: broker {member} joins after {before!r}: {_missing(log, history.consumed)}"
            )


class RemovedReplicasHaveNoLog(BrokerChecker):
    """A removed replica deletes its log (X13)."""

    invariant = "a replica that knows it was removed has no log"

    def partition_observed(self, view: ClusterView, where: PartitionId) -> None:
        for seen in view.brokers.values():
            replica = seen.replicas.get(where)
            if (
                replica is not None
                and replica.metadata is not None
                and seen.id not in replica.metadata.replicas
            ):
                raise self.violation(
                    f"broker {seen.id} has a log of {named(view, where)}: {replica.metadata!r}"
                )


class RejectedRecordsAreDropped(BrokerChecker):
    """A record is not both refused and committed (X9)."""

    invariant = "a rejected record is in no log and is never acknowledged"

    def settled(self, view: ClusterView, where: PartitionId, value: int, outcome: Outcome) -> None:
        history = view.history(where)
        if value in history.acknowledged and value in history.refused:
            raise self.violation(f"{value} of {named(view, where)} was both acknowledged and refused")

    def high_watermark_moved(
        self, view: ClusterView, broker: BrokerView, replica: ObservedReplica, before: int
    ) -> None:
        history = view.history(replica.partition)
        for record in replica.log.records[before : replica.high_watermark]:
            if record.value in history.refused:
                raise self.violation(
                    f"broker {broker.id} commits {record} of {named(view, replica.partition)}"
                )


def _missing(log: object, consumed: Sequence[Record]) -> str:
    """Describe how a log differs from the committed records."""
    records = getattr(log, "records", None)
    if records is None:
        return f"it has no log, and {len(consumed)} records are committed"
    for offset, record in enumerate(consumed):
        if offset >= len(records):
            return f"its log ends at {len(records)}, and {len(consumed)} records are committed"
        if records[offset] != record:
            return f"it has {records[offset]} at {offset}, and committed is {record}"
    return "it has more records"
