"""What a change of configs does to partitions.

With another min.insync.replicas an ELR may end, and a reassignment be complete; with unclean.leader.election.enable
a partition that waits for a leader may get one. That belongs into the batch of the change: a leader that reads the
smaller min.insync.replicas may advance its high watermark at once, without those who are in the ELR.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorumd.controller.cluster_image import (
    ALL_BROKERS,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_ELECTION,
    ClusterImage,
    Resource,
    ResourceType,
    Topic,
    allows_unclean_election,
    min_isr_of,
)
from quorumd.controller.controller import Controller
from quorumd.controller.partition import NO_LEADER, PartitionId
from quorumd.controller.partition_change import Rules, Wish, plan_change
from quorumd.controller.rules import rules_for
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord

CONFIGS_WITH_EFFECTS = frozenset({MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION})


def plan_effects(controller: Controller, changes: Sequence[ConfigRecord]) -> list[PartitionChangeRecord]:
    """The changes of partitions that follow from these changes of configs, to be appended after them."""
    changed = {
        ((record.resource_type, record.resource_name), record.name): record.value
        for record in changes
        if record.name in CONFIGS_WITH_EFFECTS
    }
    if not changed:
        return []
    to_be = _ConfigsToBe(controller.image, changed)
    rules: dict[str, Rules] = {}
    records: list[PartitionChangeRecord] = []
    for where in _concerned(controller.image, [resource for resource, _ in changed]):
        topic = controller.image.topics[where.topic_id]
        if topic.name not in rules:
            rules[topic.name] = rules_for(
                controller,
                topic.name,
                min_isr=min_isr_of(to_be.of_topic(topic.name, MIN_INSYNC_REPLICAS)),
                unclean_election=allows_unclean_election(to_be.of_topic(topic.name, UNCLEAN_ELECTION)),
            )
        record = plan_change(where, topic.partitions[where.number], Wish(), rules[topic.name])
        if record is not None:
            records.append(record)
    return records


def _concerned(image: ClusterImage, resources: Iterable[Resource]) -> Iterable[PartitionId]:
    """Partitions that are not as they would be with other configs."""
    if ALL_BROKERS in resources:
        index = image.index
        return dict.fromkeys((*index.with_elr, *index.reassigning, *index.leaderless))
    concerned: dict[PartitionId, None] = {}
    for kind, name in resources:
        topic = image.topic_named(name) if kind == ResourceType.TOPIC else None
        if topic is not None:
            concerned.update(dict.fromkeys(_waiting(topic)))
    return concerned


def _waiting(topic: Topic) -> Iterable[PartitionId]:
    for number, partition in topic.partitions.items():
        if partition.elr or partition.is_reassigning or partition.leader == NO_LEADER:
            yield PartitionId(topic.id, number)


class _ConfigsToBe:
    """Configs of topics as they are with some changes. `changed`: by (resource, key), None where it is deleted."""

    def __init__(self, image: ClusterImage, changed: dict[tuple[Resource, str], str | None]) -> None:
        self._image = image
        self._changed = changed

    def of_topic(self, topic: str, key: str) -> str | None:
        own = self._value((int(ResourceType.TOPIC), topic), key)
        return own if own is not None else self._value(ALL_BROKERS, key)

    def _value(self, resource: Resource, key: str) -> str | None:
        if (resource, key) in self._changed:
            return self._changed[resource, key]
        return self._image.config(resource).get(key)
