"""Requests that create topics, some of them invalid, delete them by name or by id, and add partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from quorumd.controller.cluster_image import MIN_INSYNC_REPLICAS, ClusterImage, Topic
from quorumd.ids import METADATA_TOPIC, KafkaUuid
from quorumd.protocol.messages import create_partitions_request as partitions_wire
from quorumd.protocol.messages import create_topics_request as topics_wire
from quorumd.protocol.messages import delete_topics_request as deletion_wire
from quorumd.simulator.brokers.operators.operator import TIMEOUT_MS, AdminRequest

NAMES: Final = tuple(f"many-{letter}" for letter in "abcdef")
UNKNOWN_BROKER: Final = 9999
MAX_PARTITIONS: Final = 3
BY_ID_SINCE: Final = 6
"""The first version of DeleteTopics with topic ids."""


class TopicRequests:
    """Builds requests for topics from the committed metadata, which `image()` returns."""

    def __init__(self, random: Random, image: Callable[[], ClusterImage], broker_ids: Sequence[int]) -> None:
        self._random = random
        self._image = image
        self._broker_ids = broker_ids
        self._deleted: list[KafkaUuid] = []

    def next(self) -> AdminRequest | None:
        """Return the next request."""
        (build,) = self._random.choices((self._create, self._delete, self._grow), (4.0, 2.0, 1.0))
        return build() if self._topics() else self._create()

    def _topics(self) -> list[Topic]:
        image = self._image()
        return [image.topics[topic_id] for name, topic_id in sorted(image.topic_ids.items()) if name in NAMES]

    def _create(self) -> AdminRequest:
        random = self._random
        topics = [self._topic(name) for name in random.sample(NAMES, random.choice((1, 2, 3, 5)))]
        if random.random() < 0.1:
            topics.append(self._topic(topics[0].name))
        validate_only = random.random() < 0.1
        request = topics_wire.CreateTopicsRequest(topics, TIMEOUT_MS, validate_only)
        return AdminRequest(request, random.randint(request.MIN_VERSION, request.MAX_VERSION))

    def _topic(self, name: str) -> topics_wire.CreatableTopic:
        random, wire = self._random, topics_wire
        configs = []
        if random.random() < 0.5:
            configs.append(wire.CreatableTopicConfig(MIN_INSYNC_REPLICAS, str(random.choice((1, 2, 2, 3)))))
        topic = wire.CreatableTopic(name, -1, -1, [], configs)
        if random.random() < 0.35:
            topic.num_partitions, topic.replication_factor = 1 + random.randrange(2), random.choice((1, 2, 3))
        else:
            replicas = random.choice((1, 2, 3))
            topic.assignments = [
                wire.CreatableReplicaAssignment(number, self._replicas(replicas))
                for number in range(random.choice((1, 1, 2, MAX_PARTITIONS)))
            ]
            random.shuffle(topic.assignments)
        if random.random() < 0.2:
            self._spoil(topic)
        return topic

    def _replicas(self, count: int) -> list[int]:
        return self._random.sample(self._broker_ids, min(count, len(self._broker_ids)))

    def _spoil(self, topic: topics_wire.CreatableTopic) -> None:
        """Make a topic invalid in one way."""
        random = self._random
        if not topic.assignments:
            topic.name, topic.num_partitions, topic.replication_factor = random.choice(
                (
                    (METADATA_TOPIC, 1, 1), ("not valid!", 1, 1), ("", 1, 1), (topic.name, 0, 1),
                    (topic.name, 1, 0), (topic.name, 1, len(self._broker_ids) + 1),
                )
            )  # fmt: skip
            return
        assignment = random.choice(topic.assignments)
        fault = random.randrange(6)
        if fault == 0:
            assignment.broker_ids = [*assignment.broker_ids, assignment.broker_ids[0]]
        elif fault == 1:
            assignment.broker_ids[random.randrange(len(assignment.broker_ids))] = UNKNOWN_BROKER
        elif fault == 2:
            assignment.broker_ids = []
        elif fault == 3:
            assignment.partition_index += len(topic.assignments)
        elif fault == 4:
            topic.replication_factor = len(assignment.broker_ids)
        else:
            other = [broker for broker in self._broker_ids if broker not in assignment.broker_ids]
            index = len(topic.assignments)
            replicas = [*assignment.broker_ids, *other[:1]]
            topic.assignments.append(topics_wire.CreatableReplicaAssignment(index, replicas))

    def _delete(self) -> AdminRequest:
        random, wire = self._random, deletion_wire
        request = wire.DeleteTopicsRequest([], [], TIMEOUT_MS)
        version = random.randint(request.MIN_VERSION, request.MAX_VERSION)
        topics = random.sample(self._topics(), min(len(self._topics()), random.choice((1, 2, 4))))
        if version < BY_ID_SINCE:
            request.topic_names = [topic.name for topic in topics] + random.sample(NAMES, 1)
            return AdminRequest(request, version)
        for topic in topics:
            by_id = random.random() < 0.6
            state = wire.DeleteTopicState(None, topic.id) if by_id else wire.DeleteTopicState(topic.name)
            request.topics.append(state)
        if random.random() < 0.2:
            twice = random.choice(topics)
            request.topics.append(wire.DeleteTopicState(twice.name))
        if random.random() < 0.2 and self._deleted:
            request.topics.append(wire.DeleteTopicState(None, random.choice(self._deleted)))
        self._deleted += [topic.id for topic in topics]
        random.shuffle(request.topics)
        return AdminRequest(request, version)

    def _grow(self) -> AdminRequest | None:
        random, wire = self._random, partitions_wire
        growing = random.sample(self._topics(), min(len(self._topics()), random.choice((1, 2))))
        requested = []
        for topic in growing:
            count = len(topic.partitions) + 1
            if count > MAX_PARTITIONS + 1:
                continue
            assignments = None
            if random.random() < 0.6:
                replicas = len(topic.partitions[0].target) + (random.random() < 0.1)
                assignments = [wire.CreatePartitionsAssignment(self._replicas(replicas))]
            requested.append(wire.CreatePartitionsTopic(topic.name, count, assignments))
        if not requested:
            return None
        request = wire.CreatePartitionsRequest(requested, TIMEOUT_MS)
        return AdminRequest(request, random.randint(request.MIN_VERSION, request.MAX_VERSION))
