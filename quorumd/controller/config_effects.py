"""Partition changes caused by config changes.

A new min.insync.replicas may clear an ELR or complete a reassignment; unclean.leader.election.enable may elect a
leader for a leaderless partition. These changes belong in the batch of the config change: a leader that reads a
smaller min.insync.replicas may advance its high watermark immediately, without the replicas in the ELR.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorumd.controller.cluster_image import (
    ALL_BROKERS,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_ELECTION,
    ClusterImage,
    Resource,
    Topic,
)
from quorumd.controller.controller import Controller
from quorumd.controller.partition import NO_LEADER, PartitionId
from quorumd.controller.partition_change import PartitionChange, build_partition_change
from quorumd.controller.partition_configs import allows_unclean_election, parse_min_isr
from quorumd.controller.partition_rules import PartitionRules
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord

CONFIGS_WITH_EFFECTS = frozenset({MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION})


def plan_effects(controller: Controller, changes: Sequence[ConfigRecord]) -> list[PartitionChangeRecord]:
    """Plan the partition changes that these config changes cause, to be appended after them."""
    changed = {
        ((record.resource_type, record.resource_name), record.name): record.value
        for record in changes
        if record.name in CONFIGS_WITH_EFFECTS
    }
    if not changed:
        return []
    pending = _PendingConfigs(controller.image, changed)
    rules: dict[str, PartitionRules] = {}
    records: list[PartitionChangeRecord] = []
    for tp in _affected_partitions(controller.image, [resource for resource, _ in changed]):
        topic = controller.image.topics[tp.topic_id]
        if topic.name not in rules:
            rules[topic.name] = PartitionRules(
                controller,
                topic.name,
                min_isr=parse_min_isr(pending.topic_config(topic.name, MIN_INSYNC_REPLICAS)),
                unclean_election=allows_unclean_election(pending.topic_config(topic.name, UNCLEAN_ELECTION)),
            )
        record = build_partition_change(tp, topic.partitions[tp.number], PartitionChange(), rules[topic.name])
        if record is not None:
            records.append(record)
    return records


def _affected_partitions(image: ClusterImage, resources: Iterable[Resource]) -> Iterable[PartitionId]:
    """Return the partitions that a config change may affect: reassigning, leaderless or with an ELR."""
    if ALL_BROKERS in resources:
        index = image.index
        return dict.fromkeys((*index.with_elr, *index.reassigning, *index.leaderless))
    affected: dict[PartitionId, None] = {}
    for kind, name in resources:
        topic = image.topic_by_name(name) if kind == ConfigResourceType.TOPIC else None
        if topic is not None:
            affected.update(dict.fromkeys(_affected_by_topic(topic)))
    return affected


def _affected_by_topic(topic: Topic) -> Iterable[PartitionId]:
    for number, partition in topic.partitions.items():
        if partition.elr or partition.is_reassigning or partition.leader == NO_LEADER:
            yield PartitionId(topic.id, number)


class _PendingConfigs:
    """Topic configs with pending changes applied. `changed`: by (resource, key), None if deleted."""

    def __init__(self, image: ClusterImage, changed: dict[tuple[Resource, str], str | None]) -> None:
        self._image = image
        self._changed = changed

    def topic_config(self, topic: str, key: str) -> str | None:
        own = self._value((int(ConfigResourceType.TOPIC), topic), key)
        return own if own is not None else self._value(ALL_BROKERS, key)

    def _value(self, resource: Resource, key: str) -> str | None:
        if (resource, key) in self._changed:
            return self._changed[resource, key]
        return self._image.config(resource).get(key)
