"""The ACL operations that requests to any node require, as rules that check a request before its handler runs.

See `quorumd.broker.api.rights`. Operations and errors are as in Kafka's controllers, except that a listener here
also serves APIs of brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from quorumd.broker.api import rights
from quorumd.broker.api.group_rights import DENIED_GROUP
from quorumd.broker.api.rights import DENIED_TOPIC, Check, Extend, Rule, Ruling, Steps
from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID, KafkaUuid
from quorumd.node.api.error_responses import APIS_WITH_ERROR_RESPONSE, error_response
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.endpoint_type import EndpointType
from quorumd.protocol.messages import (
    alter_configs_request,
    alter_configs_response,
    create_partitions_response,
    create_topics_response,
    delete_topics_response,
    describe_configs_request,
    describe_configs_response,
    incremental_alter_configs_request,
    incremental_alter_configs_response,
)
from quorumd.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from quorumd.protocol.messages.create_partitions_request import CreatePartitionsRequest
from quorumd.protocol.messages.create_topics_request import CreateTopicsRequest
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.wire import Message
from quorumd.security.acls import CLUSTER_NAME, Operation, ResourceType
from quorumd.security.authorizer import AuthorizerNotReady

N = TypeVar(
    "N", create_topics_response.CreatableTopicResult, create_partitions_response.CreatePartitionsTopicResult
)

DENIED_CLUSTER: Final = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def requires(operation: Operation) -> Callable[[Check[Message]], Ruling]:
    """The rule of an API that requires one operation on the cluster."""

    def rule(check: Check[Message]) -> Ruling:
        if check.access.allows_cluster(operation):
            return None
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if check.request.api_key in APIS_WITH_ERROR_RESPONSE:
            return error_response(check.request, error)
        return check.top_level(error)

    return rule


def create_topics(check: Check[CreateTopicsRequest]) -> Ruling:
    """CREATE on the cluster or on the topics; DESCRIBE_CONFIGS on a topic to see its configs in the response."""
    message, access, wire = check.message, check.access, create_topics_response
    added: list[create_topics_response.CreatableTopicResult] = []
    names = {topic.name for topic in message.topics}
    if not access.allows_cluster(Operation.CREATE, logs_denied=False):
        allowed = access.allowed(Operation.CREATE, ResourceType.TOPIC, names)
        refused = names - allowed
        added = [
            wire.CreatableTopicResult(name, ZERO_UUID, DENIED_TOPIC, "Authorization failed.")
            for name in sorted(refused)
        ]
        message.topics = [topic for topic in message.topics if topic.name in allowed]
        names = allowed
    described = access.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, names, logs_denied=False)
    if not added and len(described) == len(names):
        return None

    def hook(response: create_topics_response.CreateTopicsResponse) -> None:
        for topic in response.topics:
            if not topic.error_code and topic.name not in described:
                topic.topic_config_error_code = DENIED_TOPIC
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = None
        _add_missing(response.topics, added)

    return Extend(hook, not message.topics)


def _add_missing(items: list[N], added: list[N]) -> None:
    """Add the results of refused items, unless another node has already refused them."""
    present = {item.name for item in items}
    items.extend(item for item in added if item.name not in present)


def delete_topics(check: Check[DeleteTopicsRequest]) -> Ruling:
    """DELETE on the cluster or on the topics; without DESCRIBE the response does not reveal that a topic exists."""
    message, access, wire = check.message, check.access, delete_topics_response
    if access.allows_cluster(Operation.DELETE, logs_denied=False):
        return None
    added: list[delete_topics_response.DeletableTopicResult] = []

    def is_allowed(name: str | None, topic_id: KafkaUuid) -> bool:
        known = _topic_name(check.image, name, topic_id)
        if known is None:
            return True
        is_visible = access.allows(Operation.DESCRIBE, ResourceType.TOPIC, known)
        if is_visible and known not in check.image.topic_ids:
            return True
        if is_visible and access.allows(Operation.DELETE, ResourceType.TOPIC, known):
            return True
        shown = known if is_visible or topic_id == ZERO_UUID else None
        added.append(wire.DeletableTopicResult(shown, topic_id, DENIED_TOPIC, "Authorization failed."))
        return False

    message.topics = [topic for topic in message.topics if is_allowed(topic.name, topic.topic_id)]
    message.topic_names = [name for name in message.topic_names if is_allowed(name, ZERO_UUID)]
    if not added:
        return None

    def hook(response: delete_topics_response.DeleteTopicsResponse) -> None:
        present = {(item.name, item.topic_id) for item in response.responses}
        response.responses.extend(item for item in added if (item.name, item.topic_id) not in present)

    return Extend(hook, not message.topics and not message.topic_names)


def _topic_name(image: ClusterImage, name: str | None, topic_id: KafkaUuid) -> str | None:
    if topic_id == ZERO_UUID:
        return name or ""
    topic = image.topics.get(topic_id)
    return topic.name if topic is not None else None


def create_partitions(check: Check[CreatePartitionsRequest]) -> Ruling:
    """ALTER on the topics."""
    message, wire = check.message, create_partitions_response
    kept, refused = check.split(message.topics, Operation.ALTER)
    if not refused:
        return None
    message.topics = kept
    names = dict.fromkeys(topic.name for topic in refused)
    added = [wire.CreatePartitionsTopicResult(name, DENIED_TOPIC, "Authorization failed.") for name in names]
    return Extend(lambda response: _add_missing(response.results, added), not kept)


ConfigResource = (
    alter_configs_request.AlterConfigsResource
    | incremental_alter_configs_request.AlterConfigsResource
    | describe_configs_request.DescribeConfigsResource
)
ConfigResult = (
    alter_configs_response.AlterConfigsResourceResponse
    | incremental_alter_configs_response.AlterConfigsResourceResponse
    | describe_configs_response.DescribeConfigsResult
)
_CONFIG_RESOURCES: Final = {
    ConfigResourceType.TOPIC: (ResourceType.TOPIC, DENIED_TOPIC),
    ConfigResourceType.GROUP: (ResourceType.GROUP, DENIED_GROUP),
}


def _split_resources(check: Check[Any], operation: Operation) -> list[tuple[ConfigResource, int]]:
    """Remove the resources whose configs the client must not access; return them with their errors."""
    kept: list[ConfigResource] = []
    refused: list[tuple[ConfigResource, int]] = []
    for resource in check.message.resources:
        kind, error = _CONFIG_RESOURCES.get(resource.resource_type, (ResourceType.CLUSTER, DENIED_CLUSTER))
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else resource.resource_name
        if check.access.allows(operation, kind, name):
            kept.append(resource)
        else:
            refused.append((resource, error))
    check.message.resources = kept
    return refused


def _resource_rule(
    operation: Operation, field: str, refuse: Callable[[int, str, int, str], ConfigResult]
) -> Rule:
    """The rule of a configs API: the operation on each resource; on the cluster for configs of brokers and
    clients."""

    def rule(check: Check[Any]) -> Ruling:
        added = [
            refuse(error, "Authorization failed.", resource.resource_type, resource.resource_name)
            for resource, error in _split_resources(check, operation)
        ]
        if not added:
            return None

        def hook(response: Message) -> None:
            results = getattr(response, field)
            present = {(item.resource_type, item.resource_name) for item in results}
            results.extend(item for item in added if (item.resource_type, item.resource_name) not in present)

        return Extend(hook, not check.message.resources)

    return rule


def describe_cluster(check: Check[DescribeClusterRequest]) -> Ruling:
    """ALTER on the cluster to describe controllers, as in Kafka; no operation to describe brokers."""
    if check.message.endpoint_type == EndpointType.CONTROLLER:
        refused = _ALTER(check)
        if refused is not None:
            return refused
    return rights.describe_cluster(check)


def metadata(check: Check[MetadataRequest]) -> Ruling | Steps:
    """The rule of brokers, except that nodes of the cluster may request the metadata log, to find the leader."""
    requested = check.message.topics
    if requested and all(
        topic.name == METADATA_TOPIC or topic.topic_id == METADATA_TOPIC_ID for topic in requested
    ):
        if check.is_cluster_member:
            return None
        for topic in requested:
            topic.name = METADATA_TOPIC
            topic.topic_id = ZERO_UUID
    return rights.metadata_without_creation(check)


def create_delegation_token(check: Check[CreateDelegationTokenRequest]) -> Ruling:
    """CREATE_TOKENS on the owner of the token, unless the requester is the owner."""
    message, access = check.message, check.access
    owner = f"{message.owner_principal_type}:{message.owner_principal_name}"
    if not message.owner_principal_name or owner == access.client.principal:
        return None
    if access.allows(Operation.CREATE_TOKENS, ResourceType.USER, owner):
        return None
    return check.top_level(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


def unrestricted(check: Check[Message]) -> Ruling:
    """No operation: the handler itself decides what the client may see or change."""
    del check
    return None


def checked_by_handler(check: Check[Message]) -> Ruling:
    """No operation, once the ACLs are loaded: the handler checks those on the resources that it describes."""
    if not check.access.is_ready:
        raise AuthorizerNotReady
    return None


_ALTER: Final = requires(Operation.ALTER)
_CLUSTER_ACTION: Final = requires(Operation.CLUSTER_ACTION)
_DESCRIBE: Final = requires(Operation.DESCRIBE)

NODE_RULES: Final[Mapping[int, Rule]] = {
    **dict.fromkeys((ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE), unrestricted),
    ApiKey.METADATA: metadata,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.ALTER_CONFIGS: _resource_rule(
        Operation.ALTER_CONFIGS, "responses", alter_configs_response.AlterConfigsResourceResponse
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _resource_rule(
        Operation.ALTER_CONFIGS, "responses", incremental_alter_configs_response.AlterConfigsResourceResponse
    ),
    ApiKey.DESCRIBE_CONFIGS: _resource_rule(
        Operation.DESCRIBE_CONFIGS, "results", describe_configs_response.DescribeConfigsResult
    ),
    **dict.fromkeys(
        (
            ApiKey.FETCH,
            ApiKey.FETCH_SNAPSHOT,
            ApiKey.VOTE,
            ApiKey.BEGIN_QUORUM_EPOCH,
            ApiKey.END_QUORUM_EPOCH,
            ApiKey.UPDATE_RAFT_VOTER,
            ApiKey.ENVELOPE,
            ApiKey.BROKER_REGISTRATION,
            ApiKey.BROKER_HEARTBEAT,
            ApiKey.ALTER_PARTITION,
            ApiKey.ALLOCATE_PRODUCER_IDS,
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
            ApiKey.CONTROLLER_REGISTRATION,
            ApiKey.FETCH_QUORUM_RECORDS,
            ApiKey.DISCOVER_BROKERS,
        ),
        _CLUSTER_ACTION,
    ),
    **dict.fromkeys(
        (
            ApiKey.ELECT_LEADERS,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            ApiKey.UPDATE_FEATURES,
            ApiKey.UNREGISTER_BROKER,
            ApiKey.UNREGISTER_CONTROLLER,
            ApiKey.ADD_RAFT_VOTER,
            ApiKey.REMOVE_RAFT_VOTER,
            ApiKey.ALTER_QUORUM,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ),
        _ALTER,
    ),
    **dict.fromkeys(
        (
            ApiKey.DESCRIBE_QUORUM,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ApiKey.DESCRIBE_NODE,
            ApiKey.DESCRIBE_ACLS,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ),
        _DESCRIBE,
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: requires(Operation.ALTER_CONFIGS),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: requires(Operation.DESCRIBE_CONFIGS),
    ApiKey.LIST_CONFIG_RESOURCES: requires(Operation.DESCRIBE_CONFIGS),
    ApiKey.CREATE_DELEGATION_TOKEN: create_delegation_token,
    **dict.fromkeys(
        (ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN),
        unrestricted,
    ),
    **dict.fromkeys(
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.DESCRIBE_DELEGATION_TOKEN),
        checked_by_handler,
    ),
}
"""The rules by API key, one for each API of a node."""
