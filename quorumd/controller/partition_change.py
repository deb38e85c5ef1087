"""Builds every change of a partition: ISR, ELR, leader and epochs.

A cause (AlterPartition, fencing, controlled shutdown, registration, election, reassignment, change of
min.insync.replicas) requests a change; this module derives the rest, in this order: complete the reassignment if
possible; update the ELR for the new ISR; elect a leader if the old one cannot stay; start a new leader epoch if a
replica is removed, so that its fetches in flight do not count (KIP-966, race R11).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, auto

from quorumd.controller.broker import MIGRATING
from quorumd.controller.partition import (
    LEADER_UNCHANGED,
    NO_LEADER,
    RECOVERING,
    Partition,
    PartitionId,
    Replicas,
)
from quorumd.controller.partition_rules import PartitionRules
from quorumd.controller.reassignment import can_complete
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord


class Election(Enum):
    """The kind of election. A leader that may continue to lead stays, unless PREFERRED elects the first replica."""

    ORDINARY = auto()
    """Elect a member of the ISR; of the ELR if the ISR is empty; the last known leader if both are empty; any active
    replica if none of these can lead and the topic allows unclean election."""
    PREFERRED = auto()
    """As ORDINARY, but the first replica takes precedence."""
    UNCLEAN = auto()
    """As ORDINARY, as if the topic allowed unclean election."""


class PartitionChange:
    """A requested change; None leaves a field unchanged.

    `unclean`: brokers that may have lost data, which also leave the ELR and are not elected.
    `ineligible`: brokers about to be fenced or drained, which are not elected.
    `directories`: new directories of replicas, by broker id (KIP-858).
    """

    __slots__ = (
        "adding",
        "directories",
        "election",
        "ineligible",
        "isr",
        "original",
        "recovery",
        "removing",
        "replicas",
        "unclean",
    )

    def __init__(
        self,
        isr: Replicas | None = None,
        replicas: Replicas | None = None,
        adding: Replicas | None = None,
        removing: Replicas | None = None,
        original: Replicas | None = None,
        recovery: int | None = None,
        unclean: Collection[int] = (),
        ineligible: Collection[int] = (),
        directories: Mapping[int, KafkaUuid] | None = None,
        election: Election = Election.ORDINARY,
    ) -> None:
        self.isr = isr
        self.replicas = replicas
        self.adding = adding
        self.removing = removing
        self.original = original
        self.recovery = recovery
        self.unclean = unclean
        self.ineligible = ineligible
        self.directories = directories
        self.election = election


def build_partition_change(
    tp: PartitionId, partition: Partition, change: PartitionChange, rules: PartitionRules
) -> PartitionChangeRecord | None:
    """Build the record of a change; None if nothing changes."""
    builder = PartitionChangeBuilder(partition, change, rules)
    builder.complete_reassignment()
    builder.update_elr()
    builder.elect()
    if builder.complete_reassignment():
        # The elected replica may be the only member of a new ISR, which can complete the reassignment.
        builder.update_elr()
        builder.elect()
    return builder.record(tp)


class PartitionChangeBuilder:
    """The new state of the partition, derived step by step; `build_partition_change` takes the steps in order."""

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
        """Complete the reassignment if possible; return whether it was."""
        if not self.adding and not self.removing:
            return False
        isr = exclude(self.isr, self.removing)
        replicas = exclude(self.replicas, self.removing)
        if not can_complete(isr, replicas, self.adding, self._min_isr(replicas)):
            return False
        self.isr, self.replicas = isr, replicas
        self.adding = self.removing = self.original = ()
        return True

    def update_elr(self) -> None:
        """Update the ELR: a replica keeps every committed record if it leaves an ISR that is then too small to
        advance the high watermark."""
        if not self._rules.elr_enabled and not self.isr:
            # Keep the last ISR members: otherwise it would be unknown which replicas have the committed records.
            self.isr = tuple(replica for replica in self._partition.isr if replica in self.replicas)
        if self._needs_no_elr():
            self.elr = self.last_known_elr = ()
            return
        # With ELR disabled, there can be an ELR only if the ISR was empty when it was disabled.
        candidates = dict.fromkeys(self._partition.elr + self._partition.isr)
        self.elr = tuple(
            replica
            for replica in candidates
            if replica not in self.isr and replica not in self._change.unclean and replica in self.replicas
        )

    def _needs_no_elr(self) -> bool:
        """Whether the ISR is large enough. One of all replicas is, whatever the config, which need not be read."""
        members = len(self.isr)
        if not self._rules.elr_enabled:
            return members >= 1
        return members >= len(self.replicas) or members >= self._min_isr(self.replicas)

    def elect(self) -> None:
        """Elect a leader if necessary; start a new leader epoch for it, for a removed replica or at the end of a
        reassignment."""
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
            # A leader that was lost while ELR was disabled has stayed in the ISR.
            last = before.isr if before.leader == NO_LEADER else (before.leader,)
            if len(last) == 1 and last[0] in self.replicas:
                self.last_known_elr = last

    def _choose_leader(self) -> int:
        """Choose the leader; electing a member of the ELR, or an unclean election, makes it the ISR."""
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
        """Whether the replica has every committed record and is electable."""
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
        """Return min.insync.replicas, at most the number of replicas after the reassignment."""
        return min(self._rules.min_isr, len(exclude(replicas, self.removing)))

    def record(self, tp: PartitionId) -> PartitionChangeRecord | None:
        """Build the record with the fields that differ from the partition's; None if none does."""
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
        """Return the new directory of a replica."""
        before = self._partition
        if self._change.directories and replica in self._change.directories:
            return self._change.directories[replica]
        if replica not in before.replicas:
            return self._rules.directory_of(replica)
        return before.directories[before.replicas.index(replica)] if before.directories else MIGRATING


def exclude(replicas: Replicas, removed: Collection[int]) -> Replicas:
    """Return the replicas without the removed ones, in their order."""
    if not removed:
        return replicas
    return tuple(replica for replica in replicas if replica not in removed)


def _same_members(left: Replicas, right: Replicas) -> bool:
    """Whether two ISRs are equal as sets."""
    return left == right or sorted(left) == sorted(right)
