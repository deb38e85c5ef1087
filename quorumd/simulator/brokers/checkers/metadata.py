"""Invariants of partitions and brokers in the committed metadata, and of every change of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorumd.controller.broker import Broker
from quorumd.controller.cluster_image import ALL_BROKERS, MIN_INSYNC_REPLICAS, ClusterImage
from quorumd.controller.partition import NO_LEADER, RECOVERING, Partition, PartitionId
from quorumd.ids import ZERO_UUID
from quorumd.simulator.brokers.checkers.base import BrokerChecker, named
from quorumd.simulator.brokers.cluster_view import ClusterView, PartitionChange, Registration


def _rows(image: ClusterImage, changed: Iterable[PartitionId]) -> Iterable[tuple[PartitionId, Partition]]:
    for where in changed:
        row = image.partition(where)
        if row is not None:
            yield where, row


class IsrAndElrAreValid(BrokerChecker):
    """ISR and ELR are disjoint subsets of the replicas. The ELR is empty if the ISR has min.insync.replicas members,
    or with ELR disabled any member (S10)."""

    invariant = "ISR and ELR are disjoint subsets of the replicas"

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        for where, row in _rows(view.image, changed):
            in_sync, eligible = set(row.isr), set(row.elr)
            if not view.image.elr_enabled and row.isr and (row.elr or row.last_known_elr):
                raise self.violation(f"{named(view, where)} has an ELR, which is disabled: {row!r}")
            if not in_sync <= set(row.replicas) or not eligible <= set(row.replicas):
                raise self.violation(f"{named(view, where)} has members that are not replicas: {row!r}")
            if in_sync & eligible or len(in_sync) != len(row.isr):
                raise self.violation(f"{named(view, where)} has duplicate members: {row!r}")
            least = min(view.min_isr(where), len(row.target))
            if eligible and len(in_sync) >= least:
                raise self.violation(f"{named(view, where)} has an ELR with {least} in sync: {row!r}")


class FencedBrokersAreNotInSync(BrokerChecker):
    """Brokers that are fenced or in controlled shutdown are in no ISR, except for a shutdown in steps until it has
    moved all leaderships. Without ELR the last member stays (S11)."""

    invariant = "no fenced broker is in an ISR"

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        for where, row in _rows(view.image, changed):
            for member in row.isr:
                broker = view.image.brokers.get(member)
                is_last = view.may_remain_last(where, row, member)
                is_out = broker is None or not (broker.is_active or view.is_draining(broker))
                if is_out and not is_last:
                    raise self.violation(
                        f"{named(view, where)} has broker {member} in its ISR: {row!r}, {broker!r}"
                    )


class PartitionEpochsIncrease(BrokerChecker):
    """The partition epoch increases by one with every record, the leader epoch with every record that names a leader
    (X2)."""

    invariant = "partition epochs increase with every change"

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None:
            return
        if after.partition_epoch != before.partition_epoch + 1:
            raise self.violation(f"{named(view, change.where)} went from {before!r} to {after!r}")
        if after.leader_epoch != before.leader_epoch + change.names_leader:
            raise self.violation(f"{named(view, change.where)} went from {before!r} to {after!r}")
        if after.leader != before.leader and not change.names_leader:
            raise self.violation(
                f"{named(view, change.where)} changed its leader from {before!r} to {after!r}"
            )


class DroppedReplicasBumpLeaderEpoch(BrokerChecker):
    """Requests in flight of a dropped replica no longer count, even if it is added again (race R11)."""

    invariant = "dropping a replica bumps the leader epoch"

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None or set(before.replicas) <= set(after.replicas):
            return
        if after.leader_epoch == before.leader_epoch:
            raise self.violation(f"{named(view, change.where)} went from {before!r} to {after!r}")


class LeadersAreInSync(BrokerChecker):
    """A leader is in the ISR, and active or in a controlled shutdown in steps. A partition has a leader if a member
    of its ISR, or of its ELR if the ISR is empty, could lead (X5); this is not checked if brokers change in
    steps, or are unregistered in parts."""

    invariant = "a leader is in the ISR, and exists if any replica is eligible"

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        brokers = view.image.brokers
        for where, row in _rows(view.image, changed):
            if row.leader != NO_LEADER:
                leader = brokers.get(row.leader)
                is_there = leader is not None and (leader.is_active or view.is_draining(leader))
                if row.leader not in row.isr or not is_there:
                    raise self.violation(f"{named(view, where)} is led by {leader!r}: {row!r}")
            if row.leader != NO_LEADER or view.drains_in_batches or view.unregisters_in_parts:
                continue
            for member in row.isr or row.elr:
                broker = brokers.get(member)
                if broker is not None and broker.is_active and _is_readable(row, broker):
                    raise self.violation(f"{named(view, where)} could be led by {member}: {row!r}")


def _is_readable(row: Partition, broker: Broker) -> bool:
    """Whether the broker has the directory of its replica (KIP-858)."""
    if not row.directories:
        return True
    directory = row.directories[row.replicas.index(broker.id)]
    return directory in broker.directories or directory == ZERO_UUID


class ReassignmentsAreValid(BrokerChecker):
    """Adding and removing replicas are disjoint, and the replicas have no duplicates (X6)."""

    invariant = "adding and removing replicas are disjoint"

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        for where, row in _rows(view.image, changed):
            adding, removing, replicas = set(row.adding), set(row.removing), set(row.replicas)
            if adding & removing or not adding | removing <= replicas:
                raise self.violation(f"{named(view, where)}: {row!r}")
            if not replicas or len(replicas) != len(row.replicas):
                raise self.violation(f"{named(view, where)} has duplicate replicas, or none: {row!r}")


class ReassignmentsKeepInSyncReplicas(BrokerChecker):
    """Until it ends, a reassignment drops no replica in the ISR or ELR and keeps its original replicas: only they may
    have acknowledged records."""

    invariant = "a reassignment keeps in-sync and original replicas until it completes"

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None or not after.is_reassigning:
            return
        gone = [member for member in before.isr + before.elr if member not in after.replicas]
        if gone:
            raise self.violation(f"{named(view, change.where)} dropped {gone}: from {before!r} to {after!r}")
        if before.is_reassigning and before.original and after.original != before.original:
            raise self.violation(
                f"{named(view, change.where)} lost its original replicas: from {before!r} to {after!r}"
            )


class ReassignmentsEndAtTargetOrOriginal(BrokerChecker):
    """A reassignment may also end at a target that an administrator has requested since (KIP-455)."""

    invariant = "a reassignment ends at its target or its original replicas"

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None or not before.is_reassigning or after.is_reassigning:
            return
        target_requested = view.requested_targets.get(change.where, {})
        if after.replicas not in (before.target, before.original, *target_requested):
            raise self.violation(f"{named(view, change.where)} went from {before!r} to {after!r}")


class OnlyLeadersExpandIsr(BrokerChecker):
    """The ISR grows only by a proposal of its leader; an election may reduce it to the elected replica, which was
    eligible or is known to lack records. New members of the ELR were in the ISR or ELR before."""

    invariant = "only a leader expands its ISR"

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None:
            return
        joined = [member for member in after.isr if member not in before.isr]
        # A leaderless partition may have an ISR member that cannot lead: it restarted with another directory.
        is_proposed = bool(before.isr) and before.leader != NO_LEADER
        is_elected = after.isr == (after.leader,) and (
            after.leader in before.elr or after.recovery == RECOVERING
        )
        if joined and not is_proposed and not is_elected:
            raise self.violation(f"{named(view, change.where)} went from {before!r} to {after!r}")
        for member in after.elr:
            if member not in before.isr and member not in before.elr:
                raise self.violation(f"{named(view, change.where)}: {member} joined the ELR of {after!r}")


class UncleanBrokersAreNotEligible(BrokerChecker):
    """A replica that may have lost records is not eligible until the leader knows that it has all of them (X8,
    KIP-966)."""

    invariant = "a broker back from an unclean shutdown is in no ISR or ELR and leads nothing"

    def __init__(self) -> None:
        self._back: list[int] = []

    def registered(self, view: ClusterView, registration: Registration) -> None:
        before, after = registration.before, registration.after
        is_retry = before is not None and before.incarnation_id == after.incarnation_id
        if after.epoch in view.unclean and not is_retry:
            self._back.append(after.id)

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        back, self._back = self._back, []
        for broker_id in back:
            for topic in view.image.topics.values():
                for number, row in topic.partitions.items():
                    where = PartitionId(topic.id, number)
                    last = view.may_remain_last(where, row, broker_id) and row.leader == NO_LEADER
                    if broker_id in (*row.isr, *row.elr, row.leader) and not last:
                        raise self.violation(f"broker {broker_id} is back in {topic.name}-{number}: {row!r}")


class NewIncarnationsLeadNothing(BrokerChecker):
    """The registration of a new incarnation removes the previous one from its partitions (race R16)."""

    invariant = "a new incarnation is in no ISR and leads nothing"

    def __init__(self) -> None:
        self._back: list[int] = []

    def registered(self, view: ClusterView, registration: Registration) -> None:
        before, after = registration.before, registration.after
        if before is None or before.incarnation_id != after.incarnation_id:
            self._back.append(after.id)
            if not after.is_fenced:
                raise self.violation(f"{after!r} is not fenced")

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        back, self._back = self._back, []
        for broker_id in back:
            for topic in view.image.topics.values():
                for number, row in topic.partitions.items():
                    last = view.may_remain_last(PartitionId(topic.id, number), row, broker_id)
                    if row.leader == broker_id or (broker_id in row.isr and not last):
                        raise self.violation(f"broker {broker_id} is back in {topic.name}-{number}: {row!r}")


class AddedReplicasAreInSync(BrokerChecker):
    """All added replicas are in sync when a reassignment ends, except after an unclean election (X10)."""

    invariant = "a reassignment completes with all adding replicas in sync"

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None or after.is_reassigning or after.recovery == RECOVERING:
            return
        for replica in after.replicas:
            if replica not in (before.original or before.replicas) and replica not in after.isr:
                raise self.violation(f"{named(view, change.where)} went from {before!r} to {after!r}")


class ReassignmentsKeepMinIsr(BrokerChecker):
    """A change that drops replicas leaves min.insync.replicas of the other replicas, or all of them, in sync
    (X10)."""

    invariant = "a reassignment completes with min.insync.replicas in sync"

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None or after.is_reassigning:
            return
        if set(before.replicas) <= set(after.replicas) and not before.is_reassigning:
            return
        had, has = {*before.isr, *before.elr}, {*after.isr, *after.elr}
        if set(after.replicas) == set(before.original) and had <= has:
            return  # Back to the original replicas, without losing an ISR member.
        topic = view.image.topics.get(change.where.topic_id)
        if after.recovery == RECOVERING or (topic is not None and view.image.unclean_election(topic.name)):
            return
        if len(after.isr) < min(change.min_isr, len(after.replicas)):
            raise self.violation(f"{named(view, change.where)} went from {before!r} to {after!r}")


class BrokerEpochsIncrease(BrokerChecker):
    """Broker epochs increase with every incarnation; a repeated registration keeps its epoch (X11, race R22)."""

    invariant = "every broker incarnation has one, higher broker epoch"

    def __init__(self) -> None:
        self._given: dict[int, int] = {}

    def registered(self, view: ClusterView, registration: Registration) -> None:
        before, after = registration.before, registration.after
        if before is not None and before.incarnation_id == after.incarnation_id:
            if before.epoch != after.epoch:
                raise self.violation(f"{after!r} had the epoch {before.epoch}")
            return
        if after.epoch <= self._given.get(after.id, -1):
            raise self.violation(f"{after!r} has no higher epoch than {self._given[after.id]}")
        self._given[after.id] = after.epoch


class BrokerEpochsAreOffsets(BrokerChecker):
    """The controller considers a broker caught up that has read the metadata log up to its epoch (KIP-631). It must
    then have read its own registration and the changes that go with it."""

    invariant = "a broker epoch is the offset of its registration record"

    def registered(self, view: ClusterView, registration: Registration) -> None:
        before, after, offset = registration
        is_retry = before is not None and before.incarnation_id == after.incarnation_id
        if not is_retry and after.epoch != offset:
            raise self.violation(
                f"{after!r} has the epoch {after.epoch}, but its record has the offset {offset}"
            )


class RecoveringLeaderIsOnlyIsrMember(BrokerChecker):
    """A recovering leader is alone in its ISR (X12, KIP-704), and its election leaves no ELR, whose members may have
    records that it lacks (KAFKA-15581)."""

    invariant = "a recovering leader is the only member of its ISR"

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None or after.recovery != RECOVERING or after.leader == before.leader:
            return
        if after.leader != NO_LEADER and not was_eligible(before, after) and after.elr:
            raise self.violation(f"{named(view, change.where)} went from {before!r} to {after!r}")

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        for where, row in _rows(view.image, changed):
            if row.recovery == RECOVERING and len(row.isr) > 1:
                raise self.violation(f"{named(view, where)}: {row!r}")


def was_eligible(before: Partition, after: Partition) -> bool:
    """Whether the leader was elected from the ELR, and is therefore alone in the ISR."""
    return after.leader in before.elr and after.isr == (after.leader,) and after.leader not in before.isr


class UncleanElectionsAreReported(BrokerChecker):
    """A leader elected from outside ISR and ELR recovers (KIP-704), and is elected only if the topic allows it, or if
    no replica is eligible and it is the last known leader."""

    invariant = "unclean elections happen only where enabled, and are reported"

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None or after.leader in (NO_LEADER, before.leader):
            return
        if after.leader in before.isr or was_eligible(before, after):
            return
        if before.is_reassigning and not after.is_reassigning and after.recovery != RECOVERING:
            return  # It joined by the proposal that completed the reassignment.
        allowed = view.allows_unclean_election(change.where)
        was_last = not before.isr and before.last_known_elr == (after.leader,)
        if after.recovery != RECOVERING or not (allowed or was_last):
            raise self.violation(f"{named(view, change.where)} went from {before!r} to {after!r}")


class LastKnownLeaderIsRecorded(BrokerChecker):
    """A partition whose ISR and ELR are lost records its last leader (S9, MinIsrRecoveryQuorum). The specification of
    KIP-966 records min.insync.replicas last known members; Kafka and quorumd record one, the last leader. If the
    leader left the ISR before its last member, which cannot be elected, it is that member: it has as many records."""

    invariant = "a partition without eligible replicas records its last known leader"

    def __init__(self) -> None:
        self._last: dict[PartitionId, int] = {}

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        after = change.after
        if after is not None and after.leader != NO_LEADER:
            self._last[change.where] = after.leader
        elif after is not None and len(after.isr) == 1:
            self._last[change.where] = after.isr[0]

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        for where, row in _rows(view.image, changed):
            if not view.image.elr_enabled or row.isr or row.elr:
                continue
            last = self._last.get(where, NO_LEADER)
            if last in row.replicas and row.last_known_elr != (last,):
                raise self.violation(f"{named(view, where)} was last kept by {last}: {row!r}")


class LastKnownLeaderIsLastResort(BrokerChecker):
    """The last known leader may lack records, and is elected even if the topic does not allow unclean elections.
    Therefore only a batch that removes the last eligible replicas elects it: each by its registration after an
    unclean shutdown, its unregistration, or a change of the replicas (KIP-966)."""

    invariant = "the last known leader is elected only if no replica is eligible"

    def __init__(self) -> None:
        self._elected: dict[PartitionId, Partition] = {}
        self._lost: dict[int, None] = {}
        """Brokers that this batch registers after an unclean shutdown."""

    def registered(self, view: ClusterView, registration: Registration) -> None:
        before, after = registration.before, registration.after
        is_retry = before is not None and before.incarnation_id == after.incarnation_id
        if after.epoch in view.unclean and not is_retry:
            self._lost[after.id] = None

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None or after.recovery != RECOVERING or not before.elr:
            return
        allowed = view.allows_unclean_election(change.where)
        if before.last_known_elr == (after.leader,) and after.leader not in before.elr and not allowed:
            self._elected[change.where] = before

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        elected, self._elected = self._elected, {}
        lost, self._lost = self._lost, {}
        for where, before in elected.items():
            row = view.image.partition(where)
            for member in before.elr:
                is_lost = member in lost or member not in view.image.brokers
                if row is not None and member in row.replicas and not is_lost:
                    raise self.violation(f"{named(view, where)} went from {before!r} to {row!r}")


class ReassignmentsComplete(BrokerChecker):
    """A reassignment completes with the batch that makes it possible: an ISR change, a config change or an
    election."""

    invariant = "a reassignment that can complete completes"

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        for where, row in _rows(view.image, changed):
            if not row.is_reassigning:
                continue
            staying = [member for member in row.isr if member not in row.removing]
            least = max(1, min(view.min_isr(where), len(row.target)))
            if len(staying) >= least and set(row.adding) <= set(staying):
                raise self.violation(f"{named(view, where)} needs {least} in sync: {row!r}")


class MinIsrDefaultIsSet(BrokerChecker):
    """Without a value in the metadata every broker would use its own properties file (KIP-966)."""

    invariant = "with an ELR, brokers and controller agree on min.insync.replicas"

    def batch_committed(self, view: ClusterView, changed: Sequence[PartitionId]) -> None:
        if view.image.elr_enabled and MIN_INSYNC_REPLICAS not in view.image.config(ALL_BROKERS):
            raise self.violation("it is not set for all brokers")
