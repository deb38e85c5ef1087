"""Which partitions a broker holds, leads or should lead, which have no leader or an ELR, which are being reassigned.

Kept up to date change by change: a broker is fenced among a million partitions by looking at its own. Everything is
an assignment to a key of a dictionary, as in the rest of the image, so that it is undone the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from quorumd.controller.assignment import Change, assign, remove
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId


class PartitionIndex:
    """`holds`: by broker id the partitions with it in the ISR or ELR. `leads`: by broker id how many it leads.

    `to_balance`: by broker id the partitions of which it is the preferred leader and in sync, and that it does not
    lead.
    """

    __slots__ = ("_holds", "_numbers", "leaderless", "leads", "reassigning", "to_balance", "with_elr")

    def __init__(self) -> None:
        self._holds: dict[int, dict[PartitionId, PartitionId]] = {}
        self._numbers: dict[str, int] = {"partitions": 0, "imbalanced": 0}
        self.to_balance: dict[int, dict[PartitionId, PartitionId]] = {}
        self.leads: dict[int, int] = {}
        self.leaderless: dict[PartitionId, None] = {}
        self.reassigning: dict[PartitionId, None] = {}
        self.with_elr: dict[PartitionId, None] = {}

    def held_by(self, broker_id: int) -> Iterable[PartitionId]:
        """The partitions with the broker in their ISR or ELR. Not to be changed meanwhile."""
        return self._holds.get(broker_id, {})

    def held_count(self, broker_id: int) -> int:
        """How many these are."""
        return len(self._holds.get(broker_id, {}))

    @property
    def partition_count(self) -> int:
        """How many partitions there are."""
        return self._numbers["partitions"]

    @property
    def imbalanced_count(self) -> int:
        """How many partitions are not led by their preferred leader, whether or not it could lead."""
        return self._numbers["imbalanced"]

    def leader_count(self, broker_id: int) -> int:
        """How many partitions the broker leads."""
        return self.leads.get(broker_id, 0)

    def changed(
        self, where: PartitionId, before: Partition | None, after: Partition | None, changes: list[Change]
    ) -> None:
        """A partition came (no `before`), changed, or went (no `after`)."""
        if before is None or after is None:
            difference = (after is not None) - (before is not None)
            assign(self._numbers, "partitions", self._numbers["partitions"] + difference, changes)
        old_leader = before.leader if before is not None else None
        new_leader = after.leader if after is not None else None
        if old_leader != new_leader:
            self._count(old_leader, -1, changes)
            self._count(new_leader, 1, changes)
            _mark(self.leaderless, where, new_leader == NO_LEADER, changes)
        if before is None or after is None or before.isr != after.isr or before.elr != after.elr:
            self._hold(where, before, after, changes)
        self._balance(where, before, after, changes)
        is_reassigning = after is not None and after.is_reassigning
        if is_reassigning != (before is not None and before.is_reassigning):
            _mark(self.reassigning, where, is_reassigning, changes)
        has_elr = after is not None and bool(after.elr)
        if has_elr != (before is not None and bool(before.elr)):
            _mark(self.with_elr, where, has_elr, changes)

    def _balance(
        self, where: PartitionId, before: Partition | None, after: Partition | None, changes: list[Change]
    ) -> None:
        """After `_hold`, which knows the one object for this partition."""
        was_imbalanced = before is not None and not before.has_preferred_leader
        is_imbalanced = after is not None and not after.has_preferred_leader
        if was_imbalanced != is_imbalanced:
            count = self._numbers["imbalanced"] + is_imbalanced - was_imbalanced
            assign(self._numbers, "imbalanced", count, changes)
        old = before.electable_preferred_leader if before is not None else NO_LEADER
        new = after.electable_preferred_leader if after is not None else NO_LEADER
        if old == new:
            return
        if old != NO_LEADER:
            _take_from(self.to_balance, old, where, changes)
        if new != NO_LEADER:
            if new not in self.to_balance:
                assign(self.to_balance, new, {}, changes)
            where = self._holds[new].get(where, where)
            assign(self.to_balance[new], where, where, changes)

    def _count(self, leader: int | None, difference: int, changes: list[Change]) -> None:
        if leader is None or leader == NO_LEADER:
            return
        count = self.leads.get(leader, 0) + difference
        if count:
            assign(self.leads, leader, count, changes)
        else:
            remove(self.leads, leader, changes)

    def _hold(
        self, where: PartitionId, before: Partition | None, after: Partition | None, changes: list[Change]
    ) -> None:
        held = before.isr + before.elr if before is not None else ()
        holding = after.isr + after.elr if after is not None else ()
        joining = [broker_id for broker_id in holding if broker_id not in held]
        if joining and held:
            # One object for all brokers: there are as many as replicas in the cluster.
            where = self._holds[held[0]].get(where, where)
        for broker_id in joining:
            if broker_id not in self._holds:
                assign(self._holds, broker_id, {}, changes)
            assign(self._holds[broker_id], where, where, changes)
        for broker_id in held:
            if broker_id not in holding:
                _take_from(self._holds, broker_id, where, changes)


def _take_from(
    of_brokers: dict[int, dict[PartitionId, PartitionId]],
    broker_id: int,
    where: PartitionId,
    changes: list[Change],
) -> None:
    of_broker = of_brokers.get(broker_id)
    if of_broker is not None:
        remove(of_broker, where, changes)
        if not of_broker:
            remove(of_brokers, broker_id, changes)


def _mark(marks: dict[PartitionId, None], where: PartitionId, marked: bool, changes: list[Any]) -> None:
    if marked:
        assign(marks, where, None, changes)
    elif where in marks:
        remove(marks, where, changes)
