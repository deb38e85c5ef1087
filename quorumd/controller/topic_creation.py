"""CreateTopics (KIP-4, KIP-525).

A topic is added to the image with all its partitions in one step; the slow part is prepared before, in slices
(`preparation`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.config_requests import MAX_CONFIGS
from quorumd.controller.config_values import quoted
from quorumd.controller.configs import ConfigOperation, plan_operations
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.effective_configs import effective_topic_configs
from quorumd.controller.new_partitions import (
    MAX_PARTITIONS_PER_REQUEST,
    TOPIC_BYTES,
    ManualAssignments,
    free_space_for,
    partition_records,
    placement_of,
    take_quota,
    too_large,
    too_many_partitions,
)
from quorumd.controller.partition import Replicas
from quorumd.controller.preparation import PartitionsToPrepare, Preparation
from quorumd.controller.prepared_partitions import PreparedPartitions
from quorumd.controller.request_context import NO_CONTEXT, RequestContext
from quorumd.controller.topic_names import has_collision_chars, invalid_name_reason, normalized
from quorumd.errors import ErrorCode, RequestError
from quorumd.ids import METADATA_TOPIC, ZERO_UUID, KafkaUuid
from quorumd.protocol.config_resource_type import ConfigResourceType
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
    """A topic that is valid if there are enough brokers. `manual_replicas` is empty if the controller places the
    replicas."""

    name: str
    partitions: int
    replication_factor: int
    manual_replicas: list[Replicas]
    configs: list[ConfigRecord]

    @property
    def estimated_bytes(self) -> int:
        """Upper bound of the size of the records."""
        configs = sum(RECORD_FRAMING_BYTES + len(encode_record(config, 0)) for config in self.configs)
        return TOPIC_BYTES + configs + free_space_for(self.partitions, self.replication_factor)

    def replicas_of(self, controller: Controller, topic_id: KafkaUuid) -> Callable[[int], Replicas]:
        """Return the function that returns the replicas of a partition number. Raises RequestError."""
        if self.manual_replicas:
            return self.manual_replicas.__getitem__
        return placement_of(controller, topic_id, self.replication_factor).replicas_of


def requested_partitions(controller: Controller, requested: CreatableTopic) -> int:
    """Return the number of partitions of a topic in a request."""
    if requested.assignments:
        return len(requested.assignments)
    default = controller.settings.num_partitions
    return default if requested.num_partitions == USE_DEFAULT else max(0, requested.num_partitions)


def new_partitions(controller: Controller, requested: CreatableTopic) -> int:
    """Return the number of partitions that would be created for a topic, 0 if it exists."""
    if requested.name in controller.image.topic_ids:
        return 0
    return requested_partitions(controller, requested)


def total_requested_partitions(controller: Controller, message: CreateTopicsRequest) -> int:
    """Return the number of partitions that the request would create; topics named twice are rejected."""
    times = Counter(topic.name for topic in message.topics)
    return sum(new_partitions(controller, topic) for topic in message.topics if times[topic.name] == 1)


def prepare_topic(controller: Controller, message: CreateTopicsRequest) -> Preparation:
    """Return the preparation of the partitions of a request with one topic."""

    def to_prepare() -> PartitionsToPrepare | None:
        (outcome,) = _outcomes(controller, message).values()
        if isinstance(outcome, RequestError) or message.validate_only:
            return None
        if (
            outcome.partitions > MAX_PARTITIONS_PER_REQUEST
            or outcome.estimated_bytes > controller.settings.max_batch_bytes
        ):
            return None
        topic_id = controller.new_uuid()
        try:
            replicas_of = outcome.replicas_of(controller, topic_id)
        except RequestError:
            return None
        return PartitionsToPrepare(topic_id, range(outcome.partitions), replicas_of)

    return Preparation(controller, to_prepare)


def plan_create_topics(
    controller: Controller,
    message: CreateTopicsRequest,
    version: int,
    context: RequestContext = NO_CONTEXT,
) -> ControllerResult:
    """Plan each topic separately, with its configs and partitions; all valid ones form one atomic batch."""
    del version
    total, prepared = context.part.total, context.part.prepared
    outcomes = _outcomes(controller, message)
    estimated_bytes = sum(
        outcome.estimated_bytes for outcome in outcomes.values() if isinstance(outcome, _NewTopic)
    )
    count = total_requested_partitions(controller, message) if total is None else total
    limit = controller.settings.max_batch_bytes
    records: list[Message] = []
    results: list[CreatableTopicResult] = []
    cached_configs: _SharedConfigs = {}
    for name, outcome in outcomes.items():
        try:
            if isinstance(outcome, RequestError):
                raise outcome
            if count > MAX_PARTITIONS_PER_REQUEST:
                raise too_many_partitions(count)
            if estimated_bytes > limit:
                raise too_large(estimated_bytes, limit)
            topic_id = controller.new_uuid() if prepared is None else prepared.topic_id
            planned: list[Message] = []
            if message.validate_only:
                outcome.replicas_of(controller, topic_id)
            else:
                planned = _records(controller, topic_id, outcome, prepared)
            take_quota(context.quota, outcome.partitions)
            records += planned
            results.append(
                _result(
                    controller.image,
                    outcome,
                    ZERO_UUID if message.validate_only else topic_id,
                    cached_configs,
                )
            )
        except RequestError as error:
            results.append(
                CreatableTopicResult(name, ZERO_UUID, int(error.error), str(error.with_traceback(None)))
            )
    return ControllerResult(records, CreateTopicsResponse(0, results), prepared if records else None)


def _outcomes(controller: Controller, message: CreateTopicsRequest) -> dict[str, _NewTopic | RequestError]:
    """Return the topics or their errors by name, in the order of the request."""
    outcomes: dict[str, _NewTopic | RequestError] = {}
    names_with_collision_chars: dict[str, str] = {}
    for requested in message.topics:
        try:
            if requested.name in outcomes:
                raise RequestError(ErrorCode.INVALID_REQUEST, "Duplicate topic in the request.")
            _check_name(controller.image, requested.name, names_with_collision_chars)
            outcomes[requested.name] = _new_topic(controller, requested)
        except RequestError as error:
            outcomes[requested.name] = error.with_traceback(None)
    return outcomes


def _check_name(image: ClusterImage, name: str, in_request: dict[str, str]) -> None:
    """Check a name. `in_request`: earlier names in the request, by their unified name. Raises RequestError."""
    if name == METADATA_TOPIC:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{METADATA_TOPIC} is reserved for the metadata log.")
    problem = invalid_name_reason(name)
    if problem is not None:
        raise RequestError(ErrorCode.INVALID_TOPIC, problem)
    if name in image.topic_ids:
        raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic {name!r} already exists.")
    if has_collision_chars(name):
        other = image.names_with_collision_chars.get(normalized(name)) or in_request.setdefault(
            normalized(name), name
        )
        if other != name:
            raise RequestError(
                ErrorCode.INVALID_TOPIC,
                f"Topic {name!r} collides with topic {other!r}: metric names do not distinguish '.' and '_'.",
            )


def _new_topic(controller: Controller, requested: CreatableTopic) -> _NewTopic:
    if len(requested.configs) > MAX_CONFIGS:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"A topic may be created with at most {MAX_CONFIGS} configs."
        )
    null_configs = [config.name for config in requested.configs if config.value is None]
    if null_configs:
        raise RequestError(
            ErrorCode.INVALID_CONFIG,
            f"The config {quoted(null_configs[0])} is null; give a value, or omit the config for its default.",
        )
    operations = [(config.name, int(ConfigOperation.SET), config.value) for config in requested.configs]
    resource = (int(ConfigResourceType.TOPIC), requested.name)
    configs = plan_operations({}, resource, operations, controller.settings.remote_storage)
    if isinstance(configs, RequestError):
        raise RequestError(configs.error, configs.message)
    settings = controller.settings
    if requested.assignments:
        manual_replicas = _manual_replicas(controller, requested)
        return _NewTopic(
            requested.name, len(manual_replicas), len(manual_replicas[0]), manual_replicas, configs
        )
    if requested.replication_factor != USE_DEFAULT and requested.replication_factor <= 0:
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Invalid replication factor {requested.replication_factor}: it must be positive, or -1 for the default.",
        )
    if requested.num_partitions != USE_DEFAULT and requested.num_partitions <= 0:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"Invalid number of partitions {requested.num_partitions}: it must be positive, or -1 for the default.",
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
    """Return the replicas of each partition, in the order of their numbers. Raises RequestError."""
    if requested.num_partitions != USE_DEFAULT or requested.replication_factor != USE_DEFAULT:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            "A manual assignment requires the number of partitions and the replication factor to be -1.",
        )
    assignments = ManualAssignments(controller)
    manual_replicas: dict[int, Replicas] = {}
    replication_factor: int | None = None
    for assignment in requested.assignments:
        number = assignment.partition_index
        if number in manual_replicas:
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {number} is assigned more than once."
            )
        replicas = assignments.replicas(number, assignment.broker_ids, replication_factor)
        manual_replicas[number] = replicas
        replication_factor = len(replicas)
    missing = next((number for number in range(len(manual_replicas)) if number not in manual_replicas), None)
    if missing is not None:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Partition numbers must be consecutive from 0; partition {missing} has no assignment.",
        )
    return [manual_replicas[number] for number in range(len(manual_replicas))]


def _records(
    controller: Controller, topic_id: KafkaUuid, new: _NewTopic, prepared: PreparedPartitions | None
) -> list[Message]:
    """Return the records of a topic, without those of prepared partitions."""
    records: list[Message] = [TopicRecord(new.name, topic_id), *new.configs]
    if prepared is None:
        replicas_of = new.replicas_of(controller, topic_id)
        numbers = range(new.partitions)
        records += partition_records(
            controller, topic_id, ((number, replicas_of(number)) for number in numbers)
        )
    return records


def _result(
    image: ClusterImage, new: _NewTopic, topic_id: KafkaUuid, cached_configs: _SharedConfigs
) -> CreatableTopicResult:
    """Build the result of a topic. `cached_configs`: effective configs by a topic's own configs, shared by topics of
    the request with equal ones."""
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
