"""CreateTopics (KIP-4, KIP-525): each topic by itself, all that can be made in one atomic batch."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.controller.cluster_image import ClusterImage, ResourceType
from quorumd.controller.config_values import shown
from quorumd.controller.configs import ConfigOperation, Refused, plan_operations
from quorumd.controller.controller import Controller
from quorumd.controller.effective_configs import effective_topic_configs
from quorumd.controller.new_partitions import (
    MOST_PARTITIONS,
    TOPIC_BYTES,
    TopicRefused,
    checked_assignment,
    placed,
    records_for,
    room_for,
    too_large,
    too_many,
)
from quorumd.controller.partition import Replicas
from quorumd.controller.plan import Plan
from quorumd.controller.topic_names import may_collide, problem_with_name, unified
from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, ZERO_UUID, KafkaUuid
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import RECORD_FRAMING_BYTES
from quorumd.protocol.wire import Message

BY_DEFAULT = -1

_SharedConfigs = dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]]


class _NewTopic(NamedTuple):
    """A topic that can be made, if the brokers suffice. `assigned` is empty where the controller is to choose."""

    name: str
    partitions: int
    replication_factor: int
    assigned: list[Replicas]
    configs: list[ConfigRecord]

    @property
    def room(self) -> int:
        """Bytes that its records have at most."""
        configs = sum(RECORD_FRAMING_BYTES + len(encode_record(config, 0)) for config in self.configs)
        return TOPIC_BYTES + configs + room_for(self.partitions, self.replication_factor)


def plan_create_topics(controller: Controller, message: CreateTopicsRequest, version: int) -> Plan:
    """Make topics with their configs and partitions."""
    del version
    outcomes = _outcomes(controller, message)
    room = sum(outcome.room for outcome in outcomes.values() if isinstance(outcome, _NewTopic))
    count = sum(outcome.partitions for outcome in outcomes.values() if isinstance(outcome, _NewTopic))
    limit = controller.settings.max_batch_bytes
    records: list[Message] = []
    results: list[CreatableTopicResult] = []
    shared: _SharedConfigs = {}
    for name, outcome in outcomes.items():
        try:
            if isinstance(outcome, TopicRefused):
                raise outcome
            if count > MOST_PARTITIONS:
                raise too_many(count)
            if room > limit:
                raise too_large(room, limit)
            topic_id = controller.new_uuid()
            records += _records(controller, topic_id, outcome)
            results.append(
                _result(controller.image, outcome, ZERO_UUID if message.validate_only else topic_id, shared)
            )
        except TopicRefused as refused:
            results.append(CreatableTopicResult(name, ZERO_UUID, int(refused.error), str(refused)))
    return Plan(() if message.validate_only else records, CreateTopicsResponse(0, results))


def _outcomes(controller: Controller, message: CreateTopicsRequest) -> dict[str, _NewTopic | TopicRefused]:
    """By name, in the order of the request."""
    outcomes: dict[str, _NewTopic | TopicRefused] = {}
    unified_names: dict[str, str] = {}
    for asked in message.topics:
        try:
            if asked.name in outcomes:
                raise TopicRefused(ErrorCode.INVALID_REQUEST, "The topic is named twice in one request.")
            _check_name(controller.image, asked.name, unified_names)
            outcomes[asked.name] = _new_topic(controller, asked)
        except TopicRefused as refused:
            outcomes[asked.name] = refused
    return outcomes


def _check_name(image: ClusterImage, name: str, in_request: dict[str, str]) -> None:
    """`in_request`: the names before it in the request, by their unified name."""
    if name == METADATA_TOPIC:
        raise TopicRefused(ErrorCode.INVALID_REQUEST, f"{METADATA_TOPIC} is the log of the cluster itself.")
    problem = problem_with_name(name)
    if problem is not None:
        raise TopicRefused(ErrorCode.INVALID_TOPIC, problem)
    if name in image.topic_ids:
        raise TopicRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"The topic {name!r} is there already.")
    if may_collide(name):
        other = image.unified_names.get(unified(name)) or in_request.setdefault(unified(name), name)
        if other != name:
            raise TopicRefused(
                ErrorCode.INVALID_TOPIC,
                f"The topic {name!r} would have the same metrics as {other!r}: '.' and '_' are one character there.",
            )


def _new_topic(controller: Controller, asked: CreatableTopic) -> _NewTopic:
    without_value = [config.name for config in asked.configs if config.value is None]
    if without_value:
        raise TopicRefused(
            ErrorCode.INVALID_CONFIG,
            f"The config {shown(without_value[0])} is null: give a value, or leave it out for the default.",
        )
    operations = [(config.name, int(ConfigOperation.SET), config.value) for config in asked.configs]
    resource = (int(ResourceType.TOPIC), asked.name)
    configs = plan_operations({}, resource, operations, controller.settings.remote_storage)
    if isinstance(configs, Refused):
        raise TopicRefused(configs.error, configs.message)
    settings = controller.settings
    if asked.assignments:
        assigned = _assigned(controller, asked)
        return _NewTopic(asked.name, len(assigned), len(assigned[0]), assigned, configs)
    if asked.replication_factor != BY_DEFAULT and asked.replication_factor <= 0:
        raise TopicRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor {asked.replication_factor} is not positive, nor -1 for the default.",
        )
    if asked.num_partitions != BY_DEFAULT and asked.num_partitions <= 0:
        raise TopicRefused(
            ErrorCode.INVALID_PARTITIONS,
            f"The number of partitions {asked.num_partitions} is not positive, nor -1 for the default.",
        )
    return _NewTopic(
        asked.name,
        settings.num_partitions if asked.num_partitions == BY_DEFAULT else asked.num_partitions,
        settings.default_replication_factor
        if asked.replication_factor == BY_DEFAULT
        else asked.replication_factor,
        [],
        configs,
    )


def _assigned(controller: Controller, asked: CreatableTopic) -> list[Replicas]:
    """The replicas of each partition, by number."""
    if asked.num_partitions != BY_DEFAULT or asked.replication_factor != BY_DEFAULT:
        raise TopicRefused(
            ErrorCode.INVALID_REQUEST,
            "An assignment says how many partitions and replicas there are: give -1 for both beside it.",
        )
    assigned: dict[int, Replicas] = {}
    replication_factor: int | None = None
    for assignment in asked.assignments:
        number = assignment.partition_index
        if number in assigned:
            raise TopicRefused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {number} is assigned more than once."
            )
        assigned[number] = checked_assignment(controller, number, assignment.broker_ids, replication_factor)
        replication_factor = len(assigned[number])
    missing = next((number for number in range(len(assigned)) if number not in assigned), None)
    if missing is not None:
        raise TopicRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Partitions are numbered from 0 without gaps, and partition {missing} is not assigned.",
        )
    return [assigned[number] for number in range(len(assigned))]


def _records(controller: Controller, topic_id: KafkaUuid, new: _NewTopic) -> list[Message]:
    numbers = range(new.partitions)
    replicas = new.assigned or placed(controller, topic_id, numbers, new.replication_factor)
    return [
        TopicRecord(new.name, topic_id),
        *new.configs,
        *records_for(controller, topic_id, zip(numbers, replicas, strict=True)),
    ]


def _result(
    image: ClusterImage, new: _NewTopic, topic_id: KafkaUuid, shared: _SharedConfigs
) -> CreatableTopicResult:
    """`shared`: configs by those that a topic has of its own, for other topics of the request with the same."""
    own = {config.name: config.value for config in new.configs if config.value is not None}
    key = tuple(own.items())
    configs = shared.get(key)
    if configs is None:
        configs = shared[key] = [
            CreatableTopicConfigs(
                config.name, config.values[0].value, False, int(config.values[0].source), False
            )
            for config in effective_topic_configs(image, own)
        ]
    return CreatableTopicResult(
        new.name, topic_id, 0, None, 0, new.partitions, new.replication_factor, configs
    )
