"""Reassignments of one partition: how one starts, takes the place of another, is cancelled, and may complete.

The originals are kept with the partition (`Partition.original`), so that a cancel restores them in their order,
whatever came between (KIP-455; the description of data replication, chapter 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from quorumd.controller.partition import Partition, Replicas

CompletionRule = Callable[[Replicas, Replicas, Replicas, Replicas, int], bool]
"""(ISR and replicas without those removed, adding, removing, least size of the ISR) -> whether it is completed."""


def can_complete(
    isr: Replicas, replicas: Replicas, adding: Replicas, removing: Replicas, min_isr: int
) -> bool:
    """Every added replica is in sync, and enough are without the removed ones (the description, 4.2)."""
    del removing
    return bool(replicas) and len(isr) >= max(1, min_isr) and all(replica in isr for replica in adding)


class Reassignment(NamedTuple):
    """What a partition's replicas and the fields of its reassignment become."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas
    original: Replicas


def original_replicas_of(partition: Partition) -> Replicas:
    """The replicas before the reassignment under way; without one, those there are."""
    if not partition.is_reassigning:
        return partition.replicas
    if partition.original:
        return partition.original
    # Begun by a controller that keeps no originals.
    return tuple(replica for replica in partition.replicas if replica not in partition.adding)


def start(partition: Partition, target: Replicas) -> Reassignment:
    """Move a partition to `target`, the preferred leader first, be another reassignment under way or not.

    Replicas that are neither target, original, nor in sync are dropped at once; nobody in sync, or eligible for a
    leader, is before the end: what was acknowledged may be nowhere else.
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
    """Back to the replicas before the reassignment that is under way."""
    return Reassignment(original_replicas_of(partition), (), (), ())
