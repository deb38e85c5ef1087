"""Simulated replication without data: replicas catch up after random times and fall behind at random."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from quorumd.broker.replication.isr_proposal import IsrProposal
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import Partition, PartitionId

COPIES_S = (0.5, 4.0)
"""Time for a replica to catch up."""
FALLS_BEHIND = 0.01
"""Probability per step that an in-sync replica falls behind."""


class Copies:
    """The replicas of all partitions; `advance` is called periodically. Times are seconds of one clock."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._level_at: dict[tuple[PartitionId, int], float] = {}
        """The time at which a replica has caught up, by partition and broker id."""

    def advance(self, image: ClusterImage, now: float, *, falls_behind: float = FALLS_BEHIND) -> None:
        """Update the replicas to a new image, and let some replicas fall behind."""
        before, self._level_at = self._level_at, {}
        for where, partition in partitions(image):
            for replica in partition.replicas:
                key = where, replica
                level_at = before.get(key, now if replica in partition.isr else None)
                is_behind = replica in partition.isr and self._random.random() < falls_behind
                if level_at is None or is_behind or not _is_active(image, replica):
                    level_at = now + self._random.uniform(*COPIES_S)
                self._level_at[key] = level_at

    def proposals(self, image: ClusterImage, leader: int, now: float) -> list[IsrProposal]:
        """Return the ISR changes that a leader proposes for its partitions."""
        found = []
        for where, partition in partitions(image):
            if partition.leader != leader:
                continue
            others = [replica for replica in partition.replicas if replica not in partition.isr]
            wanted = [
                replica
                for replica in (*partition.isr, *others)
                if replica == leader or (_is_active(image, replica) and self._is_level(where, replica, now))
            ]
            if set(wanted) != set(partition.isr):
                members = tuple((member, image.brokers[member].epoch) for member in wanted)
                found.append(IsrProposal(where, partition.leader_epoch, partition.partition_epoch, members))
        return found

    def _is_level(self, where: PartitionId, replica: int, now: float) -> bool:
        level_at = self._level_at.get((where, replica))
        return level_at is not None and level_at <= now


def partitions(image: ClusterImage) -> Iterator[tuple[PartitionId, Partition]]:
    """Yield all partitions of an image."""
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            yield PartitionId(topic.id, number), partition


def is_whole(image: ClusterImage, brokers: list[int]) -> bool:
    """Return True if all brokers are active, all replicas are in sync, and no reassignment is in progress."""
    return all(_is_active(image, broker) for broker in brokers) and all(
        partition.leader >= 0
        and not partition.is_reassigning
        and set(partition.isr) == set(partition.replicas)
        for _, partition in partitions(image)
    )


def _is_active(image: ClusterImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.is_active
