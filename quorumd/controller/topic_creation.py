"""CreateTopics (KIP-4, KIP-525): each topic by itself, all that can be made in one atomic batch."""

from __future__ import annotations

from typing import NamedTuple

from quorumd.controller.cluster_image import ClusterImage, ResourceType
from quorumd.controller.config_values import quoted
from quorumd.controller.configs import ApiError, ConfigOperation, plan_operations
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.effective_configs import effective_topic_configs
from quorumd.controller.new_partitions import (
    MAX_PARTITIONS_PER_REQUEST,
    TOPIC_BYTES,
    TopicError,
    free_space_for,
    partition_records,
    place_replicas,
    too_large,
    too_many_partitions,
    validate_assignment,
)
from quorumd.controller.partition import Replicas
from quorumd.controller.topic_names import has_collision_chars, invalid_name_reason, normalized
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

USE_DEFAULT = -1

_SharedConfigs = dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]]


class _NewTopic(NamedTuple):
    """A topic that can be made, if the brokers suffice. `assigned` is empty where the controller is to choose."""

    name: str
    partitions: int
    replication_factor: int
    manual_replicas: list[Replicas]
    configs: list[ConfigRecord]

    @property
    def estimated_bytes(self) -> int:
        """Bytes that its records have at most."""
        configs = sum(RECORD_FRAMING_BYTES + len(encode_record(config, 0)) for config in self.configs)
        return TOPIC_BYTES + configs + free_space_for(self.partitions, self.replication_factor)


def plan_create_topics(
    controller: Controller, message: CreateTopicsRequest, version: int
) -> ControllerResult:
    """Make topics with their configs and partitions."""
    del version
    outcomes = _outcomes(controller, message)
    estimated_bytes = sum(
        outcome.estimated_bytes for outcome in outcomes.values() if isinstance(outcome, _NewTopic)
    )
    count = sum(outcome.partitions for outcome in outcomes.values() if isinstance(outcome, _NewTopic))
    limit = controller.settings.max_batch_bytes
    records: list[Message] = []
    results: list[CreatableTopicResult] = []
    cached_configs: _SharedConfigs = {}
    for name, outcome in outcomes.items():
        try:
            if isinstance(outcome, TopicError):
                raise outcome
            if count > MAX_PARTITIONS_PER_REQUEST:
                raise too_many_partitions(count)
            if estimated_bytes > limit:
                raise too_large(estimated_bytes, limit)
            topic_id = controller.new_uuid()
            records += _records(controller, topic_id, outcome)
            results.append(
                _result(
                    controller.image,
                    outcome,
                    ZERO_UUID if message.validate_only else topic_id,
                    cached_configs,
                )
            )
        except TopicError as error:
            results.append(CreatableTopicResult(name, ZERO_UUID, int(error.error), str(error)))
    return ControllerResult(() if message.validate_only else records, CreateTopicsResponse(0, results))


def _outcomes(controller: Controller, message: CreateTopicsRequest) -> dict[str, _NewTopic | TopicError]:
    """By name, in the order of the request."""
    outcomes: dict[str, _NewTopic | TopicError] = {}
    names_with_collision_chars: dict[str, str] = {}
    for requested in message.topics:
        try:
            if requested.name in outcomes:
                raise TopicError(ErrorCode.INVALID_REQUEST, "The topic is named twice in one request.")
            _check_name(controller.image, requested.name, names_with_collision_chars)
            outcomes[requested.name] = _new_topic(controller, requested)
        except TopicError as error:
            outcomes[requested.name] = error
    return outcomes


def _check_name(image: ClusterImage, name: str, in_request: dict[str, str]) -> None:
    """`in_request`: the names before it in the request, by their unified name."""
    if name == METADATA_TOPIC:
        raise TopicError(ErrorCode.INVALID_REQUEST, f"{METADATA_TOPIC} is the log of the cluster itself.")
    problem = invalid_name_reason(name)
    if problem is not None:
        raise TopicError(ErrorCode.INVALID_TOPIC, problem)
    if name in image.topic_ids:
        raise TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"The topic {name!r} is there already.")
    if has_collision_chars(name):
        other = image.names_with_collision_chars.get(normalized(name)) or in_request.setdefault(
            normalized(name), name
        )
        if other != name:
            raise TopicError(
                ErrorCode.INVALID_TOPIC,
                f"The topic {name!r} would have the same metrics as {other!r}: '.' and '_' are one character there.",
            )


def _new_topic(controller: Controller, requested: CreatableTopic) -> _NewTopic:
    null_configs = [config.name for config in requested.configs if config.value is None]
    if null_configs:
        raise TopicError(
            ErrorCode.INVALID_CONFIG,
            f"The config {quoted(null_configs[0])} is null: give a value, or leave it out for the default.",
        )
    operations = [(config.name, int(ConfigOperation.SET), config.value) for config in requested.configs]
    resource = (int(ResourceType.TOPIC), requested.name)
    configs = plan_operations({}, resource, operations, controller.settings.remote_storage)
    if isinstance(configs, ApiError):
        raise TopicError(configs.error, configs.message)
    settings = controller.settings
    if requested.assignments:
        manual_replicas = _manual_replicas(controller, requested)
        return _NewTopic(
            requested.name, len(manual_replicas), len(manual_replicas[0]), manual_replicas, configs
        )
    if requested.replication_factor != USE_DEFAULT and requested.replication_factor <= 0:
        raise TopicError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor {requested.replication_factor} is not positive, nor -1 for the default.",
        )
    if requested.num_partitions != USE_DEFAULT and requested.num_partitions <= 0:
        raise TopicError(
            ErrorCode.INVALID_PARTITIONS,
            f"The number of partitions {requested.num_partitions} is not positive, nor -1 for the default.",
        )
    return _NewTopic(
        requested.name,
        settings.num_partitions if requested.num_partitions == USE_DEFAULT else requested.num_partitions,
        settings.default_replication_factor
        if requested.replication_factor == USE_DEFAULT
        else requested.replication_factor,
        [],
        configs,
    )


def _manual_replicas(controller: Controller, requested: CreatableTopic) -> list[Replicas]:
    """The replicas of each partition, by number."""
    if requested.num_partitions != USE_DEFAULT or requested.replication_factor != USE_DEFAULT:
        raise TopicError(
            ErrorCode.INVALID_REQUEST,
            "An assignment says how many partitions and replicas there are: give -1 for both beside it.",
        )
    manual_replicas: dict[int, Replicas] = {}
    replication_factor: int | None = None
    for assignment in requested.assignments:
        number = assignment.partition_index
        if number in manual_replicas:
            raise TopicError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {number} is assigned more than once."
            )
        manual_replicas[number] = validate_assignment(
            controller, number, assignment.broker_ids, replication_factor
        )
        replication_factor = len(manual_replicas[number])
    missing = next((number for number in range(len(manual_replicas)) if number not in manual_replicas), None)
    if missing is not None:
        raise TopicError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Partitions are numbered from 0 without gaps, and partition {missing} is not assigned.",
        )
    return [manual_replicas[number] for number in range(len(manual_replicas))]


def _records(controller: Controller, topic_id: KafkaUuid, new: _NewTopic) -> list[Message]:
    numbers = range(new.partitions)
    replicas = new.manual_replicas or place_replicas(controller, topic_id, numbers, new.replication_factor)
    return [
        TopicRecord(new.name, topic_id),
        *new.configs,
        *partition_records(controller, topic_id, zip(numbers, replicas, strict=True)),
    ]


def _result(
    image: ClusterImage, new: _NewTopic, topic_id: KafkaUuid, cached_configs: _SharedConfigs
) -> CreatableTopicResult:
    """`shared`: configs by those that a topic has of its own, for other topics of the request with the same."""
    own = {config.name: config.value for config in new.configs if config.value is not None}
    key = tuple(own.items())
    configs = cached_configs.get(key)
    if configs is None:
        configs = cached_configs[key] = [
            CreatableTopicConfigs(
                config.name, config.values[0].value, False, int(config.values[0].source), False
            )
            for config in effective_topic_configs(image, own)
        ]
    return CreatableTopicResult(
        new.name, topic_id, 0, None, 0, new.partitions, new.replication_factor, configs
    )
