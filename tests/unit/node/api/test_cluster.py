from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quorumd.controller.broker import Broker, BrokerEndpoint
from quorumd.controller.partition import Partition, PartitionId, partition_record
from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, METADATA_TOPIC_ID, NO_NODE, ZERO_UUID, KafkaUuid
from quorumd.node.api.cluster import ClusterApis
from quorumd.node.api.forwarding import decode_response
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.protocol.connection import encode_response
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.messages.register_controller_record import ControllerEndpoint, RegisterControllerRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.controller.topic_harness import a_broker
from tests.support.node.api_harness import ApiHarness
from tests.support.node.parts import CLUSTER_ID
from tests.support.node.recording_session import request_of
from tests.support.node.scripted_image import ScriptedCommits, ScriptedImage


class ClusterApiHarness(ApiHarness):
    """Runs slices immediately, one after the other; responses wait while `is_behind`."""

    def __init__(self, cluster_id: str | None = CLUSTER_ID, slice_partitions: int = 1000) -> None:
        self.state = ScriptedImage()
        self.commits = ScriptedCommits(self.state)
        self._is_in_turn = False
        super().__init__(
            cluster_id=cluster_id,
            listener="CLIENTS",
            state_machine=self.state,
            committed_image=self.commits,
            scheduler=SliceScheduler(self._soon, slice_partitions),
        )
        self.context.gates.router.supported_versions.update({18: (0, 5), 3: (0, 13)})
        self.apis = ClusterApis(self.context)

    def _soon(self, turn: Callable[[], None]) -> None:
        self.turns.append(turn)
        while self.turns and not self._is_in_turn:
            self._is_in_turn = True
            self.turns.pop()()
            self._is_in_turn = False

    def all_topics(self, version: int = 12) -> list[Any]:
        request = MetadataRequest(None if version else [])
        self.apis.metadata(self.session, request_of(request, version))
        topics: list[Any] = self.session.responses[-1].topics
        return topics

    def metadata(self, *topics: MetadataRequestTopic, version: int = 13) -> Any:
        self.apis.metadata(self.session, request_of(MetadataRequest(list(topics)), version))
        return self.session.responses[-1]

    def describe(self, endpoint_type: int, version: int = 1, include_registrations: bool = False) -> Any:
        message = DescribeClusterRequest(False, endpoint_type, True, include_registrations)
        self.apis.describe_cluster(self.session, request_of(message, version))
        return self.session.responses[-1]

    def api_versions(self, version: int) -> Any:
        self.apis.api_versions(self.session, request_of(ApiVersionsRequest(), version))
        return self.session.responses[-1]


@pytest.fixture
def harness() -> ClusterApiHarness:
    return ClusterApiHarness()


def test_metadata_lists_all_nodes_as_brokers_and_the_leader_as_controller(harness: ClusterApiHarness) -> None:
    response = harness.metadata()
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [
        (n, f"host-{n}", 9092) for n in (1, 2, 3, 4)
    ]
    assert (response.controller_id, response.cluster_id, response.topics) == (1, CLUSTER_ID, [])


def test_endpoint_type_1_lists_all_nodes_and_type_2_the_voters(harness: ClusterApiHarness) -> None:
    brokers, controllers = harness.describe(1), harness.describe(2)
    assert [node.broker_id for node in brokers.brokers] == [1, 2, 3, 4]
    assert [node.broker_id for node in controllers.brokers] == [1, 2, 3]
    for response, endpoint_type in ((brokers, 1), (controllers, 2)):
        assert (response.error_code, response.endpoint_type) == (0, endpoint_type)
        assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)


def test_endpoint_type_2_includes_registered_controllers_with_this_listener(
    harness: ClusterApiHarness,
) -> None:
    """A voter at its registered address, an observer, and a node unknown to discovery."""
    harness.discovery.unreachable = (3,)
    for number, name in ((3, "CLIENTS"), (4, "CLIENTS"), (9, "CLIENTS"), (8, "OTHER")):
        endpoint = ControllerEndpoint(name, f"registered-{number}", 9093)
        record = RegisterControllerRecord(number, KafkaUuid(b"some incarnation"), False, [endpoint])
        harness.state.image.apply(record, [])
    reported = [(node.broker_id, node.host, node.port) for node in harness.describe(2).brokers]
    assert reported[:2] == [(1, "host-1", 9092), (2, "host-2", 9092)]
    assert reported[2:] == [(number, f"registered-{number}", 9093) for number in (3, 4, 9)]


def test_request_for_controllers_marks_the_session_as_controller_client(harness: ClusterApiHarness) -> None:
    harness.describe(1)
    assert not harness.session.origin.is_controller_client
    harness.describe(2)
    assert harness.session.origin.is_controller_client


@pytest.mark.parametrize("endpoint_type", [0, 3, -1])
def test_unknown_endpoint_type_is_rejected(harness: ClusterApiHarness, endpoint_type: int) -> None:
    response = harness.describe(endpoint_type)
    assert response.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    assert response.error_message


def test_unreachable_nodes_except_the_leader_are_omitted(harness: ClusterApiHarness) -> None:
    harness.discovery.unreachable = (1, 2)
    assert [node.broker_id for node in harness.describe(2).brokers] == [1, 3]
    assert [node.node_id for node in harness.metadata().brokers] == [1, 3, 4]


def test_leader_without_address_is_not_reported(harness: ClusterApiHarness) -> None:
    """Stock clients look the controller up in the list of brokers and fail if it is not there."""
    del harness.discovery.known[1]
    metadata = harness.metadata(MetadataRequestTopic(name=METADATA_TOPIC))
    assert metadata.topics[0].partitions[0].leader_id == NO_NODE
    assert harness.describe(2).controller_id == NO_NODE


@pytest.mark.parametrize("reason", ["unknown", "without address"])
def test_this_node_is_the_controller_of_broker_clients_without_a_leader(
    harness: ClusterApiHarness, reason: str
) -> None:
    """This node forwards requests; librdkafka waits forever if no controller is reported."""
    if reason == "unknown":
        harness.engine.leader_id = NO_NODE
    else:
        del harness.discovery.known[1]
    assert harness.metadata().controller_id == 2
    assert harness.describe(1).controller_id == 2
    assert harness.describe(2).controller_id == NO_NODE


def test_unreachable_leader_is_not_the_controller_of_broker_clients(
    harness: ClusterApiHarness,
) -> None:
    """librdkafka would wait for it; this node forwards requests to the next leader."""
    harness.discovery.unreachable = (1,)
    assert harness.metadata().controller_id == 2
    assert harness.describe(1).controller_id == 2
    assert harness.describe(2).controller_id == 1


def test_leader_removed_from_the_voters_is_listed_as_controller(harness: ClusterApiHarness) -> None:
    harness.engine.leader_id = 4
    response = harness.describe(2)
    assert response.controller_id == 4
    assert [node.broker_id for node in response.brokers] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "requested", [MetadataRequestTopic(name=METADATA_TOPIC), MetadataRequestTopic(METADATA_TOPIC_ID, None)]
)
def test_metadata_log_is_a_topic_led_by_the_quorum_leader(
    harness: ClusterApiHarness, requested: MetadataRequestTopic
) -> None:
    (topic,) = harness.metadata(requested).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (0, METADATA_TOPIC, METADATA_TOPIC_ID)
    assert topic.is_internal
    (partition,) = topic.partitions
    assert (partition.error_code, partition.partition_index) == (0, 0)
    assert (partition.leader_id, partition.leader_epoch) == (1, 4)
    assert partition.replica_nodes == partition.isr_nodes == [1, 2, 3]


def test_metadata_log_without_leader_reports_an_error(harness: ClusterApiHarness) -> None:
    harness.engine.leader_id = NO_NODE
    (topic,) = harness.metadata(MetadataRequestTopic(name=METADATA_TOPIC)).topics
    assert topic.partitions[0].leader_id == NO_NODE
    assert topic.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_unknown_topics_are_rejected(harness: ClusterApiHarness) -> None:
    other_id = KafkaUuid(bytes(15) + b"\x99")
    by_name, by_id = harness.metadata(
        MetadataRequestTopic(name="another"), MetadataRequestTopic(other_id, None)
    ).topics
    assert (by_name.error_code, by_name.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "another")
    assert (by_id.error_code, by_id.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, other_id)


def test_cluster_id_is_empty_before_the_cluster_is_founded() -> None:
    harness = ClusterApiHarness(cluster_id=None)
    assert harness.metadata().cluster_id is None
    assert harness.describe(1).cluster_id == ""


def add_topics(harness: ClusterApiHarness) -> None:
    """Add topics "a" and "b" with one partition each, led by broker 10; broker 11 is fenced."""
    image = harness.state.image
    image.brokers[10] = a_broker(10)._replace(
        endpoints=(BrokerEndpoint("FIRST", "ten", 1, 0), BrokerEndpoint("CLIENTS", "ten", 2, 0)), rack="r"
    )
    image.brokers[11] = a_broker(11, fenced=True)._replace(endpoints=image.brokers[10].endpoints)
    for name, topic_id in (("b", ID_OF_B), ("a", ID_OF_A)):
        image.apply(TopicRecord(name, topic_id), [])
        image.apply(partition_record(PartitionId(topic_id, 0), Partition((11, 10), (10,), 10, 7, 9)), [])


ID_OF_A, ID_OF_B = KafkaUuid(b"a" * 16), KafkaUuid(b"b" * 16)


@pytest.mark.parametrize("version", [0, 1, 12])
def test_all_topics_exclude_the_metadata_log(harness: ClusterApiHarness, version: int) -> None:
    """It is internal; stock Kafka does not list it either."""
    assert harness.all_topics(version) == []
    add_topics(harness)
    assert [topic.name for topic in harness.all_topics(version)] == ["a", "b"]


def test_empty_topic_list_returns_no_topics(harness: ClusterApiHarness) -> None:
    add_topics(harness)
    assert harness.metadata().topics == []


@pytest.mark.parametrize("requested", [MetadataRequestTopic(name="b"), MetadataRequestTopic(ID_OF_B, None)])
def test_topic_is_described_with_its_partitions(
    harness: ClusterApiHarness, requested: MetadataRequestTopic
) -> None:
    add_topics(harness)
    (topic,) = harness.metadata(requested).topics
    assert (topic.error_code, topic.name, topic.topic_id, topic.is_internal) == (0, "b", ID_OF_B, False)
    (partition,) = topic.partitions
    assert (partition.error_code, partition.partition_index) == (0, 0)
    assert (partition.leader_id, partition.leader_epoch) == (10, 7)
    assert (partition.replica_nodes, partition.isr_nodes) == ([11, 10], [10])
    assert partition.offline_replicas == [11]


def test_invalid_topic_name_is_rejected(harness: ClusterApiHarness) -> None:
    """Same error as in Kafka: librdkafka and the Java client do not retry it."""
    (topic,) = harness.metadata(MetadataRequestTopic(name="a b")).topics
    assert (topic.error_code, topic.name) == (ErrorCode.INVALID_TOPIC, "a b")


def test_unfenced_brokers_are_listed_with_their_endpoint_of_this_listener(
    harness: ClusterApiHarness,
) -> None:
    add_topics(harness)
    brokers = harness.metadata().brokers
    assert [(b.node_id, b.host, b.port, b.rack) for b in brokers[3:]] == [
        (4, "host-4", 9092, None),
        (10, "ten", 2, "r"),
    ]


def test_broker_with_the_id_of_a_quorum_node_is_listed_as_the_node(harness: ClusterApiHarness) -> None:
    harness.state.image.brokers[3] = a_broker(3)._replace(endpoints=(BrokerEndpoint("X", "three", 1, 0),))
    harness.state.image.brokers[5] = a_broker(5)
    brokers = harness.metadata().brokers
    assert [(b.node_id, b.host) for b in brokers if b.node_id >= 3] == [(3, "host-3"), (4, "host-4")]


def test_metadata_waits_for_the_commit(harness: ClusterApiHarness) -> None:
    add_topics(harness)
    harness.commits.is_behind = True
    for names in (None, [MetadataRequestTopic(name="a")]):
        harness.apis.metadata(harness.session, request_of(MetadataRequest(names), 13))
    assert harness.session.responses == []
    for outcome in harness.commits.waiting:
        outcome(True)
    assert [len(response.topics) for response in harness.session.responses] == [2, 1]


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("slice_partitions", [1, 5, 400])
def test_response_built_in_slices_equals_the_whole_response(version: int, slice_partitions: int) -> None:
    request = request_of(MetadataRequest(None if version else []), version)
    harnesses = ClusterApiHarness(), ClusterApiHarness(slice_partitions=slice_partitions)
    for harness in harnesses:
        add_topics(harness)
        for number in range(300):
            topic_id = KafkaUuid(number.to_bytes(16, "big"))
            harness.state.image.apply(TopicRecord(f"topic-{number}", topic_id), [])
            for partition in range(number % 3):
                where = PartitionId(topic_id, partition)
                harness.state.image.apply(partition_record(where, Partition((11, 10), (10,), 10, 7, 9)), [])
        harness.apis.metadata(harness.session, request)
    ((whole,), (in_slices,)) = (harness.session.responses for harness in harnesses)
    assert len(whole.topics) == 302
    assert in_slices == encode_response(request, whole)


def test_sliced_response_is_rebuilt_after_a_rollback() -> None:
    harness = ClusterApiHarness(slice_partitions=1)
    add_topics(harness)
    harness.commits.is_behind = True
    request = request_of(MetadataRequest(None), 12)
    harness.apis.metadata(harness.session, request)
    harness.state.image.apply(RemoveTopicRecord(ID_OF_A), [])
    harness.commits.is_behind = False
    for outcome in harness.commits.waiting:
        outcome(False)
    reported: Any = decode_response(request, harness.session.responses[0])
    assert [topic.name for topic in reported.topics] == ["b"]


def test_rolled_back_topics_are_not_reported(harness: ClusterApiHarness) -> None:
    add_topics(harness)
    harness.commits.is_behind = True
    harness.apis.metadata(harness.session, request_of(MetadataRequest([MetadataRequestTopic(name="a")]), 13))
    harness.state.image.apply(RemoveTopicRecord(ID_OF_A), [])
    harness.commits.is_behind = False
    harness.commits.waiting[0](False)
    assert harness.session.responses[0].topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_leader_lookup_does_not_wait_for_commits(harness: ClusterApiHarness) -> None:
    harness.commits.is_behind = True
    assert harness.metadata().controller_id == 1
    assert harness.metadata(MetadataRequestTopic(name=METADATA_TOPIC)).topics[0].name == METADATA_TOPIC


@pytest.mark.parametrize(
    ("version", "features"),
    [
        (3, ["metadata.version"]),
        (
            4,
            [
                "metadata.version",
                "eligible.leader.replicas.version",
                "group.version",
                "kraft.version",
                "share.version",
                "streams.version",
                "transaction.version",
            ],
        ),
    ],
)
def test_features_with_minimum_0_are_reported_since_v4(
    harness: ClusterApiHarness, version: int, features: list[str]
) -> None:
    """KAFKA-17492: older clients cannot parse them."""
    harness.state.image.apply(FeatureLevelRecord("metadata.version", 25), [])
    response = harness.api_versions(version)
    assert [feature.name for feature in response.supported_features] == features
    finalized = {f.name: (f.min_version_level, f.max_version_level) for f in response.finalized_features}
    assert finalized == {"metadata.version": (25, 25), "kraft.version": (1, 1)}
    assert response.finalized_features_epoch == 17


def test_disabled_features_are_not_finalized_and_none_is_duplicated(harness: ClusterApiHarness) -> None:
    """Clients fail on duplicates; kraft.version in a feature record has no effect."""
    for name, level in (("metadata.version", 25), ("group.version", 0), ("kraft.version", 0)):
        harness.state.image.apply(FeatureLevelRecord(name, level), [])
    reported = [(f.name, f.max_version_level) for f in harness.api_versions(4).finalized_features]
    assert reported == [("kraft.version", 1), ("metadata.version", 25)]
    harness.state.image.apply(FeatureLevelRecord("kraft.version", 1), [])
    assert [f.name for f in harness.api_versions(4).finalized_features] == [
        "kraft.version",
        "metadata.version",
    ]


def test_api_versions_lists_exactly_the_supported_apis(harness: ClusterApiHarness) -> None:
    for version in range(6):
        response = harness.api_versions(version)
        assert [(k.api_key, k.min_version, k.max_version) for k in response.api_keys] == [
            (3, 0, 13),
            (18, 0, 5),
        ]


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.NONE),
        (CLUSTER_ID, 1, ErrorCode.NONE),
        ("another", 7, ErrorCode.NONE),
        (CLUSTER_ID, -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_api_versions_checks_cluster_id_and_node_id_of_the_request(
    harness: ClusterApiHarness, cluster_id: str | None, node_id: int, error: ErrorCode
) -> None:
    """Both or neither must be set; only brokers compare their values (KIP-1242)."""
    message = ApiVersionsRequest("a", "1", cluster_id, node_id)
    harness.apis.api_versions(harness.session, request_of(message, 5))
    assert harness.session.responses[-1].error_code == error
    assert bool(harness.session.responses[-1].api_keys) == (error is ErrorCode.NONE)


def test_registered_brokers_are_not_listed_as_controllers(harness: ClusterApiHarness) -> None:
    broker = Broker(10, 7, ZERO_UUID, (BrokerEndpoint("B", "ten", 9092, 0),), (), None, False, False, ())
    harness.state.image.brokers[10] = broker
    assert [node.broker_id for node in harness.describe(1).brokers] == [1, 2, 3, 4, 10]
    assert [node.broker_id for node in harness.describe(2).brokers] == [1, 2, 3]
    assert harness.describe(1).brokers[-1].broker_epoch == -1
    assert harness.describe(1, include_registrations=True).brokers[-1].broker_epoch == 7


def test_brokers_wait_for_the_commit_and_the_leader_does_not(harness: ClusterApiHarness) -> None:
    broker = Broker(10, 7, ZERO_UUID, (BrokerEndpoint("B", "ten", 9092, 0),), (), None, False, False, ())
    harness.commits.is_behind = True
    harness.state.image.brokers[10] = broker
    harness.apis.describe_cluster(harness.session, request_of(DescribeClusterRequest(), 1))
    assert harness.session.responses == []
    assert harness.describe(2).controller_id == 1
    del harness.state.image.brokers[10]
    harness.commits.is_behind = False
    harness.commits.waiting.pop()(False)
    reported = harness.session.responses[-1]
    assert [node.broker_id for node in reported.brokers] == [1, 2, 3, 4], (
        "a rolled-back broker is not reported"
    )


@pytest.mark.parametrize("slice_partitions", [1, 1000])
def test_brokers_registered_after_the_last_slice_are_not_reported(slice_partitions: int) -> None:
    harness = ClusterApiHarness(slice_partitions=slice_partitions)
    add_topics(harness)
    harness.commits.is_behind = True
    request = request_of(MetadataRequest(None), 12)
    harness.apis.metadata(harness.session, request)
    harness.state.image.brokers[99] = a_broker(99)._replace(endpoints=(BrokerEndpoint("CLIENTS", "x", 1, 0),))
    for outcome in harness.commits.waiting:
        outcome(True)
    (response,) = harness.session.responses
    reported: Any = decode_response(request, response) if isinstance(response, bytes) else response
    assert 99 not in [broker.node_id for broker in reported.brokers]


def test_response_holds_the_brokers_at_the_time_of_the_request(harness: ClusterApiHarness) -> None:
    harness.commits.is_behind = True
    harness.apis.describe_cluster(harness.session, request_of(DescribeClusterRequest(), 1))
    broker = Broker(10, 7, ZERO_UUID, (BrokerEndpoint("B", "ten", 9092, 0),), (), None, False, False, ())
    harness.state.image.brokers[10] = broker
    harness.commits.waiting.pop()(True)
    assert [node.broker_id for node in harness.session.responses[-1].brokers] == [1, 2, 3, 4]
