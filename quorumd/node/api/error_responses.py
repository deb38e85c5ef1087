"""How a request that could not be carried out is told so: each API has its own place for an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID
from quorumd.node.api import voter_messages
from quorumd.node.statistics import NodeStatistics
from quorumd.node.wire.quorum_messages import error_topics
from quorumd.protocol.apis import APIS, ApiKey, response_class
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import (
    alter_configs_response,
    alter_partition_reassignments_response,
    create_partitions_response,
    create_topics_response,
    delete_topics_response,
    describe_configs_response,
    describe_quorum_response,
    elect_leaders_response,
    incremental_alter_configs_response,
    update_features_response,
)
from quorumd.protocol.wire import Message

MESSAGES = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This node is not the leader of the quorum, or is not any longer: try again.",
    ErrorCode.NOT_CONTROLLER: "This node is not the leader of the quorum, or is not any longer: try again.",
    ErrorCode.REQUEST_TIMED_OUT: "The leader did not answer in time; the change may or may not have been made.",
    ErrorCode.UNSUPPORTED_VERSION: (
        "The leader of the quorum, a stock controller perhaps, does not take this request from other nodes; "
        "`quorumd quorum describe` names it: send the request there, or have another node lead."
    ),
    ErrorCode.KAFKA_STORAGE_ERROR: "The leader has no room on its disk.",
    ErrorCode.POLICY_VIOLATION: "That is more than one batch of the metadata log can hold: ask for less at once.",
}


def error_response(request: Request, error: ErrorCode) -> Message:
    """The answer that says `error` in every place where this request's API has one."""
    return _BUILDERS[request.api_key](request, error)


def counted_error_responses(statistics: NodeStatistics) -> Callable[[Request, ErrorCode], Message]:
    """`error_response` that counts what it makes."""

    def respond(request: Request, error: ErrorCode) -> Message:
        statistics.count_error(request.api_key, int(error))
        return error_response(request, error)

    return respond


def message_of(error: ErrorCode) -> str:
    """A sentence for people."""
    return MESSAGES.get(error, ErrorCode.describe(error))


def _describe_quorum(request: Request, error: ErrorCode) -> Message:
    message: Any = request.message
    wire = describe_quorum_response
    return wire.DescribeQuorumResponse(int(error), None, error_topics(wire, message.topics, error))


def _describe_configs(request: Request, error: ErrorCode) -> Message:
    message: Any = request.message
    wire = describe_configs_response
    return wire.DescribeConfigsResponse(
        0,
        [
            wire.DescribeConfigsResult(int(error), message_of(error), r.resource_type, r.resource_name)
            for r in message.resources
        ],
    )


def _incremental_alter_configs(request: Request, error: ErrorCode) -> Message:
    wire = incremental_alter_configs_response
    return wire.IncrementalAlterConfigsResponse(
        0, _resources(request, error, wire.AlterConfigsResourceResponse)
    )


def _alter_configs(request: Request, error: ErrorCode) -> Message:
    wire = alter_configs_response
    return wire.AlterConfigsResponse(0, _resources(request, error, wire.AlterConfigsResourceResponse))


def _alter_quorum(request: Request, error: ErrorCode) -> Message:
    message: Any = request.message
    return voter_messages.alter_quorum_response_of(message, error, message_of(error))


def _add_raft_voter(request: Request, error: ErrorCode) -> Message:
    del request
    return voter_messages.add_voter_response(error, message_of(error))


def _remove_raft_voter(request: Request, error: ErrorCode) -> Message:
    del request
    return voter_messages.remove_voter_response(error, message_of(error))


def _top_level_error(request: Request, error: ErrorCode) -> Message:
    """APIs whose answer has one error for the whole request."""
    response: Any = response_class(request.api_key)()
    response.error_code = int(error)
    if hasattr(response, "error_message"):
        response.error_message = message_of(error)
    made: Message = response
    return made


def _create_topics(request: Request, error: ErrorCode) -> Message:
    message: Any = request.message
    wire = create_topics_response
    return wire.CreateTopicsResponse(
        0,
        [
            wire.CreatableTopicResult(topic.name, ZERO_UUID, int(error), message_of(error))
            for topic in message.topics
        ],
    )


def _delete_topics(request: Request, error: ErrorCode) -> Message:
    message: Any = request.message
    named = [(topic.name, topic.topic_id) for topic in message.topics]
    named += [(name, ZERO_UUID) for name in message.topic_names]
    wire = delete_topics_response
    return wire.DeleteTopicsResponse(
        0,
        [
            wire.DeletableTopicResult(name, topic_id, int(error), message_of(error))
            for name, topic_id in named
        ],
    )


def _create_partitions(request: Request, error: ErrorCode) -> Message:
    message: Any = request.message
    wire = create_partitions_response
    return wire.CreatePartitionsResponse(
        0,
        [
            wire.CreatePartitionsTopicResult(topic.name, int(error), message_of(error))
            for topic in message.topics
        ],
    )


def _elect_leaders(request: Request, error: ErrorCode) -> Message:
    """Version 0 has no place but the partitions."""
    message: Any = request.message
    wire = elect_leaders_response
    results = [
        wire.ReplicaElectionResult(
            topic.topic,
            [wire.PartitionResult(number, int(error), message_of(error)) for number in topic.partitions],
        )
        for topic in message.topic_partitions or ()
    ]
    return wire.ElectLeadersResponse(0, int(error) if request.api_version else 0, results)


def _alter_partition_reassignments(request: Request, error: ErrorCode) -> Message:
    message: Any = request.message
    wire = alter_partition_reassignments_response
    responses = [
        wire.ReassignableTopicResponse(
            topic.name,
            [
                wire.ReassignablePartitionResponse(partition.partition_index, int(error), message_of(error))
                for partition in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return wire.AlterPartitionReassignmentsResponse(0, True, int(error), message_of(error), responses)


def _update_features(request: Request, error: ErrorCode) -> Message:
    message: Any = request.message
    wire = update_features_response
    results = [
        wire.UpdatableFeatureResult(update.feature, int(error), message_of(error))
        for update in message.feature_updates
    ]
    return wire.UpdateFeaturesResponse(0, int(error), message_of(error), results)


def _resources(request: Request, error: ErrorCode, response: Callable[..., Any]) -> list[Any]:
    message: Any = request.message
    return [
        response(int(error), message_of(error), r.resource_type, r.resource_name) for r in message.resources
    ]


_BUILDERS: dict[int, Callable[[Request, ErrorCode], Message]] = {
    ApiKey.DESCRIBE_QUORUM: _describe_quorum,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.ALTER_QUORUM: _alter_quorum,
    ApiKey.ADD_RAFT_VOTER: _add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: _remove_raft_voter,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _top_level_error,
    ApiKey.ALTER_PARTITION: _top_level_error,
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.BROKER_REGISTRATION: _top_level_error,
    ApiKey.BROKER_HEARTBEAT: _top_level_error,
    ApiKey.UNREGISTER_BROKER: _top_level_error,
    ApiKey.CONTROLLER_REGISTRATION: _top_level_error,
    ApiKey.UNREGISTER_CONTROLLER: _top_level_error,
    ApiKey.ALLOCATE_PRODUCER_IDS: _top_level_error,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _top_level_error,
}

SUPPORTED = frozenset(_BUILDERS)
"""API keys of requests that `error_response` has an answer for."""

FORWARDABLE = frozenset({key for key in _BUILDERS if APIS[key].forwardable} | {ApiKey.DESCRIBE_CONFIGS})
"""API keys of requests that a leader takes out of an Envelope. DescribeConfigs is one between quorumd nodes."""
