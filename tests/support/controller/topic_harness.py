"""A controller with brokers and topics, and requests about topics: each plan is applied immediately."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quorumd.controller.broker import Broker
from quorumd.controller.cluster_image import ELR_VERSION, Topic
from quorumd.controller.controller import Controller, ControllerSettings
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.partition_creation import plan_create_partitions
from quorumd.controller.topic_creation import plan_create_topics
from quorumd.controller.topic_deletion import plan_delete_topics
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from quorumd.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord


def directory_of(broker_id: int) -> KafkaUuid:
    """Return the only data directory of a broker."""
    return KafkaUuid(bytes([broker_id % 255 + 1]) * 16)


def a_broker(
    broker_id: int,
    rack: str | None = None,
    *,
    fenced: bool = False,
    draining: bool = False,
    directory_count: int = 1,
) -> Broker:
    directories = tuple(directory_of(broker_id + number) for number in range(directory_count))
    incarnation = directory_of(broker_id)
    return Broker(broker_id, 1000 + broker_id, incarnation, (), (), rack, fenced, draining, directories)


def wanted(
    name: str,
    partitions: int = -1,
    replication_factor: int = -1,
    *assignments: tuple[int, list[int]],
    **configs: str | None,
) -> CreatableTopic:
    """Build one topic of a CreateTopics request; '_' in the name of a config stands for '.'."""
    return CreatableTopic(
        name,
        partitions,
        replication_factor,
        [CreatableReplicaAssignment(number, replicas) for number, replicas in assignments],
        [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()],
    )


@dataclass
class TopicHarness:
    """A controller with these brokers, and requests about topics."""

    brokers: tuple[Broker, ...]
    settings: ControllerSettings = field(default_factory=ControllerSettings)
    ids: int = 0
    controller: Controller = field(init=False)

    def __post_init__(self) -> None:
        self.controller = Controller(
            self.settings, lambda: "cluster", lambda: 0.0, lambda: 5000, self._new_uuid
        )
        self.controller.image.apply(FeatureLevelRecord(ELR_VERSION, 1), [])
        for broker in self.brokers:
            self.controller.image.brokers[broker.id] = broker

    def _new_uuid(self) -> KafkaUuid:
        self.ids += 1
        return KafkaUuid(self.ids.to_bytes(16, "big"))

    def apply(self, plan: ControllerResult) -> Any:
        for record in plan.records:
            self.controller.image.apply(record, [])
        return plan.response

    def create(self, *topics: CreatableTopic, validate_only: bool = False) -> list[Any]:
        """Request topics; return the results."""
        request = CreateTopicsRequest(list(topics), 1000, validate_only)
        results: list[Any] = self.apply(plan_create_topics(self.controller, request, 7)).topics
        return results

    def refusal(self, topic: CreatableTopic) -> tuple[int, str]:
        """Request a topic that must be refused; return error code and text."""
        before = self.controller.image.fingerprint()
        (result,) = self.create(topic)
        assert self.controller.image.fingerprint() == before
        return result.error_code, result.error_message

    def delete(self, *names: str, states: tuple[DeleteTopicState, ...] = ()) -> list[Any]:
        request = DeleteTopicsRequest(list(states), list(names))
        results: list[Any] = self.apply(plan_delete_topics(self.controller, request, 6)).responses
        return results

    def grow(
        self, *targets: tuple[str, int] | tuple[str, int, list[list[int]]], validate_only: bool = False
    ) -> list[tuple[str, int, str | None]]:
        """Request partitions, each target as (name, count, assignments); return (name, error code, text) for each."""
        topics = []
        for target in targets:
            assignments = [CreatePartitionsAssignment(ids) for ids in target[2]] if len(target) == 3 else None
            topics.append(CreatePartitionsTopic(target[0], target[1], assignments))
        request = CreatePartitionsRequest(topics, 1000, validate_only)
        results = self.apply(plan_create_partitions(self.controller, request, 3)).results
        return [(result.name, result.error_code, result.error_message) for result in results]

    def topic(self, name: str) -> Topic:
        topic = self.controller.image.topic_by_name(name)
        assert topic is not None
        return topic

    def replicas(self, name: str) -> list[tuple[int, ...]]:
        partitions = self.topic(name).partitions
        return [partitions[number].replicas for number in sorted(partitions)]
