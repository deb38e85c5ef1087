"""Figures of a node's image of the cluster. Counted on the event thread: another must not look into the image."""

from __future__ import annotations

from typing import Final, NamedTuple

from quorumd.node.node import Node


class ImageStatistics(NamedTuple):
    """`hash` is that of an image of all records below `applied_offset`; nodes with the same offset have the same."""

    hash: int
    applied_offset: int
    registered_brokers: int
    fenced_brokers: int
    active_brokers: int
    topics: int
    partitions: int
    offline_partitions: int
    reassigning_partitions: int
    imbalanced_partitions: int
    draining_brokers: int
    metadata_version: int


EMPTY_STATISTICS: Final = ImageStatistics(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def collect_image_statistics(node: Node, before: ImageStatistics) -> ImageStatistics:
    """The figures now. `before` are the last ones: of those, hash and offset stay while the image of a leader is
    ahead of its log."""
    machine = node.state_machine
    image = machine.image
    brokers = image.brokers.values()
    is_ahead = node.has_pending_proposals
    return ImageStatistics(
        before.hash if is_ahead else image.hash,
        before.applied_offset if is_ahead else machine.applied_offset,
        len(brokers),
        sum(broker.is_fenced for broker in brokers),
        sum(broker.is_active for broker in brokers),
        len(image.topics),
        image.index.partition_count,
        len(image.index.leaderless),
        len(image.index.reassigning),
        image.index.imbalanced_count,
        sum(broker.in_controlled_shutdown and not broker.is_fenced for broker in brokers),
        image.metadata_version,
    )
