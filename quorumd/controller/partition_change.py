"""The one function behind every change of a partition: who is in sync, who may lead, who does, in which epoch.

The causes (AlterPartition, fencing, drains, restarts, elections, reassignments, changes of min.insync.replicas) only
say what they want; what follows from it is decided here, in this order: a reassignment that can be completed is; the
ELR is what the new ISR makes of it; a leader is elected where the old one cannot stay; a dropped replica costs a new
leader epoch, so that nothing it still has under way counts (KIP-966 description, chapters 3 and 4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from quorumd.controller.broker import SOME_DIRECTORY, UNASSIGNED
from quorumd.controller.partition import (
    LEADER_UNCHANGED,
    NO_LEADER,
    RECOVERING,
    Partition,
    PartitionId,
    Replicas,
)
from quorumd.controller.reassignment import CompletionRule, can_complete
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord


def unassigned(broker_id: int) -> KafkaUuid:
    """The directory of a replica whose broker will say where it is (KIP-858)."""
    del broker_id
    return UNASSIGNED


def always_online(broker_id: int, directory: KafkaUuid) -> bool:
    """Of brokers that lost no directory."""
    del broker_id, directory
    return True


class Election(Enum):
    """Who may be elected. Whoever leads and may go on leading stays, but for PREFERRED."""

    ORDINARY = auto()
    """A member of the ISR; of the ELR if the ISR is empty; who led last if both are empty and nobody else did."""
    PREFERRED = auto()
    """As ORDINARY, the first replica before all others."""
    UNCLEAN = auto()
    """As ORDINARY, and any active replica if nobody is left who has every committed record."""


@dataclass(slots=True)
class Rules:
    """What changes of one partition depend on besides itself.

    `min_isr`: min.insync.replicas of its topic. `directory_of(broker_id)`: where a replica that is new there goes.
    `is_online(broker_id, directory)`: whether the broker can read what it has there.
    """

    min_isr: int
    elr_enabled: bool
    unclean_election: bool
    is_active: Callable[[int], bool]
    directory_of: Callable[[int], KafkaUuid] = unassigned
    is_online: Callable[[int, KafkaUuid], bool] = always_online
    can_complete: CompletionRule = can_complete


@dataclass(slots=True)
class Wish:
    """What the cause of a change asks for; None leaves it.

    `unclean`: brokers that lost what they had in memory, or all. They leave the ELR too, and are not elected.
    `leaving`: brokers that are about to be fenced or drained, and not to be elected.
    `directories`: by broker id where its replica is from now on (KIP-858).
    """

    isr: Replicas | None = None
    replicas: Replicas | None = None
    adding: Replicas | None = None
    removing: Replicas | None = None
    original: Replicas | None = None
    recovery: int | None = None
    unclean: Collection[int] = ()
    leaving: Collection[int] = ()
    directories: Mapping[int, KafkaUuid] | None = None
    election: Election = Election.ORDINARY


def plan_change(
    where: PartitionId, partition: Partition, wish: Wish, rules: Rules
) -> PartitionChangeRecord | None:
    """The record that makes of the partition what is wished, None if it is so already: then no epoch grows."""
    target = _Target(partition, wish, rules)
    target.complete_reassignment()
    target.settle_eligible_replicas()
    target.elect()
    if target.complete_reassignment():
        # Who was elected is alone in the ISR, and may be all that was waited for.
        target.settle_eligible_replicas()
        target.elect()
    return target.record(where)


class _Target:
    """The partition as it is to become."""

    def __init__(self, partition: Partition, wish: Wish, rules: Rules) -> None:
        self._before = partition
        self._wish = wish
        self._rules = rules
        self.isr = partition.isr if wish.isr is None else wish.isr
        self.replicas = partition.replicas if wish.replicas is None else wish.replicas
        self.adding = partition.adding if wish.adding is None else wish.adding
        self.removing = partition.removing if wish.removing is None else wish.removing
        self.original = partition.original if wish.original is None else wish.original
        self.recovery = partition.recovery if wish.recovery is None else wish.recovery
        self.elr = partition.elr
        self.last_known_elr = partition.last_known_elr
        self.leader = LEADER_UNCHANGED

    def complete_reassignment(self) -> bool:
        """Complete it if that is possible; whether it was."""
        if not self.adding and not self.removing:
            return False
        isr = without(self.isr, self.removing)
        replicas = without(self.replicas, self.removing)
        if not self._rules.can_complete(isr, replicas, self.adding, self.removing, self._min_isr(replicas)):
            return False
        self.isr, self.replicas = isr, replicas
        self.adding = self.removing = self.original = ()
        return True

    def settle_eligible_replicas(self) -> None:
        """Whoever left the ISR while it is too small for the high watermark to advance has all that is committed."""
        if not self._rules.elr_enabled and not self.isr:
            # The last one in sync stays: nothing else would tell who has the committed records.
            self.isr = tuple(replica for replica in self._before.isr if replica in self.replicas)
        least = self._min_isr(self.replicas) if self._rules.elr_enabled else 1
        if len(self.isr) >= least:
            self.elr = self.last_known_elr = ()
            return
        # With the ELR turned off, only what it held when nobody was in sync is left.
        candidates = dict.fromkeys(self._before.elr + self._before.isr)
        self.elr = tuple(
            replica
            for replica in candidates
            if replica not in self.isr and replica not in self._wish.unclean and replica in self.replicas
        )

    def elect(self) -> None:
        before = self._before
        leader = self._elected()
        was_dropped = any(replica not in self.replicas for replica in before.replicas)
        was_under_way = bool(before.adding or before.removing or self._wish.adding or self._wish.removing)
        has_ended = was_under_way and not self.adding and not self.removing
        if leader != before.leader or was_dropped or has_ended:
            self.leader = leader
        if leader != NO_LEADER:
            self.last_known_elr = ()
        elif not self.isr and self._rules.elr_enabled:
            # Where the ELR was off when the last leader stopped, that one stayed in the ISR.
            last = before.isr if before.leader == NO_LEADER else (before.leader,)
            if len(last) == 1 and last[0] in self.replicas:
                self.last_known_elr = last

    def _elected(self) -> int:
        """The leader to be; who it is may change the ISR."""
        preferred = self.replicas[0]
        if self._wish.election is Election.PREFERRED and self._is_valid(preferred):
            return self._lead(preferred)
        if self._is_valid(self._before.leader):
            return self._lead(self._before.leader)
        for replica in self.replicas:
            if self._is_valid(replica):
                return self._lead(replica)
        if not self.isr and not self.elr and len(self.last_known_elr) == 1:
            (last,) = self.last_known_elr
            if self._is_electable(last):
                return self._lead_uncleanly(last)
        if self._wish.election is Election.UNCLEAN or self._rules.unclean_election:
            for replica in self.replicas:
                if self._is_electable(replica):
                    return self._lead_uncleanly(replica)
        return NO_LEADER

    def _is_valid(self, replica: int) -> bool:
        """Whether it has every committed record, and is there."""
        return replica in (self.isr or self.elr) and self._is_electable(replica)

    def _is_electable(self, replica: int) -> bool:
        wish = self._wish
        return (
            replica in self.replicas
            and replica not in wish.leaving
            and replica not in wish.unclean
            and self._rules.is_active(replica)
            and self._rules.is_online(replica, self._directory(replica))
        )

    def _lead(self, leader: int) -> int:
        if not self.isr:
            self.isr = (leader,)
            is_enough = not self._rules.elr_enabled or self._min_isr(self.replicas) <= 1
            self.elr = () if is_enough else without(self.elr, self.isr)
        return leader

    def _lead_uncleanly(self, leader: int) -> int:
        self.isr = (leader,)
        self.elr = ()
        self.recovery = RECOVERING
        return leader

    def _min_isr(self, replicas: Replicas) -> int:
        """No more replicas can be asked for than there are to be when the reassignment is done."""
        return min(self._rules.min_isr, len(without(replicas, self.removing)))

    def record(self, where: PartitionId) -> PartitionChangeRecord | None:
        before = self._before
        record = PartitionChangeRecord(where.number, where.topic_id)
        is_changed = self.leader != LEADER_UNCHANGED
        record.leader = self.leader
        if not _same(self.isr, before.isr):
            record.isr, is_changed = list(self.isr), True
        if self.replicas != before.replicas:
            record.replicas, is_changed = list(self.replicas), True
        if self._wish.directories or (before.directories and self.replicas != before.replicas):
            directories = [self._directory(replica) for replica in self.replicas]
            if tuple(directories) != before.directories:
                record.directories, is_changed = directories, True
        if self.removing != before.removing:
            record.removing_replicas, is_changed = list(self.removing), True
        if self.adding != before.adding:
            record.adding_replicas, is_changed = list(self.adding), True
        if self.original != before.original:
            record.original_replicas, is_changed = list(self.original), True
        if self.recovery != before.recovery:
            record.leader_recovery_state, is_changed = self.recovery, True
        if not _same(self.elr, before.elr):
            record.eligible_leader_replicas, is_changed = list(self.elr), True
        if self.last_known_elr != before.last_known_elr:
            record.last_known_elr, is_changed = list(self.last_known_elr), True
        return record if is_changed else None

    def _directory(self, replica: int) -> KafkaUuid:
        """Where the replica is to be."""
        before = self._before
        if self._wish.directories and replica in self._wish.directories:
            return self._wish.directories[replica]
        if replica not in before.replicas:
            return self._rules.directory_of(replica)
        return before.directories[before.replicas.index(replica)] if before.directories else SOME_DIRECTORY


def without(replicas: Replicas, gone: Collection[int]) -> Replicas:
    """The replicas that are not among those, in their order."""
    if not gone:
        return replicas
    return tuple(replica for replica in replicas if replica not in gone)


def _same(some: Replicas, others: Replicas) -> bool:
    """In whatever order: an ISR is a set."""
    return some == others or sorted(some) == sorted(others)
