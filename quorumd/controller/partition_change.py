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

from quorumd.controller.broker import MIGRATING, UNASSIGNED
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


def unassigned_directory(broker_id: int) -> KafkaUuid:
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
class PartitionRules:
    """What changes of one partition depend on besides itself.

    `min_isr`: min.insync.replicas of its topic. `directory_of(broker_id)`: where a replica that is new there goes.
    `is_online(broker_id, directory)`: whether the broker can read what it has there.
    """

    min_isr: int
    elr_enabled: bool
    unclean_election: bool
    is_active: Callable[[int], bool]
    directory_of: Callable[[int], KafkaUuid] = unassigned_directory
    is_online: Callable[[int, KafkaUuid], bool] = always_online
    can_complete: CompletionRule = can_complete


@dataclass(slots=True)
class PartitionChange:
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
    ineligible: Collection[int] = ()
    directories: Mapping[int, KafkaUuid] | None = None
    election: Election = Election.ORDINARY


def build_partition_change(
    tp: PartitionId, partition: Partition, change: PartitionChange, rules: PartitionRules
) -> PartitionChangeRecord | None:
    """The record that makes of the partition what is wished, None if it is so already: then no epoch grows."""
    builder = PartitionChangeBuilder(partition, change, rules)
    builder.complete_reassignment()
    builder.update_elr()
    builder.elect()
    if builder.complete_reassignment():
        # Who was elected is alone in the ISR, and may be all that was waited for.
        builder.update_elr()
        builder.elect()
    return builder.record(tp)


class PartitionChangeBuilder:
    """The partition as it is to become."""

    def __init__(self, partition: Partition, change: PartitionChange, rules: PartitionRules) -> None:
        self._partition = partition
        self._change = change
        self._rules = rules
        self.isr = partition.isr if change.isr is None else change.isr
        self.replicas = partition.replicas if change.replicas is None else change.replicas
        self.adding = partition.adding if change.adding is None else change.adding
        self.removing = partition.removing if change.removing is None else change.removing
        self.original = partition.original if change.original is None else change.original
        self.recovery = partition.recovery if change.recovery is None else change.recovery
        self.elr = partition.elr
        self.last_known_elr = partition.last_known_elr
        self.leader = LEADER_UNCHANGED

    def complete_reassignment(self) -> bool:
        """Complete it if that is possible; whether it was."""
        if not self.adding and not self.removing:
            return False
        isr = exclude(self.isr, self.removing)
        replicas = exclude(self.replicas, self.removing)
        if not self._rules.can_complete(isr, replicas, self.adding, self.removing, self._min_isr(replicas)):
            return False
        self.isr, self.replicas = isr, replicas
        self.adding = self.removing = self.original = ()
        return True

    def update_elr(self) -> None:
        """Whoever left the ISR while it is too small for the high watermark to advance has all that is committed."""
        if not self._rules.elr_enabled and not self.isr:
            # The last one in sync stays: nothing else would tell who has the committed records.
            self.isr = tuple(replica for replica in self._partition.isr if replica in self.replicas)
        least = self._min_isr(self.replicas) if self._rules.elr_enabled else 1
        if len(self.isr) >= least:
            self.elr = self.last_known_elr = ()
            return
        # With the ELR turned off, only what it held when nobody was in sync is left.
        candidates = dict.fromkeys(self._partition.elr + self._partition.isr)
        self.elr = tuple(
            replica
            for replica in candidates
            if replica not in self.isr and replica not in self._change.unclean and replica in self.replicas
        )

    def elect(self) -> None:
        before = self._partition
        leader = self._choose_leader()
        was_dropped = any(replica not in self.replicas for replica in before.replicas)
        was_reassigning = bool(
            before.adding or before.removing or self._change.adding or self._change.removing
        )
        has_ended = was_reassigning and not self.adding and not self.removing
        if leader != before.leader or was_dropped or has_ended:
            self.leader = leader
        if leader != NO_LEADER:
            self.last_known_elr = ()
        elif not self.isr and self._rules.elr_enabled:
            # Where the ELR was off when the last leader stopped, that one stayed in the ISR.
            last = before.isr if before.leader == NO_LEADER else (before.leader,)
            if len(last) == 1 and last[0] in self.replicas:
                self.last_known_elr = last

    def _choose_leader(self) -> int:
        """The leader to be; who it is may change the ISR."""
        preferred = self.replicas[0]
        if self._change.election is Election.PREFERRED and self._is_valid(preferred):
            return self._elect_cleanly(preferred)
        if self._is_valid(self._partition.leader):
            return self._elect_cleanly(self._partition.leader)
        for replica in self.replicas:
            if self._is_valid(replica):
                return self._elect_cleanly(replica)
        if not self.isr and not self.elr and len(self.last_known_elr) == 1:
            (last,) = self.last_known_elr
            if self._is_electable(last):
                return self._elect_uncleanly(last)
        if self._change.election is Election.UNCLEAN or self._rules.unclean_election:
            for replica in self.replicas:
                if self._is_electable(replica):
                    return self._elect_uncleanly(replica)
        return NO_LEADER

    def _is_valid(self, replica: int) -> bool:
        """Whether it has every committed record, and is there."""
        return replica in (self.isr or self.elr) and self._is_electable(replica)

    def _is_electable(self, replica: int) -> bool:
        change = self._change
        return (
            replica in self.replicas
            and replica not in change.ineligible
            and replica not in change.unclean
            and self._rules.is_active(replica)
            and self._rules.is_online(replica, self._directory(replica))
        )

    def _elect_cleanly(self, leader: int) -> int:
        if not self.isr:
            self.isr = (leader,)
            meets_min_isr = not self._rules.elr_enabled or self._min_isr(self.replicas) <= 1
            self.elr = () if meets_min_isr else exclude(self.elr, self.isr)
        return leader

    def _elect_uncleanly(self, leader: int) -> int:
        self.isr = (leader,)
        self.elr = ()
        self.recovery = RECOVERING
        return leader

    def _min_isr(self, replicas: Replicas) -> int:
        """No more replicas can be asked for than there are to be when the reassignment is done."""
        return min(self._rules.min_isr, len(exclude(replicas, self.removing)))

    def record(self, tp: PartitionId) -> PartitionChangeRecord | None:
        before = self._partition
        record = PartitionChangeRecord(tp.number, tp.topic_id)
        is_changed = self.leader != LEADER_UNCHANGED
        record.leader = self.leader
        if not _same_members(self.isr, before.isr):
            record.isr, is_changed = list(self.isr), True
        if self.replicas != before.replicas:
            record.replicas, is_changed = list(self.replicas), True
        if self._change.directories or (before.directories and self.replicas != before.replicas):
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
        if not _same_members(self.elr, before.elr):
            record.eligible_leader_replicas, is_changed = list(self.elr), True
        if self.last_known_elr != before.last_known_elr:
            record.last_known_elr, is_changed = list(self.last_known_elr), True
        return record if is_changed else None

    def _directory(self, replica: int) -> KafkaUuid:
        """Where the replica is to be."""
        before = self._partition
        if self._change.directories and replica in self._change.directories:
            return self._change.directories[replica]
        if replica not in before.replicas:
            return self._rules.directory_of(replica)
        return before.directories[before.replicas.index(replica)] if before.directories else MIGRATING


def exclude(replicas: Replicas, removed: Collection[int]) -> Replicas:
    """The replicas that are not among those, in their order."""
    if not removed:
        return replicas
    return tuple(replica for replica in replicas if replica not in removed)


def _same_members(left: Replicas, right: Replicas) -> bool:
    """In whatever order: an ISR is a set."""
    return left == right or sorted(left) == sorted(right)
