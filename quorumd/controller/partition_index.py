"""Index of partitions by broker, and of those without a leader, with an ELR, or under reassignment.

It is updated with every change, so that fencing a broker reads only its own partitions among a million. Updates are
changes of dictionaries, undone like those of the rest of the image (`undo_log`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, Replicas
from quorumd.controller.undo_log import UndoEntry, add_all, assign, remove, remove_all
from quorumd.ids import KafkaUuid


class PartitionIndex:
    """The partitions of an image, indexed.

    `leader_counts`: the number of partitions that a broker leads, by broker id. `rebalance_candidates`: by broker id,
    the partitions whose preferred leader the broker is, in sync but not leading. `leaderless`, `reassigning`,
    `with_elr`: dictionaries used as ordered sets.
    """

    __slots__ = (
        "_numbers",
        "_partitions_by_broker",
        "leader_counts",
        "leaderless",
        "reassigning",
        "rebalance_candidates",
        "with_elr",
    )

    def __init__(self) -> None:
        self._partitions_by_broker: dict[int, dict[PartitionId, PartitionId]] = {}
        self._numbers: dict[str, int] = {"partitions": 0, "imbalanced": 0}
        self.rebalance_candidates: dict[int, dict[PartitionId, PartitionId]] = {}
        self.leader_counts: dict[int, int] = {}
        self.leaderless: dict[PartitionId, None] = {}
        self.reassigning: dict[PartitionId, None] = {}
        self.with_elr: dict[PartitionId, None] = {}

    def partitions_with_broker(self, broker_id: int) -> Iterable[PartitionId]:
        """Return the partitions with the broker in their ISR or ELR; the index must not change during iteration."""
        return self._partitions_by_broker.get(broker_id, {})

    def count_with_broker(self, broker_id: int) -> int:
        """Return the number of partitions with the broker in their ISR or ELR."""
        return len(self._partitions_by_broker.get(broker_id, {}))

    @property
    def partition_count(self) -> int:
        """The number of partitions."""
        return self._numbers["partitions"]

    @property
    def imbalanced_count(self) -> int:
        """The number of partitions not led by their preferred leader, even if it cannot be elected."""
        return self._numbers["imbalanced"]

    def leader_count(self, broker_id: int) -> int:
        """Return the number of partitions that the broker leads."""
        return self.leader_counts.get(broker_id, 0)

    def load(self, tp: PartitionId, partition: Partition) -> None:
        """Add a new partition as `update` does, but without undo entries: to an index without readers. The partition
        is not being reassigned and has no ELR."""
        numbers, leader = self._numbers, partition.leader
        numbers["partitions"] += 1
        if leader == NO_LEADER:
            self.leaderless[tp] = None
        else:
            self.leader_counts[leader] = self.leader_counts.get(leader, 0) + 1
        by_broker = self._partitions_by_broker
        for broker_id in partition.isr:
            held = by_broker.get(broker_id)
            if held is None:
                held = by_broker[broker_id] = {}
            held[tp] = tp
        if not partition.has_preferred_leader:
            numbers["imbalanced"] += 1
            electable = partition.electable_preferred_leader
            if electable != NO_LEADER:
                self.rebalance_candidates.setdefault(electable, {})[tp] = tp

    def update(
        self, tp: PartitionId, before: Partition | None, after: Partition, changes: list[UndoEntry]
    ) -> None:
        """Update the index for a partition that is changed, or added if `before` is None."""
        if before is None:
            assign(self._numbers, "partitions", self._numbers["partitions"] + 1, changes)
        old_leader = before.leader if before is not None else None
        if old_leader != after.leader:
            self._adjust_leader_count(old_leader, -1, changes)
            self._adjust_leader_count(after.leader, 1, changes)
            _set_marked(self.leaderless, tp, after.leader == NO_LEADER, changes)
        if before is None or before.isr != after.isr or before.elr != after.elr:
            self._update_brokers(tp, before, after, changes)
        self._update_candidates(tp, before, after, changes)
        is_reassigning = after.is_reassigning
        if is_reassigning != (before is not None and before.is_reassigning):
            _set_marked(self.reassigning, tp, is_reassigning, changes)
        has_elr = bool(after.elr)
        if has_elr != (before is not None and bool(before.elr)):
            _set_marked(self.with_elr, tp, has_elr, changes)

    def add(self, other: PartitionIndex, changes: list[UndoEntry]) -> None:
        """Add the partitions of another index, which must not be used afterwards.

        All of them are new: the first active replica leads each, and none is being reassigned or has an ELR.
        """
        for name, count in other._numbers.items():
            assign(self._numbers, name, self._numbers[name] + count, changes)
        for leader, count in other.leader_counts.items():
            assign(self.leader_counts, leader, self.leader_count(leader) + count, changes)
        by_broker = self._partitions_by_broker
        for broker_id, partitions in other._partitions_by_broker.items():
            if broker_id in by_broker:
                add_all(by_broker[broker_id], partitions, changes)
            else:
                assign(by_broker, broker_id, partitions, changes)

    def remove(
        self, topic_id: KafkaUuid, partitions: Mapping[int, Partition], changes: list[UndoEntry]
    ) -> None:
        """Remove partitions of a topic together, in about two microseconds each."""
        leader_counts = Counter([partition.leader for partition in partitions.values()])
        by_holders: dict[Replicas, list[PartitionId]] = {}
        rebalance_candidates: dict[int, list[PartitionId]] = {}
        leaderless: list[PartitionId] = []
        reassigning: list[PartitionId] = []
        with_elr: list[PartitionId] = []
        imbalanced = 0
        for number, partition in partitions.items():
            tp = PartitionId(topic_id, number)
            leader, elr = partition.leader, partition.elr
            # As `_holders`, without a call per partition.
            holders = partition.isr + elr if elr else partition.isr
            if holders in by_holders:
                by_holders[holders].append(tp)
            else:
                by_holders[holders] = [tp]
            if not partition.replicas or leader != partition.replicas[0]:
                imbalanced += 1
                electable = partition.electable_preferred_leader
                if electable != NO_LEADER:
                    rebalance_candidates.setdefault(electable, []).append(tp)
            if leader == NO_LEADER:
                leaderless.append(tp)
            if partition.adding or partition.removing:
                reassigning.append(tp)
            if elr:
                with_elr.append(tp)
        for name, count in (("partitions", len(partitions)), ("imbalanced", imbalanced)):
            assign(self._numbers, name, self._numbers[name] - count, changes)
        for leader, count in leader_counts.items():
            self._adjust_leader_count(leader, -count, changes)
        for by_broker, removed in (
            (self._partitions_by_broker, _by_broker(by_holders)),
            (self.rebalance_candidates, rebalance_candidates),
        ):
            for broker_id, tps in removed.items():
                remove_all(by_broker[broker_id], tps, changes)
                if not by_broker[broker_id]:
                    remove(by_broker, broker_id, changes)
        for marks, marked in (
            (self.leaderless, leaderless),
            (self.reassigning, reassigning),
            (self.with_elr, with_elr),
        ):
            remove_all(marks, marked, changes)

    def _update_candidates(
        self, tp: PartitionId, before: Partition | None, after: Partition, changes: list[UndoEntry]
    ) -> None:
        was_imbalanced = before is not None and not before.has_preferred_leader
        is_imbalanced = not after.has_preferred_leader
        if was_imbalanced != is_imbalanced:
            count = self._numbers["imbalanced"] + is_imbalanced - was_imbalanced
            assign(self._numbers, "imbalanced", count, changes)
        old = before.electable_preferred_leader if before is not None else NO_LEADER
        new = after.electable_preferred_leader
        if old == new:
            return
        if old != NO_LEADER:
            _discard(self.rebalance_candidates, old, tp, changes)
        if new != NO_LEADER:
            if new not in self.rebalance_candidates:
                assign(self.rebalance_candidates, new, {}, changes)
            assign(self.rebalance_candidates[new], tp, tp, changes)

    def _adjust_leader_count(self, leader: int | None, difference: int, changes: list[UndoEntry]) -> None:
        if leader is None or leader == NO_LEADER:
            return
        count = self.leader_counts.get(leader, 0) + difference
        if count:
            assign(self.leader_counts, leader, count, changes)
        else:
            remove(self.leader_counts, leader, changes)

    def _update_brokers(
        self, tp: PartitionId, before: Partition | None, after: Partition, changes: list[UndoEntry]
    ) -> None:
        old_brokers = _holders(before) if before is not None else ()
        new_brokers = _holders(after)
        for broker_id in new_brokers:
            if broker_id not in old_brokers:
                if broker_id not in self._partitions_by_broker:
                    assign(self._partitions_by_broker, broker_id, {}, changes)
                assign(self._partitions_by_broker[broker_id], tp, tp, changes)
        for broker_id in old_brokers:
            if broker_id not in new_brokers:
                _discard(self._partitions_by_broker, broker_id, tp, changes)


def _holders(partition: Partition) -> Replicas:
    """Return the brokers with every committed record: the ISR and the ELR."""
    return partition.isr + partition.elr if partition.elr else partition.isr


def _by_broker(by_holders: Mapping[Replicas, Sequence[PartitionId]]) -> dict[int, list[PartitionId]]:
    """Return the partitions of each broker, given the partitions of each set of brokers."""
    by_broker: dict[int, list[PartitionId]] = {}
    for holders, held in by_holders.items():
        for broker_id in dict.fromkeys(holders):
            by_broker.setdefault(broker_id, []).extend(held)
    return by_broker


def _discard(
    by_broker: dict[int, dict[PartitionId, PartitionId]],
    broker_id: int,
    tp: PartitionId,
    changes: list[UndoEntry],
) -> None:
    partitions = by_broker.get(broker_id)
    if partitions is not None:
        remove(partitions, tp, changes)
        if not partitions:
            remove(by_broker, broker_id, changes)


def _set_marked(marks: dict[PartitionId, None], tp: PartitionId, marked: bool, changes: list[Any]) -> None:
    if marked:
        assign(marks, tp, None, changes)
    elif tp in marks:
        remove(marks, tp, changes)
