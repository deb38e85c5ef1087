"""Reassignments of one partition: start, replacement, cancellation and completion.

The original replicas are stored with the partition (`Partition.original`), so that a cancellation restores them in
their order, even after several reassignments (KIP-455; the description of data replication, chapter 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from quorumd.controller.partition import Partition, Replicas

CompletionRule = Callable[[Replicas, Replicas, Replicas, Replicas, int], bool]
"""(ISR and replicas without the removed ones, adding, removing, minimum ISR) -> whether the reassignment
completes."""


def can_complete(
    isr: Replicas, replicas: Replicas, adding: Replicas, removing: Replicas, min_isr: int
) -> bool:
    """Whether every added replica is in sync, and enough replicas without the removed ones (the description, 4.2)."""
    del removing
    return bool(replicas) and len(isr) >= max(1, min_isr) and all(replica in isr for replica in adding)


class Reassignment(NamedTuple):
    """The new replicas of a partition and the fields of its reassignment."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas
    original: Replicas


def original_replicas_of(partition: Partition) -> Replicas:
    """Return the replicas before the reassignment in progress, or the present ones without a reassignment."""
    if not partition.is_reassigning:
        return partition.replicas
    if partition.original:
        return partition.original
    # Started by a controller that does not store the original replicas.
    return tuple(replica for replica in partition.replicas if replica not in partition.adding)


def start(partition: Partition, target: Replicas) -> Reassignment:
    """Move a partition to `target`, the preferred leader first, also during another reassignment.

    Replicas that are neither target, original, nor in sync are dropped immediately. Replicas in the ISR or ELR stay
    until the end: only they may have acknowledged records.
    """
    original = original_replicas_of(partition)
    retained = [replica for replica in original if replica not in target]
    abandoned = [
        replica
        for replica in partition.replicas
        if replica in partition.isr + partition.elr and replica not in target + original
    ]
    adding = tuple(sorted(replica for replica in target if replica not in original))
    removing = tuple(sorted((*retained, *abandoned)))
    if not adding and not removing:
        return Reassignment(target, (), (), ())
    return Reassignment((*target, *retained, *abandoned), adding, removing, original)


def cancel(partition: Partition) -> Reassignment:
    """Return to the replicas before the reassignment in progress."""
    return Reassignment(original_replicas_of(partition), (), (), ())
