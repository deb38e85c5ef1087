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
from tests.support.node.api_harness import CLUSTER_ID, ApiHarness, ScriptedCommits, ScriptedImage
from tests.support.node.recording_session import request_of


class ClusterApiHarness(ApiHarness):
    """Slices run at once, one after the other; responses wait while `is_behind`."""

    def __init__(self, cluster_id: str | None = CLUSTER_ID, slice_partitions: int = 1000) -> None:
        self.state = ScriptedImage()
        self.commits = ScriptedCommits()
        self._is_in_turn = False
        super().__init__(
            cluster_id=cluster_id,
            listener="CLIENTS",
            state_machine=self.state,
            committed_image=self.commits,
            scheduler=SliceScheduler(self._soon, slice_partitions),
        )
        self.context.router.spoken.update({18: (0, 5), 3: (0, 13)})
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
        topics: list[Any] = self.session.answers[-1].topics
        return topics

    def metadata(self, *topics: MetadataRequestTopic, version: int = 13) -> Any:
        self.apis.metadata(self.session, request_of(MetadataRequest(list(topics)), version))
        return self.session.answers[-1]

    def describe(self, endpoint_type: int, version: int = 1, include_registrations: bool = False) -> Any:
        message = DescribeClusterRequest(False, endpoint_type, True, include_registrations)
        self.apis.describe_cluster(self.session, request_of(message, version))
        return self.session.answers[-1]

    def api_versions(self, version: int) -> Any:
        self.apis.api_versions(self.session, request_of(ApiVersionsRequest(), version))
        return self.session.answers[-1]


@pytest.fixture
def world() -> ClusterApiHarness:
    return ClusterApiHarness()


def test_metadata_names_all_nodes_as_brokers_and_the_leader_as_controller(world: ClusterApiHarness) -> None:
    answer = world.metadata()
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
        (n, f"host-{n}", 9092) for n in (1, 2, 3, 4)
    ]
    assert (answer.controller_id, answer.cluster_id, answer.topics) == (1, CLUSTER_ID, [])


def test_endpoint_type_1_is_all_nodes_and_type_2_the_voters(world: ClusterApiHarness) -> None:
    brokers, controllers = world.describe(1), world.describe(2)
    assert [node.broker_id for node in brokers.brokers] == [1, 2, 3, 4]
    assert [node.broker_id for node in controllers.brokers] == [1, 2, 3]
    for answer, endpoint_type in ((brokers, 1), (controllers, 2)):
        assert (answer.error_code, answer.endpoint_type) == (0, endpoint_type)
        assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 1)


def test_type_2_is_also_every_registered_controller_with_this_listener(world: ClusterApiHarness) -> None:
    """An observer, one that is gone for good, and a voter at the address that it registered."""
    world.discovery.unreachable = (3,)
    for number, name in ((3, "CLIENTS"), (4, "CLIENTS"), (9, "CLIENTS"), (8, "OTHER")):
        endpoint = ControllerEndpoint(name, f"registered-{number}", 9093)
        record = RegisterControllerRecord(number, KafkaUuid(b"some incarnation"), False, [endpoint])
        world.state.image.apply(record, [])
    told = [(node.broker_id, node.host, node.port) for node in world.describe(2).brokers]
    assert told[:2] == [(1, "host-1", 9092), (2, "host-2", 9092)]
    assert told[2:] == [(number, f"registered-{number}", 9093) for number in (3, 4, 9)]


def test_who_asks_for_controllers_is_told_later_that_this_is_not_the_leader(world: ClusterApiHarness) -> None:
    world.describe(1)
    assert not world.session.is_controller_client
    world.describe(2)
    assert world.session.is_controller_client


@pytest.mark.parametrize("endpoint_type", [0, 3, -1])
def test_another_endpoint_type_is_refused(world: ClusterApiHarness, endpoint_type: int) -> None:
    answer = world.describe(endpoint_type)
    assert answer.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    assert answer.error_message


def test_nodes_that_cannot_be_reached_are_left_out_but_for_the_leader(world: ClusterApiHarness) -> None:
    world.discovery.unreachable = (1, 2)
    assert [node.broker_id for node in world.describe(2).brokers] == [1, 3]
    assert [node.node_id for node in world.metadata().brokers] == [1, 3, 4]


def test_a_leader_without_address_is_named_nowhere(world: ClusterApiHarness) -> None:
    """Stock clients look the controller up in the list of brokers and fail if it is not there."""
    del world.discovery.known[1]
    metadata = world.metadata(MetadataRequestTopic(name=METADATA_TOPIC))
    assert metadata.topics[0].partitions[0].leader_id == NO_NODE
    assert world.describe(2).controller_id == NO_NODE


@pytest.mark.parametrize("why", ["not known", "without address"])
def test_without_a_leader_clients_of_brokers_are_told_to_ask_this_node(
    world: ClusterApiHarness, why: str
) -> None:
    """It forwards. librdkafka waits in vain when it is told that nobody is the controller."""
    if why == "not known":
        world.engine.leader_id = NO_NODE
    else:
        del world.discovery.known[1]
    assert world.metadata().controller_id == 2
    assert world.describe(1).controller_id == 2
    assert world.describe(2).controller_id == NO_NODE


def test_a_leader_whose_connection_just_broke_is_no_controller_for_clients_of_brokers(
    world: ClusterApiHarness,
) -> None:
    """librdkafka would wait for it; this node forwards to the next leader."""
    world.discovery.unreachable = (1,)
    assert world.metadata().controller_id == 2
    assert world.describe(1).controller_id == 2
    assert world.describe(2).controller_id == 1


def test_a_leader_that_is_no_voter_any_more_is_still_among_the_controllers(world: ClusterApiHarness) -> None:
    world.engine.leader_id = 4
    answer = world.describe(2)
    assert answer.controller_id == 4
    assert [node.broker_id for node in answer.brokers] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "asked", [MetadataRequestTopic(name=METADATA_TOPIC), MetadataRequestTopic(METADATA_TOPIC_ID, None)]
)
def test_the_metadata_log_is_a_topic_whose_leader_is_that_of_the_quorum(
    world: ClusterApiHarness, asked: MetadataRequestTopic
) -> None:
    (topic,) = world.metadata(asked).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (0, METADATA_TOPIC, METADATA_TOPIC_ID)
    assert topic.is_internal
    (partition,) = topic.partitions
    assert (partition.error_code, partition.partition_index) == (0, 0)
    assert (partition.leader_id, partition.leader_epoch) == (1, 4)
    assert partition.replica_nodes == partition.isr_nodes == [1, 2, 3]


def test_without_a_leader_the_partition_says_so(world: ClusterApiHarness) -> None:
    world.engine.leader_id = NO_NODE
    (topic,) = world.metadata(MetadataRequestTopic(name=METADATA_TOPIC)).topics
    assert topic.partitions[0].leader_id == NO_NODE
    assert topic.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_other_topics_are_not_here(world: ClusterApiHarness) -> None:
    other_id = KafkaUuid(bytes(15) + b"\x99")
    by_name, by_id = world.metadata(
        MetadataRequestTopic(name="another"), MetadataRequestTopic(other_id, None)
    ).topics
    assert (by_name.error_code, by_name.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "another")
    assert (by_id.error_code, by_id.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, other_id)


def test_before_there_is_a_cluster_no_id_is_told() -> None:
    world = ClusterApiHarness(cluster_id=None)
    assert world.metadata().cluster_id is None
    assert world.describe(1).cluster_id == ""


def with_topics(world: ClusterApiHarness) -> None:
    """Topics "a" and "b" of one partition each, led by broker 10; broker 11 is fenced."""
    image = world.state.image
    image.brokers[10] = a_broker(10)._replace(
        endpoints=(BrokerEndpoint("FIRST", "ten", 1, 0), BrokerEndpoint("CLIENTS", "ten", 2, 0)), rack="r"
    )
    image.brokers[11] = a_broker(11, fenced=True)._replace(endpoints=image.brokers[10].endpoints)
    for name, topic_id in (("b", ID_OF_B), ("a", ID_OF_A)):
        image.apply(TopicRecord(name, topic_id), [])
        image.apply(partition_record(PartitionId(topic_id, 0), Partition((11, 10), (10,), 10, 7, 9)), [])


ID_OF_A, ID_OF_B = KafkaUuid(b"a" * 16), KafkaUuid(b"b" * 16)


@pytest.mark.parametrize("version", [0, 1, 12])
def test_all_topics_are_told_but_the_metadata_log(world: ClusterApiHarness, version: int) -> None:
    """It is internal: stock Kafka does not list it either."""
    assert world.all_topics(version) == []
    with_topics(world)
    assert [topic.name for topic in world.all_topics(version)] == ["a", "b"]


def test_no_topics_are_none(world: ClusterApiHarness) -> None:
    with_topics(world)
    assert world.metadata().topics == []


@pytest.mark.parametrize("asked", [MetadataRequestTopic(name="b"), MetadataRequestTopic(ID_OF_B, None)])
def test_a_topic_is_told_with_its_partitions(world: ClusterApiHarness, asked: MetadataRequestTopic) -> None:
    with_topics(world)
    (topic,) = world.metadata(asked).topics
    assert (topic.error_code, topic.name, topic.topic_id, topic.is_internal) == (0, "b", ID_OF_B, False)
    (partition,) = topic.partitions
    assert (partition.error_code, partition.partition_index) == (0, 0)
    assert (partition.leader_id, partition.leader_epoch) == (10, 7)
    assert (partition.replica_nodes, partition.isr_nodes) == ([11, 10], [10])
    assert partition.offline_replicas == [11]


def test_a_name_that_no_topic_can_have_is_told_so(world: ClusterApiHarness) -> None:
    """As Kafka does: librdkafka and the Java client stop asking then."""
    (topic,) = world.metadata(MetadataRequestTopic(name="a b")).topics
    assert (topic.error_code, topic.name) == (ErrorCode.INVALID_TOPIC, "a b")


def test_registered_brokers_are_told_where_their_listener_of_this_name_is_but_fenced_ones_not(
    world: ClusterApiHarness,
) -> None:
    with_topics(world)
    brokers = world.metadata().brokers
    assert [(b.node_id, b.host, b.port, b.rack) for b in brokers[3:]] == [
        (4, "host-4", 9092, None),
        (10, "ten", 2, "r"),
    ]


def test_a_broker_with_the_id_of_a_node_of_the_quorum_is_told_as_that(world: ClusterApiHarness) -> None:
    world.state.image.brokers[3] = a_broker(3)._replace(endpoints=(BrokerEndpoint("X", "three", 1, 0),))
    world.state.image.brokers[5] = a_broker(5)
    brokers = world.metadata().brokers
    assert [(b.node_id, b.host) for b in brokers if b.node_id >= 3] == [(3, "host-3"), (4, "host-4")]


def test_what_is_not_committed_yet_is_told_when_it_is(world: ClusterApiHarness) -> None:
    with_topics(world)
    world.commits.is_behind = True
    for names in (None, [MetadataRequestTopic(name="a")]):
        world.apis.metadata(world.session, request_of(MetadataRequest(names), 13))
    assert world.session.answers == []
    for outcome in world.commits.waiting:
        outcome(True)
    assert [len(answer.topics) for answer in world.session.answers] == [2, 1]


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("slice_partitions", [1, 5, 400])
def test_a_large_answer_in_slices_is_the_same_answer(version: int, slice_partitions: int) -> None:
    request = request_of(MetadataRequest(None if version else []), version)
    worlds = ClusterApiHarness(), ClusterApiHarness(slice_partitions=slice_partitions)
    for world in worlds:
        with_topics(world)
        for number in range(300):
            topic_id = KafkaUuid(number.to_bytes(16, "big"))
            world.state.image.apply(TopicRecord(f"topic-{number}", topic_id), [])
            for partition in range(number % 3):
                where = PartitionId(topic_id, partition)
                world.state.image.apply(partition_record(where, Partition((11, 10), (10,), 10, 7, 9)), [])
        world.apis.metadata(world.session, request)
    ((whole,), (in_slices,)) = (world.session.answers for world in worlds)
    assert len(whole.topics) == 302
    assert in_slices == encode_response(request, whole)


def test_a_large_answer_that_was_taken_back_is_made_again() -> None:
    world = ClusterApiHarness(slice_partitions=1)
    with_topics(world)
    world.commits.is_behind = True
    request = request_of(MetadataRequest(None), 12)
    world.apis.metadata(world.session, request)
    world.state.image.apply(RemoveTopicRecord(ID_OF_A), [])
    world.commits.is_behind = False
    for outcome in world.commits.waiting:
        outcome(False)
    told: Any = decode_response(request, world.session.answers[0])
    assert [topic.name for topic in told.topics] == ["b"]


def test_what_is_taken_back_was_never_told(world: ClusterApiHarness) -> None:
    with_topics(world)
    world.commits.is_behind = True
    world.apis.metadata(world.session, request_of(MetadataRequest([MetadataRequestTopic(name="a")]), 13))
    world.state.image.apply(RemoveTopicRecord(ID_OF_A), [])
    world.commits.is_behind = False
    world.commits.waiting[0](False)
    assert world.session.answers[0].topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_who_looks_for_the_leader_of_the_quorum_never_waits(world: ClusterApiHarness) -> None:
    world.commits.is_behind = True
    assert world.metadata().controller_id == 1
    assert world.metadata(MetadataRequestTopic(name=METADATA_TOPIC)).topics[0].name == METADATA_TOPIC


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
def test_features_with_minimum_0_are_told_from_v4_on(
    world: ClusterApiHarness, version: int, features: list[str]
) -> None:
    """KAFKA-17492: older clients cannot parse them."""
    world.state.image.apply(FeatureLevelRecord("metadata.version", 25), [])
    answer = world.api_versions(version)
    assert [feature.name for feature in answer.supported_features] == features
    finalized = {f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features}
    assert finalized == {"metadata.version": (25, 25), "kraft.version": (1, 1)}
    assert answer.finalized_features_epoch == 17


def test_features_that_are_off_are_not_finalized_and_none_is_told_twice(world: ClusterApiHarness) -> None:
    """Clients keep them in a map and fail on doubles; kraft.version in a feature record means nothing."""
    for name, level in (("metadata.version", 25), ("group.version", 0), ("kraft.version", 0)):
        world.state.image.apply(FeatureLevelRecord(name, level), [])
    told = [(f.name, f.max_version_level) for f in world.api_versions(4).finalized_features]
    assert told == [("kraft.version", 1), ("metadata.version", 25)]
    world.state.image.apply(FeatureLevelRecord("kraft.version", 1), [])
    assert [f.name for f in world.api_versions(4).finalized_features] == ["kraft.version", "metadata.version"]


def test_api_versions_tells_exactly_what_is_spoken(world: ClusterApiHarness) -> None:
    for version in range(6):
        answer = world.api_versions(version)
        assert [(k.api_key, k.min_version, k.max_version) for k in answer.api_keys] == [
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
def test_a_client_may_name_cluster_and_node_that_it_means(
    world: ClusterApiHarness, cluster_id: str | None, node_id: int, error: ErrorCode
) -> None:
    """Both or neither; which they are matters to brokers only (KIP-1242)."""
    message = ApiVersionsRequest("a", "1", cluster_id, node_id)
    world.apis.api_versions(world.session, request_of(message, 5))
    assert world.session.answers[-1].error_code == error
    assert bool(world.session.answers[-1].api_keys) == (error is ErrorCode.NONE)


def test_registered_brokers_are_brokers_and_no_controllers(world: ClusterApiHarness) -> None:
    broker = Broker(10, 7, ZERO_UUID, (BrokerEndpoint("B", "ten", 9092, 0),), (), None, False, False, ())
    world.state.image.brokers[10] = broker
    assert [node.broker_id for node in world.describe(1).brokers] == [1, 2, 3, 4, 10]
    assert [node.broker_id for node in world.describe(2).brokers] == [1, 2, 3]
    assert world.describe(1).brokers[-1].broker_epoch == -1
    assert world.describe(1, include_registrations=True).brokers[-1].broker_epoch == 7


def test_brokers_are_told_of_once_they_are_committed_and_the_leader_at_once(world: ClusterApiHarness) -> None:
    broker = Broker(10, 7, ZERO_UUID, (BrokerEndpoint("B", "ten", 9092, 0),), (), None, False, False, ())
    world.commits.is_behind = True
    world.state.image.brokers[10] = broker
    world.apis.describe_cluster(world.session, request_of(DescribeClusterRequest(), 1))
    assert world.session.answers == []
    assert world.describe(2).controller_id == 1
    del world.state.image.brokers[10]
    world.commits.is_behind = False
    world.commits.waiting.pop()(False)
    told = world.session.answers[-1]
    assert [node.broker_id for node in told.brokers] == [1, 2, 3, 4], "what was taken back is not told"


@pytest.mark.parametrize("slice_partitions", [1, 1000])
def test_brokers_that_came_after_the_last_slice_are_not_told(slice_partitions: int) -> None:
    world = ClusterApiHarness(slice_partitions=slice_partitions)
    with_topics(world)
    world.commits.is_behind = True
    request = request_of(MetadataRequest(None), 12)
    world.apis.metadata(world.session, request)
    world.state.image.brokers[99] = a_broker(99)._replace(endpoints=(BrokerEndpoint("CLIENTS", "x", 1, 0),))
    for outcome in world.commits.waiting:
        outcome(True)
    (answer,) = world.session.answers
    told: Any = decode_response(request, answer) if isinstance(answer, bytes) else answer
    assert 99 not in [broker.node_id for broker in told.brokers]


def test_what_was_asked_before_it_changed_is_told_as_it_was(world: ClusterApiHarness) -> None:
    world.commits.is_behind = True
    world.apis.describe_cluster(world.session, request_of(DescribeClusterRequest(), 1))
    broker = Broker(10, 7, ZERO_UUID, (BrokerEndpoint("B", "ten", 9092, 0),), (), None, False, False, ())
    world.state.image.brokers[10] = broker
    world.commits.waiting.pop()(True)
    assert [node.broker_id for node in world.session.answers[-1].brokers] == [1, 2, 3, 4]
