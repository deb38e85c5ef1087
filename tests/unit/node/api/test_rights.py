"""Rights of requests to any node, and of requests to brokers: without rights nothing, with them everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from quorumd.broker.api.rights import Check, Extend, Rule, Ruling, metadata_without_creation
from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID, KafkaUuid
from quorumd.node.api.rights import NODE_RULES
from quorumd.node.broker.clients import BROKER_RULES
from quorumd.protocol.apis import APIS, BROKER_APIS, ApiKey, response_class
from quorumd.protocol.codec import encode
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages import create_topics_request as create
from quorumd.protocol.messages import delete_topics_request as delete
from quorumd.protocol.messages import describe_cluster_request as cluster
from quorumd.protocol.messages import metadata_request as metadata
from quorumd.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from quorumd.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from quorumd.protocol.messages.create_partitions_response import CreatePartitionsResponse
from quorumd.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.messages.describe_configs_response import DescribeConfigsResponse
from quorumd.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.security.acls import OPERATIONS, Acl, AclIndex, Operation, ResourceType
from quorumd.security.authorizer import Access, Authorizer, AuthorizerNotReady, AuthorizerSettings, Client
from tests.support.controller.requests import TOPIC_ID
from tests.support.node.sample_requests import full_request
from tests.support.security.rights import allow, check, on_cluster, ruling_of

TOPIC = ResourceType.TOPIC
IDS = {name: KafkaUuid(bytes(15) + bytes([number])) for number, name in enumerate("abc", 1)}
REFUSALS = {29, 30, 31, 53}
WITHOUT_RIGHTS = {ApiKey.API_VERSIONS, 17, 36}
"""ApiVersions and the two of SASL: what a client sends before it has a principal."""
FILTERED = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER}
"""APIs that respond to every client, with what it may see."""
PAGED = {ApiKey.DESCRIBE_TOPIC_PARTITIONS}
"""Requests for all topics name those of their page once their rights are checked."""
NODE_APIS = [
    (key, version)
    for key in NODE_RULES
    for version in range(APIS[key].min_version, APIS[key].max_version + 1)
]


@pytest.fixture
def image() -> ClusterImage:
    image = ClusterImage()
    for name, topic_id in {**IDS, "other": TOPIC_ID}.items():
        image.apply(TopicRecord(name, topic_id), [])
    return image


def finish(ruling: Ruling, response: Message) -> Any:
    """The response after a ruling about its request."""
    if isinstance(ruling, Extend):
        ruling.hook(response)
        return response
    return response if ruling is None else ruling


def test_every_api_has_its_rights() -> None:
    assert APIS.keys() - {*NODE_RULES, *BROKER_RULES} == set()
    assert BROKER_APIS - set(BROKER_RULES) == set()


@pytest.mark.parametrize(("key", "version"), NODE_APIS, ids=str)
def test_client_without_rights_is_refused(key: int, version: int, image: ClusterImage) -> None:
    checked = check(full_request(key, version), version, image=image)
    ruling = ruling_of(NODE_RULES[key], checked)
    response = finish(ruling, response_class(key)())
    encode(response, version)
    found = {error for error, _ in errors_in(response)}
    if key in FILTERED:
        assert found <= REFUSALS
        return
    assert not isinstance(ruling, Extend) or ruling.is_complete
    assert ruling is not None or not has_items(checked.message)
    assert found <= REFUSALS
    assert found or not has_items(checked.request.message)


def has_items(message: Any) -> bool:
    return any(getattr(message, name) for name in message.FIELDS if isinstance(getattr(message, name), list))


@pytest.mark.parametrize(("key", "version"), NODE_APIS, ids=str)
def test_client_with_all_rights_is_served(key: int, version: int, image: ClusterImage) -> None:
    everything = [Acl(kind, 3, "*", "User:alice", "*", Operation.ALL, 3) for kind in ResourceType]
    request = full_request(key, version)
    checked = check(request, version, everything, image)
    ruling = ruling_of(NODE_RULES[key], checked)
    assert ruling is None or isinstance(ruling, Extend)
    assert not isinstance(ruling, Extend) or not ruling.is_complete
    assert encode(checked.request.message, version) == encode(request, version)


CLUSTER_RIGHTS = {
    Operation.CLUSTER_ACTION: (
        *(
            ApiKey.FETCH,
            ApiKey.FETCH_SNAPSHOT,
            ApiKey.VOTE,
            ApiKey.BEGIN_QUORUM_EPOCH,
            ApiKey.END_QUORUM_EPOCH,
        ),
        *(ApiKey.UPDATE_RAFT_VOTER, ApiKey.ENVELOPE, ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT),
        *(ApiKey.ALTER_PARTITION, ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.ASSIGN_REPLICAS_TO_DIRS),
        *(ApiKey.CONTROLLER_REGISTRATION, ApiKey.FETCH_QUORUM_RECORDS, ApiKey.DISCOVER_BROKERS),
    ),
    Operation.ALTER: (
        *(ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.UPDATE_FEATURES),
        *(
            ApiKey.UNREGISTER_BROKER,
            ApiKey.UNREGISTER_CONTROLLER,
            ApiKey.ADD_RAFT_VOTER,
            ApiKey.REMOVE_RAFT_VOTER,
        ),
        *(ApiKey.ALTER_QUORUM, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS),
    ),
    Operation.DESCRIBE: (
        *(
            ApiKey.DESCRIBE_QUORUM,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ApiKey.DESCRIBE_NODE,
            ApiKey.DESCRIBE_ACLS,
        ),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ),
    Operation.ALTER_CONFIGS: (ApiKey.ALTER_CLIENT_QUOTAS,),
    Operation.DESCRIBE_CONFIGS: (ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.LIST_CONFIG_RESOURCES),
}
"""The operation on the cluster that each API needs, as in Kafka's ControllerApis and KafkaApis."""
IMPLIED = {
    Operation.DESCRIBE: {Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


@pytest.mark.parametrize(
    ("operation", "key"),
    [(operation, key) for operation, keys in CLUSTER_RIGHTS.items() for key in keys],
    ids=str,
)
def test_api_needs_the_operation_that_it_needs_in_kafka(operation: Operation, key: int) -> None:
    version = APIS[key].max_version
    for held in OPERATIONS[ResourceType.CLUSTER]:
        ruling = ruling_of(
            NODE_RULES[key], check(full_request(key, version), version, [on_cluster(Operation(held))])
        )
        assert (ruling is None) == (held == operation or held in IMPLIED.get(operation, set()))


@pytest.mark.parametrize("is_allowed", [False, True])
@pytest.mark.parametrize("key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
def test_configs_of_a_topic_are_changed_with_alter_configs(key: int, is_allowed: bool) -> None:
    version = APIS[key].max_version
    operation = Operation.ALTER_CONFIGS if is_allowed else Operation.ALTER
    message: Any = full_request(key, version)
    message.resources = message.resources[:1]
    message.resources[0].resource_type = ConfigResourceType.TOPIC
    name = message.resources[0].resource_name
    checked = check(message, version, [allow(operation, TOPIC, name)])
    ruling = ruling_of(NODE_RULES[key], checked)
    response: Any = finish(ruling, response_class(key)())
    assert [each.error_code for each in response.responses] == [] if is_allowed else [29]
    assert len(checked.message.resources) == is_allowed


@pytest.mark.parametrize(
    ("owner", "acls", "is_allowed"),
    [
        ("alice", [], True),
        ("bob", [], False),
        ("bob", [on_cluster(Operation.CREATE_TOKENS)], False),
        ("bob", [allow(Operation.CREATE_TOKENS, ResourceType.USER, "User:carol")], False),
        ("bob", [allow(Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")], True),
    ],
)
def test_token_of_another_owner_needs_create_tokens_on_the_owner(
    owner: str, acls: list[Acl], is_allowed: bool
) -> None:
    checked = check(CreateDelegationTokenRequest("User", owner, [], 0), 3, acls)
    refused: Any = ruling_of(NODE_RULES[ApiKey.CREATE_DELEGATION_TOKEN], checked)
    error = None if refused is None else refused.error_code
    assert error == (None if is_allowed else ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


@pytest.mark.parametrize("key", [ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.DESCRIBE_DELEGATION_TOKEN])
def test_handlers_that_check_rights_wait_for_the_acls(key: int) -> None:
    not_loaded = Authorizer(
        AuthorizerSettings(frozenset({"User:admin"})), AclIndex, lambda: False, lambda: 0.0
    )
    version = APIS[key].max_version
    request = check(full_request(key, version), version).request
    for principal in ("User:alice", "User:admin"):
        checked = Check(Access(not_loaded, Client(principal, "10.0.0.1", "API")), ClusterImage(), request)
        if principal == "User:admin":
            assert ruling_of(NODE_RULES[key], checked) is None
            continue
        with pytest.raises(AuthorizerNotReady):
            ruling_of(NODE_RULES[key], checked)


def create_request(*names: str) -> Message:
    return create.CreateTopicsRequest([create.CreatableTopic(name, 1, 1) for name in names])


def created(*names: str) -> Message:
    return CreateTopicsResponse(
        0, [CreatableTopicResult(name, ZERO_UUID, 0, None, 0, 3, 2, []) for name in names]
    )


def topic_errors(response: Any) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in response.topics}


def test_topics_are_created_with_create_on_the_topic_or_the_cluster() -> None:
    checked = check(create_request("a", "b"), 7, [allow(Operation.CREATE, TOPIC, "a")])
    ruling = ruling_of(NODE_RULES[ApiKey.CREATE_TOPICS], checked)
    assert [topic.name for topic in checked.message.topics] == ["a"]
    assert topic_errors(finish(ruling, created("a"))) == {"a": 0, "b": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    checked = check(create_request("a", "b"), 7, [on_cluster(Operation.CREATE)])
    ruling = ruling_of(NODE_RULES[ApiKey.CREATE_TOPICS], checked)
    assert topic_errors(finish(ruling, created("a", "b"))) == {"a": 0, "b": 0}


def test_refused_topics_are_not_added_twice() -> None:
    checked = check(create_request("a", "b"), 7, [allow(Operation.CREATE, TOPIC, "a")])
    response = created("a", "b")
    assert len(finish(ruling_of(NODE_RULES[ApiKey.CREATE_TOPICS], checked), response).topics) == 2


def test_configs_of_a_new_topic_need_describe_configs() -> None:
    acls = [on_cluster(Operation.CREATE), allow(Operation.DESCRIBE_CONFIGS, TOPIC, "a")]
    response = finish(
        ruling_of(NODE_RULES[ApiKey.CREATE_TOPICS], check(create_request("a", "b"), 7, acls)),
        created("a", "b"),
    )
    shown = {t.name: (t.topic_config_error_code, t.num_partitions, t.configs) for t in response.topics}
    assert shown == {"a": (0, 3, []), "b": (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, None)}


@pytest.mark.parametrize(
    ("acls", "kept", "errors"),
    [
        ([], [], {("a", ZERO_UUID), ("x", ZERO_UUID), (None, IDS["b"])}),
        ([on_cluster(Operation.DELETE)], ["a", "x", "b", "?"], set()),
        (
            [allow(Operation.DESCRIBE, TOPIC, name) for name in ("a", "b", "x")],
            ["x"],
            {("a", ZERO_UUID), ("b", IDS["b"])},
        ),
        ([allow(Operation.DELETE, TOPIC, name) for name in "ab"], ["a", "b"], {("x", ZERO_UUID)}),
    ],
)
def test_without_describe_a_topic_to_delete_does_not_exist(
    image: ClusterImage, acls: Iterable[Acl], kept: list[str], errors: set[object]
) -> None:
    unknown = KafkaUuid(bytes(15) + b"\x63")
    states = [
        delete.DeleteTopicState("a"),
        delete.DeleteTopicState("x"),
        delete.DeleteTopicState(None, IDS["b"]),
        delete.DeleteTopicState(None, unknown),
    ]
    checked = check(delete.DeleteTopicsRequest(states), 6, acls, image)
    response = finish(
        ruling_of(NODE_RULES[ApiKey.DELETE_TOPICS], checked), response_class(ApiKey.DELETE_TOPICS)()
    )
    names = {IDS["b"]: "b", unknown: "?"}
    left = [topic.name or names[topic.topic_id] for topic in checked.message.topics]
    assert [name for name in left if name != "?"] == [name for name in kept if name != "?"]
    assert {(item.name, item.topic_id) for item in response.responses} == errors
    assert all(item.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED for item in response.responses)


@pytest.mark.parametrize("names", ["", "a", "x", "ax"], ids=repr)
@pytest.mark.parametrize("version", [5, 6])
def test_topics_that_may_be_deleted_are_deleted_with_refused_ones(version: int, names: str) -> None:
    if version == 5:
        message = delete.DeleteTopicsRequest(topic_names=[*names, "x"])
    else:
        message = delete.DeleteTopicsRequest([delete.DeleteTopicState(name) for name in (*names, "x")])
    checked = check(message, version, [allow(Operation.DELETE, TOPIC, "a")])
    ruling = ruling_of(NODE_RULES[ApiKey.DELETE_TOPICS], checked)
    assert isinstance(ruling, Extend)
    assert ruling.is_complete == ("a" not in names)


def test_partitions_are_added_with_alter() -> None:
    topics = [CreatePartitionsTopic(name, 2) for name in "ab"]
    checked = check(CreatePartitionsRequest(topics), 3, [allow(Operation.ALTER, TOPIC, "a")])
    response = finish(ruling_of(NODE_RULES[ApiKey.CREATE_PARTITIONS], checked), CreatePartitionsResponse())
    assert [topic.name for topic in checked.message.topics] == ["a"]
    assert [(item.name, item.error_code) for item in response.results] == [("b", 29)]


def test_configs_need_the_right_to_their_resource() -> None:
    kinds = (2, 4, 8, 16, 32, 99)
    resources = [DescribeConfigsResource(kind, "a", None) for kind in kinds]
    message = DescribeConfigsRequest(resources)
    acls = [allow(Operation.DESCRIBE_CONFIGS, TOPIC, "a")]
    checked = check(message, 4, acls)
    response = finish(ruling_of(NODE_RULES[ApiKey.DESCRIBE_CONFIGS], checked), DescribeConfigsResponse())
    assert [each.resource_type for each in checked.message.resources] == [2]
    errors = {each.resource_type: each.error_code for each in response.results}
    assert errors == {4: 31, 8: 31, 16: 31, 32: 30, 99: 31}


def test_config_resources_are_listed_with_describe_configs_on_the_cluster() -> None:
    rule, message = NODE_RULES[ApiKey.LIST_CONFIG_RESOURCES], ListConfigResourcesRequest()
    refused: Any = rule(check(message, 1, [on_cluster(Operation.DESCRIBE)]))
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert ruling_of(rule, check(message, 1, [on_cluster(Operation.DESCRIBE_CONFIGS)])) is None


def test_controllers_are_described_with_alter_and_brokers_without_rights() -> None:
    rule = NODE_RULES[ApiKey.DESCRIBE_CLUSTER]
    assert ruling_of(rule, check(cluster.DescribeClusterRequest(False, 1), 1)) is None
    refused: Any = rule(check(cluster.DescribeClusterRequest(False, 2), 1))
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (
        ruling_of(rule, check(cluster.DescribeClusterRequest(False, 2), 1, [on_cluster(Operation.ALTER)]))
        is None
    )


@pytest.mark.parametrize("rules", [NODE_RULES, BROKER_RULES], ids=["node", "broker"])
def test_registrations_of_brokers_need_describe(rules: Mapping[int, Rule]) -> None:
    """They have the addresses of all listeners, that of the brokers among themselves too."""
    rule, message = rules[ApiKey.DESCRIBE_CLUSTER], cluster.DescribeClusterRequest(False, 1, True, True)
    refused: Any = ruling_of(rule, check(message, 2))
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert ruling_of(rule, check(message, 2, [on_cluster(Operation.DESCRIBE)])) is None


@pytest.mark.parametrize(("acls", "bits"), [([], 0), ([on_cluster(Operation.DESCRIBE)], 1 << 8)])
def test_authorized_operations_of_the_cluster_need_describe(acls: list[Acl], bits: int) -> None:
    rule = NODE_RULES[ApiKey.DESCRIBE_CLUSTER]
    ruling = rule(check(cluster.DescribeClusterRequest(True, 1), 1, acls))
    response = finish(ruling, response_class(ApiKey.DESCRIBE_CLUSTER)())
    assert response.cluster_authorized_operations == bits


def metadata_of(*names: str) -> metadata.MetadataRequest:
    return metadata.MetadataRequest([metadata.MetadataRequestTopic(name=name) for name in names], False)


def test_metadata_shows_topics_with_describe(image: ClusterImage) -> None:
    rule = NODE_RULES[ApiKey.METADATA]
    checked = check(metadata_of("a", "b", "x"), 12, [allow(Operation.READ, TOPIC, "a")], image)
    response = finish(ruling_of(rule, checked), MetadataResponse())
    assert [topic.name for topic in checked.message.topics] == ["a"]
    assert topic_errors(response) == {"b": 29, "x": 29}
    by_id = metadata.MetadataRequest([metadata.MetadataRequestTopic(IDS["b"], None)], False)
    (refused,) = finish(ruling_of(rule, check(by_id, 12, (), image)), MetadataResponse()).topics
    assert (refused.name, refused.topic_id, refused.error_code) == (None, IDS["b"], 29)


@pytest.mark.parametrize("version", [0, 1, 12])
def test_metadata_of_all_topics_hides_the_others(image: ClusterImage, version: int) -> None:
    message = metadata.MetadataRequest([] if version == 0 else None)
    checked = check(message, version, [allow(Operation.DESCRIBE, TOPIC, "a")], image)
    assert not finish(ruling_of(NODE_RULES[ApiKey.METADATA], checked), MetadataResponse()).topics
    assert [topic.name for topic in checked.message.topics] == ["a"]
    assert not checked.message.allow_auto_topic_creation
    hidden = check(message, version, (), image)
    response = MetadataResponse(topics=[], controller_id=3)
    assert finish(ruling_of(NODE_RULES[ApiKey.METADATA], hidden), response).topics == []


def test_metadata_creates_topics_with_create(image: ClusterImage) -> None:
    message = metadata_of("a", "x", "y")
    message.allow_auto_topic_creation = True
    acls = [allow(Operation.DESCRIBE, TOPIC, name) for name in ("a", "x", "y")]
    acls.append(allow(Operation.CREATE, TOPIC, "x"))
    checked = check(message, 12, acls, image)
    response = finish(ruling_of(BROKER_RULES[ApiKey.METADATA], checked), MetadataResponse())
    assert [topic.name for topic in checked.message.topics] == ["a", "x"]
    assert topic_errors(response) == {"y": 29}


@pytest.mark.parametrize("rule", [NODE_RULES[ApiKey.METADATA], metadata_without_creation])
def test_create_is_not_needed_where_no_topic_is_created(image: ClusterImage, rule: Rule) -> None:
    """The topic is unknown then, which producers retry; they do not retry missing rights."""
    message = metadata_of("x")
    message.allow_auto_topic_creation = True
    checked = check(message, 12, [allow(Operation.DESCRIBE, TOPIC, "x")], image)
    assert topic_errors(finish(ruling_of(rule, checked), MetadataResponse())) == {}
    assert [topic.name for topic in checked.message.topics] == ["x"]


def test_nodes_find_the_leader_with_the_metadata_log(image: ClusterImage) -> None:
    rule = NODE_RULES[ApiKey.METADATA]
    assert (
        ruling_of(rule, check(metadata_of(METADATA_TOPIC), 12, [on_cluster(Operation.CLUSTER_ACTION)], image))
        is None
    )
    response = finish(ruling_of(rule, check(metadata_of(METADATA_TOPIC), 12, (), image)), MetadataResponse())
    assert topic_errors(response) == {METADATA_TOPIC: 29}
    by_id = metadata.MetadataRequest([metadata.MetadataRequestTopic(METADATA_TOPIC_ID, None)], False)
    assert topic_errors(finish(ruling_of(rule, check(by_id, 12, (), image)), MetadataResponse())) == {
        METADATA_TOPIC: 29
    }


def test_authorized_operations_of_topics(image: ClusterImage) -> None:
    message = metadata_of("a")
    message.include_topic_authorized_operations = True
    checked = check(message, 12, [allow(Operation.READ, TOPIC, "a")], image)
    response = MetadataResponse(topics=[MetadataResponseTopic(0, "a")])
    (topic,) = finish(ruling_of(NODE_RULES[ApiKey.METADATA], checked), response).topics
    assert topic.topic_authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
