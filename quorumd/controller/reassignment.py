"""Reassignments of one partition: start, replacement, cancellation and completion (KIP-455).

The original replicas are stored with the partition (`Partition.original`), so that a cancellation restores them in
their order, even after several reassignments.
"""

from __future__ import annotations

from typing import NamedTuple

from quorumd.controller.partition import Partition, Replicas


def can_complete(isr: Replicas, replicas: Replicas, adding: Replicas, min_isr: int) -> bool:
    """Whether every added replica is in sync, and min_isr of the replicas that remain (KIP-966). `isr` and `replicas`
    are those after the completion."""
    return bool(replicas) and len(isr) >= max(1, min_isr) and all(replica in isr for replica in adding)


class Reassignment(NamedTuple):
    """The replicas of a partition and the fields of its reassignment, as in Partition."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas
    original: Replicas


def original_replicas_of(partition: Partition) -> Replicas:
    """Return the replicas before the reassignment in progress, or the current ones without a reassignment."""
    if not partition.is_reassigning:
        return partition.replicas
    if partition.original:
        return partition.original
    # Started by a controller that does not store the original replicas.
    return tuple(replica for replica in partition.replicas if replica not in partition.adding)


def start(partition: Partition, target: Replicas) -> Reassignment:
    """Reassign a partition to `target`, the preferred leader first. A reassignment in progress is replaced.

    A replica that only the replaced reassignment added is removed at once, unless it is in the ISR or ELR: then it
    may have acknowledged records, and is removed at the end.
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
    """Restore the replicas from before the reassignment in progress."""
    return Reassignment(original_replicas_of(partition), (), (), ())
