"""Builds error responses: each API has its own error fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from quorumd.controller.features import MAX_UPDATES
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID
from quorumd.node.api import voter_messages
from quorumd.node.statistics import NodeStatistics
from quorumd.node.wire.quorum_messages import error_topics
from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import (
    alter_client_quotas_response,
    alter_configs_response,
    alter_partition_reassignments_response,
    alter_user_scram_credentials_response,
    create_acls_response,
    create_partitions_response,
    create_topics_response,
    delete_acls_response,
    delete_topics_response,
    describe_configs_response,
    describe_quorum_response,
    elect_leaders_response,
    incremental_alter_configs_response,
    update_features_response,
)
from quorumd.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from quorumd.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from quorumd.protocol.messages.alter_configs_request import AlterConfigsRequest
from quorumd.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from quorumd.protocol.messages.alter_quorum_request import AlterQuorumRequest
from quorumd.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from quorumd.protocol.messages.create_acls_request import CreateAclsRequest
from quorumd.protocol.messages.create_partitions_request import CreatePartitionsRequest
from quorumd.protocol.messages.create_topics_request import CreateTopicsRequest
from quorumd.protocol.messages.delete_acls_request import DeleteAclsRequest
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest
from quorumd.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from quorumd.protocol.messages.elect_leaders_request import ElectLeadersRequest
from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.protocol.messages.update_features_request import UpdateFeaturesRequest
from quorumd.protocol.response_errors import top_level_error
from quorumd.protocol.wire import Message

M = TypeVar("M", bound=Message)
R = TypeVar("R")
Builder = Callable[[Request[Message], ErrorCode], Message]

ERROR_MESSAGES = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This node is not the leader of the quorum; retry the request.",
    ErrorCode.NOT_CONTROLLER: "This node is not the leader of the quorum; retry the request.",
    ErrorCode.REQUEST_TIMED_OUT: "The leader did not respond in time; the change may or may not have been made.",
    ErrorCode.UNSUPPORTED_VERSION: (
        "The leader of the quorum does not accept this request from other nodes; it may be a stock controller. Send "
        "the request to the leader, which `quorumd quorum describe` names, or make another node the leader."
    ),
    ErrorCode.KAFKA_STORAGE_ERROR: "The disk of the leader is full.",
    ErrorCode.POLICY_VIOLATION: "The changes exceed one batch of the metadata log; split the request.",
}


def error_response(request: Request[Message], error: ErrorCode) -> Message:
    """The response with the error in every error field of the request's API."""
    return _BUILDERS[request.api_key](request, error)


def counted_error_responses(statistics: NodeStatistics) -> Callable[[Request[Message], ErrorCode], Message]:
    """Return `error_response` with every error counted."""

    def respond(request: Request[Message], error: ErrorCode) -> Message:
        statistics.count_error(request.api_key, int(error))
        return error_response(request, error)

    return respond


def error_message(error: ErrorCode) -> str:
    """The error message for an error code."""
    return ERROR_MESSAGES.get(error, ErrorCode.describe(error))


def _describe_quorum(request: Request[DescribeQuorumRequest], error: ErrorCode) -> Message:
    message = request.message
    wire = describe_quorum_response
    return wire.DescribeQuorumResponse(int(error), None, error_topics(wire, message.topics, error))


def _describe_configs(request: Request[DescribeConfigsRequest], error: ErrorCode) -> Message:
    message = request.message
    wire = describe_configs_response
    return wire.DescribeConfigsResponse(
        0,
        [
            wire.DescribeConfigsResult(int(error), error_message(error), r.resource_type, r.resource_name)
            for r in message.resources
        ],
    )


def _incremental_alter_configs(request: Request[IncrementalAlterConfigsRequest], error: ErrorCode) -> Message:
    wire = incremental_alter_configs_response
    return wire.IncrementalAlterConfigsResponse(
        0, _resources(request, error, wire.AlterConfigsResourceResponse)
    )


def _alter_configs(request: Request[AlterConfigsRequest], error: ErrorCode) -> Message:
    wire = alter_configs_response
    return wire.AlterConfigsResponse(0, _resources(request, error, wire.AlterConfigsResourceResponse))


def _alter_quorum(request: Request[AlterQuorumRequest], error: ErrorCode) -> Message:
    message = request.message
    return voter_messages.alter_quorum_response_of(message, error, error_message(error))


def _add_raft_voter(request: Request[AddRaftVoterRequest], error: ErrorCode) -> Message:
    del request
    return voter_messages.add_voter_response(error, error_message(error))


def _remove_raft_voter(request: Request[RemoveRaftVoterRequest], error: ErrorCode) -> Message:
    del request
    return voter_messages.remove_voter_response(error, error_message(error))


def _top_level_error(request: Request[Message], error: ErrorCode) -> Message:
    """Set the top-level error of the response."""
    return top_level_error(request.api_key, error, error_message(error))


def _create_topics(request: Request[CreateTopicsRequest], error: ErrorCode) -> Message:
    message = request.message
    wire = create_topics_response
    return wire.CreateTopicsResponse(
        0,
        [
            wire.CreatableTopicResult(topic.name, ZERO_UUID, int(error), error_message(error))
            for topic in message.topics
        ],
    )


def _delete_topics(request: Request[DeleteTopicsRequest], error: ErrorCode) -> Message:
    message = request.message
    named = [(topic.name, topic.topic_id) for topic in message.topics]
    named += [(name, ZERO_UUID) for name in message.topic_names]
    wire = delete_topics_response
    return wire.DeleteTopicsResponse(
        0,
        [
            wire.DeletableTopicResult(name, topic_id, int(error), error_message(error))
            for name, topic_id in named
        ],
    )


def _create_partitions(request: Request[CreatePartitionsRequest], error: ErrorCode) -> Message:
    message = request.message
    wire = create_partitions_response
    return wire.CreatePartitionsResponse(
        0,
        [
            wire.CreatePartitionsTopicResult(topic.name, int(error), error_message(error))
            for topic in message.topics
        ],
    )


def _elect_leaders(request: Request[ElectLeadersRequest], error: ErrorCode) -> Message:
    """Version 0 has no top-level error."""
    message = request.message
    wire = elect_leaders_response
    results = [
        wire.ReplicaElectionResult(
            topic.topic,
            [wire.PartitionResult(number, int(error), error_message(error)) for number in topic.partitions],
        )
        for topic in message.topic_partitions or ()
    ]
    return wire.ElectLeadersResponse(0, int(error) if request.api_version else 0, results)


def _alter_partition_reassignments(
    request: Request[AlterPartitionReassignmentsRequest], error: ErrorCode
) -> Message:
    message = request.message
    wire = alter_partition_reassignments_response
    responses = [
        wire.ReassignableTopicResponse(
            topic.name,
            [
                wire.ReassignablePartitionResponse(
                    partition.partition_index, int(error), error_message(error)
                )
                for partition in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return wire.AlterPartitionReassignmentsResponse(0, True, int(error), error_message(error), responses)


def _update_features(request: Request[UpdateFeaturesRequest], error: ErrorCode) -> Message:
    message = request.message
    wire = update_features_response
    results = [
        wire.UpdatableFeatureResult(update.feature, int(error), error_message(error))
        for update in (message.feature_updates if len(message.feature_updates) <= MAX_UPDATES else ())
    ]
    return wire.UpdateFeaturesResponse(0, int(error), error_message(error), results)


def _create_acls(request: Request[CreateAclsRequest], error: ErrorCode) -> Message:
    wire = create_acls_response
    results = [wire.AclCreationResult(int(error), error_message(error)) for _ in request.message.creations]
    return wire.CreateAclsResponse(0, results)


def _delete_acls(request: Request[DeleteAclsRequest], error: ErrorCode) -> Message:
    wire = delete_acls_response
    results = [wire.DeleteAclsFilterResult(int(error), error_message(error)) for _ in request.message.filters]
    return wire.DeleteAclsResponse(0, results)


def _alter_client_quotas(request: Request[AlterClientQuotasRequest], error: ErrorCode) -> Message:
    wire = alter_client_quotas_response
    results = [
        wire.EntryData(
            int(error),
            error_message(error),
            [wire.EntityData(part.entity_type, part.entity_name) for part in entry.entity],
        )
        for entry in request.message.entries
    ]
    return wire.AlterClientQuotasResponse(0, results)


def _alter_scram(request: Request[AlterUserScramCredentialsRequest], error: ErrorCode) -> Message:
    wire = alter_user_scram_credentials_response
    message = request.message
    names = [*(each.name for each in message.deletions), *(each.name for each in message.upsertions)]
    results = [
        wire.AlterUserScramCredentialsResult(name, int(error), error_message(error))
        for name in dict.fromkeys(names)
    ]
    return wire.AlterUserScramCredentialsResponse(0, results)


def _resources(
    request: Request[IncrementalAlterConfigsRequest | AlterConfigsRequest],
    error: ErrorCode,
    response: Callable[[int, str, int, str], R],
) -> list[R]:
    message = request.message
    return [
        response(int(error), error_message(error), r.resource_type, r.resource_name)
        for r in message.resources
    ]


def _builder(
    request_class: type[M], build: Callable[[Request[M], ErrorCode], Message]
) -> tuple[int, Builder]:
    assert request_class.API_KEY is not None
    return request_class.API_KEY, cast("Builder", build)


_TOP_LEVEL_APIS = (
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ALTER_PARTITION,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.UNREGISTER_CONTROLLER,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
)
_BUILDERS = dict(
    (
        _builder(DescribeQuorumRequest, _describe_quorum),
        _builder(DescribeConfigsRequest, _describe_configs),
        _builder(IncrementalAlterConfigsRequest, _incremental_alter_configs),
        _builder(AlterConfigsRequest, _alter_configs),
        _builder(AlterQuorumRequest, _alter_quorum),
        _builder(AddRaftVoterRequest, _add_raft_voter),
        _builder(RemoveRaftVoterRequest, _remove_raft_voter),
        _builder(CreateTopicsRequest, _create_topics),
        _builder(DeleteTopicsRequest, _delete_topics),
        _builder(CreatePartitionsRequest, _create_partitions),
        _builder(ElectLeadersRequest, _elect_leaders),
        _builder(AlterPartitionReassignmentsRequest, _alter_partition_reassignments),
        _builder(UpdateFeaturesRequest, _update_features),
        _builder(CreateAclsRequest, _create_acls),
        _builder(DeleteAclsRequest, _delete_acls),
        _builder(AlterClientQuotasRequest, _alter_client_quotas),
        _builder(AlterUserScramCredentialsRequest, _alter_scram),
        *((key, _top_level_error) for key in _TOP_LEVEL_APIS),
    )
)

APIS_WITH_ERROR_RESPONSE = frozenset(_BUILDERS)
"""The APIs that `error_response` supports."""

ENVELOPE_APIS = frozenset({key for key in _BUILDERS if APIS[key].forwardable} | {ApiKey.DESCRIBE_CONFIGS})
"""The APIs that a leader accepts in an Envelope. Stock nodes do not forward DescribeConfigs, quorumd nodes do."""
STOCK_ENVELOPE_APIS = ENVELOPE_APIS - {ApiKey.DESCRIBE_CONFIGS}
"""The APIs that a stock leader accepts in an Envelope."""
