"""What must hold of replicas: of their logs, their high watermarks, and of what leaders take for the ISR.

Promises about committed records hold where no guarantee is broken by more than any protocol could bear (X14): no
election of a replica that is known to lack records, and fewer disks lost at once than there were copies.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.controller.partition import Partition, PartitionId
from quorumd.simulator.brokers.checkers.base import BrokerChecker, named
from quorumd.simulator.brokers.checkers.rows import was_eligible
from quorumd.simulator.brokers.data_log import Record
from quorumd.simulator.brokers.replica import Outcome, Proposal, Replica
from quorumd.simulator.brokers.scene import RowChange, Scene, SeenBroker


class LeadersHaveWhatIsCommitted(BrokerChecker):
    """S1, LeaderCompleteness."""

    promise = "who leads has every committed record"

    def looked(self, scene: Scene, where: PartitionId) -> None:
        row, ledger = scene.row(where), scene.ledger(where)
        if row is None or not ledger.holds or not ledger.consumed or not scene.is_up(row.leader):
            return
        log = scene.brokers[row.leader].log(where)
        if log is None or log.records[: ledger.high_watermark] != ledger.consumed:
            raise self.broken(
                f"broker {row.leader} of {named(scene, where)}: {_missing(log, ledger.consumed)}"
            )


class CandidatesHaveWhatIsCommitted(BrokerChecker):
    """Everybody in ISR and ELR whose incarnation is the registered one (S2, LeaderCandidateCompleteness)."""

    promise = "who may lead has every committed record"

    def looked(self, scene: Scene, where: PartitionId) -> None:
        row, ledger = scene.row(where), scene.ledger(where)
        if row is None or not ledger.holds or not ledger.consumed:
            return
        for member in (*row.isr, *row.elr):
            if scene.is_up(member):
                log = scene.brokers[member].log(where)
                if log is None or log.records[: ledger.high_watermark] != ledger.consumed:
                    text = (
                        f"{named(scene, where)}: broker {member} of {row!r}: {_missing(log, ledger.consumed)}"
                    )
                    raise self.broken(text)


class LeadersKnowTheirIsr(BrokerChecker):
    """What the newest leader waits for, while no proposal of its own is under way, is an ISR that was committed: the
    one of the partition epoch that it knows, whether from the metadata or from an answer (S3,
    ReplicationQuorumSuperset)."""

    promise = "without a proposal, a leader waits for the ISR that is committed"

    def __init__(self) -> None:
        self._committed: dict[tuple[PartitionId, int], frozenset[int]] = {}

    def row_changed(self, scene: Scene, change: RowChange) -> None:
        if change.after is not None:
            self._committed[change.where, change.after.partition_epoch] = frozenset(change.after.isr)

    def looked(self, scene: Scene, where: PartitionId) -> None:
        for seen, replica in scene.leaders(where):
            assert replica.leadership is not None
            if replica.leadership.proposal is not None or replica.known is None:
                continue
            epoch = replica.known.partition_epoch
            committed = self._committed.get((where, epoch))
            if committed != frozenset(replica.maximal_isr):
                raise self.broken(
                    f"broker {seen.id} of {named(scene, where)} waits for {replica.maximal_isr}, committed with "
                    f"partition epoch {epoch} is {sorted(committed) if committed is not None else None}"
                )


class LeadersWaitForAllCandidates(BrokerChecker):
    """With enough in sync: otherwise the high watermark does not move at all (S4, ReplicationQuorumSuperset)."""

    promise = "a leader waits for everybody whom the controller may elect"

    def looked(self, scene: Scene, where: PartitionId) -> None:
        row = scene.row(where)
        if row is None or not scene.ledger(where).holds:
            return
        for seen, replica in scene.leaders(where):
            if len(replica.isr) < replica.min_isr:
                continue
            missing = {*row.isr, *row.elr} - set(replica.maximal_isr)
            if missing:
                raise self.broken(
                    f"broker {seen.id} leads {named(scene, where)} and does not wait for {sorted(missing)}: it has "
                    f"{replica.known!r}, committed is {row!r}"
                )


class CommittedRecordsAreTheSame(BrokerChecker):
    """Each log is compared with what was read when a high watermark first passed (S5, LogMatching)."""

    promise = "logs are the same below their high watermarks"

    def looked(self, scene: Scene, where: PartitionId) -> None:
        ledger = scene.ledgers.get(where)
        if ledger is None or not ledger.holds:
            return
        for seen, replica in scene.replicas(where):
            end = min(replica.high_watermark, replica.log.end_offset)
            if replica.log.records[:end] != ledger.consumed[:end]:
                text = _missing(replica.log, ledger.consumed[:end])
                raise self.broken(f"broker {seen.id} of {named(scene, where)}, high watermark {end}: {text}")


class AppliedMetadataIsCommitted(BrokerChecker):
    """S6, MetadataLogMatching."""

    promise = "brokers apply what is committed"

    def metadata_applied(
        self, scene: Scene, broker: SeenBroker, committed: bytes | None, applied: bytes
    ) -> None:
        if committed != applied:
            raise self.broken(f"broker {broker.id} applied {applied!r}, committed is {committed!r}")


class NewestLeadersAreConsistent(BrokerChecker):
    """S7, ConsistentRead."""

    promise = "the newest leader has what consumers have read"

    def looked(self, scene: Scene, where: PartitionId) -> None:
        ledger = scene.ledgers.get(where)
        if ledger is None or not ledger.holds or not ledger.consumed:
            return
        for seen, replica in scene.leaders(where):
            if replica.log.records[: ledger.high_watermark] != ledger.consumed:
                text = _missing(replica.log, ledger.consumed)
                raise self.broken(f"broker {seen.id} leads {named(scene, where)}: {text}")


class ConsumersSeeOneLog(BrokerChecker):
    """The same as consumers see it, whoever they read from (S7)."""

    promise = "consumers read one log"

    def __init__(self) -> None:
        self._read: dict[PartitionId, dict[int, Record]] = {}

    def consumed(self, scene: Scene, where: PartitionId, offset: int, records: Sequence[Record]) -> None:
        read = self._read.setdefault(where, {})
        for number, record in enumerate(records, offset):
            if read.setdefault(number, record) != record and scene.ledger(where).holds:
                raise self.broken(f"{named(scene, where)} had {read[number]} at {number}, and now {record}")


class NothingAcknowledgedIsLost(BrokerChecker):
    """It is in some log, be the broker up or down (S8, NoCommittedRecordLostGlobally)."""

    promise = "no acknowledged record is lost"

    def lost(self, scene: Scene, where: PartitionId) -> None:
        row, ledger = scene.row(where), scene.ledgers.get(where)
        if row is None or ledger is None or not ledger.holds:
            return
        logs = [seen.log(where) for seen in scene.brokers.values()]
        left = {record.value for log in logs if log is not None for record in log.records}
        gone = [value for value in ledger.acknowledged if value not in left]
        if gone:
            raise self.broken(f"{named(scene, where)}: {gone[:5]} and so on are in no log; {row!r}")


class ReplicasAreValid(BrokerChecker):
    """S12, ValidReplicaState."""

    promise = "who leads was told so, and epochs in logs never go down"

    def looked(self, scene: Scene, where: PartitionId) -> None:
        for seen, replica in scene.replicas(where):
            known = replica.known
            if replica.leadership is not None and (known is None or known.leader != seen.id):
                raise self.broken(f"broker {seen.id} leads {named(scene, where)} and knows {known!r}")
            epochs = [epoch for epoch, _ in replica.log.epochs]
            if epochs != sorted(set(epochs)):
                raise self.broken(
                    f"broker {seen.id} has the epochs {replica.log.epochs} of {named(scene, where)}"
                )


class FollowersFetch(BrokerChecker):
    """S13, ValidFetcherState."""

    promise = "who follows a leader fetches from it"

    def looked(self, scene: Scene, where: PartitionId) -> None:
        for seen, replica in scene.replicas(where):
            known = replica.known
            follows = known is not None and replica.leadership is None and known.leader >= 0
            if seen.is_published and follows and known is not None and known.leader not in seen.fetchers:
                raise self.broken(
                    f"broker {seen.id} does not fetch {named(scene, where)} from {known.leader}"
                )


class OneLeaderPerEpoch(BrokerChecker):
    """One incarnation of one broker, as far as brokers ever came to know of the epoch (X1)."""

    promise = "one broker leads a partition in an epoch"

    def __init__(self) -> None:
        self._leaders: dict[tuple[PartitionId, int], tuple[int, int]] = {}

    def leads(self, scene: Scene, broker: SeenBroker, replica: Replica) -> None:
        key = replica.where, replica.leader_epoch
        leader = self._leaders.setdefault(key, (broker.id, broker.epoch))
        if leader != (broker.id, broker.epoch):
            raise self.broken(
                f"{named(scene, replica.where)} is led in epoch {replica.leader_epoch} by broker {leader[0]} with "
                f"epoch {leader[1]}, and by broker {broker.id} with epoch {broker.epoch}"
            )


class WhatBrokersKnowGrows(BrokerChecker):
    """Partition epoch and leader epoch, within one life (X2)."""

    promise = "what a broker knows of a partition never gets older"

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, PartitionId], tuple[int, int]] = {}

    def looked(self, scene: Scene, where: PartitionId) -> None:
        for seen, replica in scene.replicas(where):
            if replica.known is None:
                continue
            key = seen.id, seen.epoch, where
            now = replica.known.partition_epoch, replica.known.leader_epoch
            before = self._known.get(key, now)
            if now[0] < before[0] or now[1] < before[1]:
                raise self.broken(f"broker {seen.id} knew {before} of {named(scene, where)}, and now {now}")
            self._known[key] = now


class HighWatermarksAreValid(BrokerChecker):
    """Within one leadership of one broker (X3)."""

    promise = "no high watermark is above its log, and no leader's goes down"

    def __init__(self) -> None:
        self._reached: dict[tuple[int, int, PartitionId, int], int] = {}

    def looked(self, scene: Scene, where: PartitionId) -> None:
        for seen, replica in scene.replicas(where):
            high_watermark = replica.high_watermark
            if high_watermark > replica.log.end_offset:
                raise self.broken(
                    f"broker {seen.id} has {high_watermark} of {named(scene, where)}, its log ends at "
                    f"{replica.log.end_offset}"
                )
            if replica.leadership is not None:
                key = seen.id, seen.epoch, where, replica.leader_epoch
                if high_watermark < self._reached.get(key, 0):
                    raise self.broken(f"broker {seen.id} had {self._reached[key]} of {named(scene, where)}")
                self._reached[key] = high_watermark


class CommitsNeedEnoughInSync(BrokerChecker):
    """In the committed ISR, not with those who are proposed (X4, race R15, KIP-966)."""

    promise = "the high watermark moves only with enough replicas in sync"

    def high_watermark_moved(self, scene: Scene, broker: SeenBroker, replica: Replica, before: int) -> None:
        if len(replica.isr) < replica.min_isr:
            raise self.broken(
                f"broker {broker.id} of {named(scene, replica.where)}: from {before} to {replica.high_watermark} "
                f"with {replica.isr} of at least {replica.min_isr} in sync"
            )


class WhoJoinsHasWhatIsCommitted(BrokerChecker):
    """Who joins an ISR is the incarnation that the leader has seen fetching, and has every committed record."""

    promise = "who joins an ISR is who fetched, and has every committed record"

    def __init__(self) -> None:
        self._proposals: dict[tuple[PartitionId, int], list[Proposal]] = {}

    def proposed(self, scene: Scene, broker: SeenBroker, proposal: Proposal) -> None:
        self._proposals.setdefault((proposal.where, proposal.partition_epoch), []).append(proposal)

    def row_changed(self, scene: Scene, change: RowChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None or after.recovery or was_eligible(before, after):
            return
        for member in after.isr:
            if member not in before.isr:
                self._check(scene, change.where, before, member)

    def _check(self, scene: Scene, where: PartitionId, before: Partition, member: int) -> None:
        proposals = self._proposals.get((where, before.partition_epoch), [])
        epochs = [epoch for each in proposals for broker_id, epoch in each.isr if broker_id == member]
        broker = scene.image.brokers.get(member)
        if broker is None or broker.epoch not in epochs:
            raise self.broken(
                f"{named(scene, where)}: broker {member} joins after {before!r}; it is {broker!r}, and was proposed "
                f"with the epochs {epochs}"
            )
        ledger = scene.ledger(where)
        if not ledger.holds or not ledger.consumed or not scene.is_up(member):
            return
        log = scene.brokers[member].log(where)
        if log is None or log.records[: ledger.high_watermark] != ledger.consumed:
            raise self.broken(
                f"{named(scene, where)}: broker {member} joins after {before!r}: {_missing(log, ledger.consumed)}"
            )


class RemovedReplicasHoldNothing(BrokerChecker):
    """X13."""

    promise = "who is no replica any more, and knows it, has no log"

    def looked(self, scene: Scene, where: PartitionId) -> None:
        for seen in scene.brokers.values():
            replica = seen.replicas.get(where)
            if replica is not None and replica.known is not None and seen.id not in replica.known.replicas:
                raise self.broken(f"broker {seen.id} has a log of {named(scene, where)}: {replica.known!r}")


class RefusedRecordsAreNowhere(BrokerChecker):
    """X9."""

    promise = "a refused record is in no log, and nobody acknowledges it"

    def settled(self, scene: Scene, where: PartitionId, value: int, outcome: Outcome) -> None:
        ledger = scene.ledger(where)
        if value in ledger.acknowledged and value in ledger.refused:
            raise self.broken(f"{value} of {named(scene, where)} was acknowledged and refused")

    def high_watermark_moved(self, scene: Scene, broker: SeenBroker, replica: Replica, before: int) -> None:
        ledger = scene.ledger(replica.where)
        for record in replica.log.records[before : replica.high_watermark]:
            if record.value in ledger.refused:
                raise self.broken(f"broker {broker.id} commits {record} of {named(scene, replica.where)}")


def _missing(log: object, consumed: Sequence[Record]) -> str:
    """Where a log differs from what was committed."""
    records = getattr(log, "records", None)
    if records is None:
        return f"it has no log, and {len(consumed)} records are committed"
    for offset, record in enumerate(consumed):
        if offset >= len(records):
            return f"its log ends at {len(records)}, and {len(consumed)} records are committed"
        if records[offset] != record:
            return f"it has {records[offset]} at {offset}, and committed is {record}"
    return "it has more"
