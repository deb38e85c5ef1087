"""Statistics of a node's cluster image, collected on the event thread: other threads must not read the image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from quorumd.controller.broker import Broker
from quorumd.node.node import Node

FENCED, CONTROLLED_SHUTDOWN, ACTIVE = 10, 20, 30


class ImageStatistics(NamedTuple):
    """Statistics of an image. `hash` covers all records below `applied_offset`, and is equal on all nodes at
    this offset."""

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
    applied_timestamp_ms: int = 0
    broker_states: tuple[tuple[int, int], ...] = ()
    """The ids and states of registered brokers."""
    heartbeat_ages_s: tuple[tuple[int, float], ...] = ()
    """On the leader: the time since the last heartbeat of each broker, at most the session timeout."""


EMPTY_STATISTICS: Final = ImageStatistics(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def collect_image_statistics(node: Node, before: ImageStatistics) -> ImageStatistics:
    """Collect the current statistics. While a leader's image is ahead of its log, hash and offset are kept from
    `before`, the previous statistics."""
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
        machine.applied_timestamp_ms,
        tuple((broker.id, state_of(broker)) for broker in brokers),
        tuple(_heartbeat_ages(node)),
    )


def state_of(broker: Broker) -> int:
    """Return the state of a registered broker as numbered by Kafka's controller."""
    if broker.is_fenced:
        return FENCED
    return CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else ACTIVE


def _heartbeat_ages(node: Node) -> Iterator[tuple[int, float]]:
    if not node.controller.is_active:
        return
    controller = node.controller.controller
    sessions, now_ms = controller.sessions, controller.now_ms()
    for broker in controller.image.brokers.values():
        session = sessions.get(broker.id)
        age_ms = sessions.timeout_ms
        if session is not None and session.epoch == broker.epoch:
            age_ms = min(age_ms, max(0.0, now_ms - session.contact_ms))
        yield broker.id, age_ms / 1000
