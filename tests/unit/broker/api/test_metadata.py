from __future__ import annotations

from typing import Any

import pytest

from quorumd.broker.api import metadata as metadata_module
from quorumd.broker.api import new_topics
from quorumd.broker.api.metadata import SLICE_PARTITIONS
from quorumd.broker.api.new_topics import MAX_WAIT_MS
from quorumd.broker.controller_requests import topic_creation
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.node.api.forwarding import decode_response
from quorumd.protocol.connection import encode_response
from quorumd.protocol.messages.create_topics_request import CreateTopicsRequest
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.envelope_request import EnvelopeRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.messages.metadata_response import MetadataResponse
from tests.support.broker.api_clients import Client
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.node.recording_session import RecordingSession, request_of


def started(*brokers: int, **settings: Any) -> SimulatedBrokers:
    cluster = SimulatedBrokers(brokers, **settings)
    cluster.start()
    cluster.run_for(50.0)
    return cluster


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def creations(cluster: SimulatedBrokers) -> list[list[str]]:
    return [
        [topic.name for topic in request.topics]
        for request in cluster.controller.requests
        if isinstance(request, CreateTopicsRequest)
    ]


@pytest.mark.parametrize("version", range(14))
def test_brokers_and_topics(version: int) -> None:
    cluster = started(1, 2)
    topic_id = cluster.create_topic("events", (2, 1), (1, 2))
    cluster.run_for(50.0)
    everything = None if version else []
    for topics in (everything, named("events")):
        response = Client(cluster).call(MetadataRequest(topics), version)
        brokers = [(each.node_id, each.host, each.port) for each in response.brokers]
        assert brokers == [(1, "broker-1", 9092), (2, "broker-2", 9092)]
        assert response.controller_id == (1 if version else -1)
        (topic,) = response.topics
        assert (topic.error_code, topic.name) == (0, "events")
        assert topic.topic_id == (topic_id if version >= 10 else KafkaUuid(bytes(16)))
        assert [(each.partition_index, each.leader_id, each.replica_nodes) for each in topic.partitions] == [
            (0, 2, [2, 1]),
            (1, 1, [1, 2]),
        ]


def test_no_topics_and_topics_by_id() -> None:
    cluster = started(1)
    topic_id = cluster.create_topic("events", (1,))
    cluster.run_for(50.0)
    client = Client(cluster)
    assert client.call(MetadataRequest([])).topics == []
    unknown = KafkaUuid(b"x" * 16)
    response = client.call(
        MetadataRequest([MetadataRequestTopic(each, None) for each in (topic_id, unknown)])
    )
    assert [(each.error_code, each.name) for each in response.topics] == [
        (0, "events"),
        (ErrorCode.UNKNOWN_TOPIC_ID, ""),
    ]


def test_missing_topic_is_created_with_the_defaults_of_the_broker() -> None:
    """The response has it, so that the client need not repeat the request."""
    cluster = started(1, 2, num_partitions=3, default_replication_factor=2)
    (created,) = Client(cluster).call(MetadataRequest(named("events"))).topics
    assert (created.error_code, created.topic_id) == (0, cluster.controller.image.topic_ids["events"])
    assert [len(each.replica_nodes) for each in created.partitions] == [2, 2, 2]
    assert sorted({each.leader_id for each in created.partitions}) == [1, 2]
    assert creations(cluster) == [["events"]]


def test_new_topic_is_written_to_at_once() -> None:
    cluster = started(1, num_partitions=3)
    (created,) = Client(cluster).call(MetadataRequest(named("events"))).topics
    assert [(each.error_code, each.leader_id) for each in created.partitions] == [(0, 1)] * 3
    hosted = [cluster.hosted(1, "events", number) for number in range(3)]
    assert [each is not None and each.is_leader for each in hosted] == [True] * 3


def test_response_does_not_wait_for_partitions_of_other_brokers() -> None:
    cluster = started(1, 2, num_partitions=2)
    begun_ms = cluster.heap.now_ms
    (created,) = Client(cluster).call(MetadataRequest(named("events"))).topics
    assert sorted(each.leader_id for each in created.partitions) == [1, 2]
    assert cluster.heap.now_ms < begun_ms + 50.0


def test_response_does_not_wait_for_a_refused_topic() -> None:
    cluster = started(1, default_replication_factor=3)
    client, begun_ms = Client(cluster), cluster.heap.now_ms
    for _ in range(2):
        (missing,) = client.call(MetadataRequest(named("events"))).topics
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.heap.now_ms < begun_ms + 20.0
    assert creations(cluster) == [["events"]]


def test_response_does_not_wait_longer_for_a_controller() -> None:
    cluster = started(1)
    cluster.holds_request = lambda request: isinstance(request, EnvelopeRequest)
    client, begun_ms = Client(cluster), cluster.heap.now_ms
    (missing,) = client.call(MetadataRequest(named("events"))).topics
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.heap.now_ms == begun_ms + MAX_WAIT_MS


@pytest.mark.parametrize("is_enabled", [True, False])
def test_topic_is_not_created_unless_that_is_wanted(is_enabled: bool) -> None:
    cluster = started(1, auto_create_topics=is_enabled)
    client = Client(cluster)
    request = MetadataRequest(named("events", "in/valid"), allow_auto_topic_creation=not is_enabled)
    errors = [each.error_code for each in client.call(request).topics]
    assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC]
    cluster.run_for(50.0)
    assert creations(cluster) == []


def test_names_requested_meanwhile_are_one_request() -> None:
    cluster = started(1)
    client = Client(cluster)
    for name in ("a", "b", "c", "b"):
        client.send(MetadataRequest(named(name)))
    cluster.run_for(50.0)
    assert creations(cluster) == [["a"], ["b", "c"]]


def test_refused_topic_is_not_requested_again_at_once() -> None:
    cluster = started(1, default_replication_factor=3)
    client = Client(cluster)
    for _ in range(5):
        client.call(MetadataRequest(named("events")))
        cluster.run_for(20.0)
    assert creations(cluster) == [["events"]]
    cluster.run_for(topic_creation.REPEAT_MS)
    client.call(MetadataRequest(named("events")))
    cluster.run_for(20.0)
    assert creations(cluster) == [["events"], ["events"]]


LARGE = 2 * SLICE_PARTITIONS + 5


@pytest.fixture
def large() -> SimulatedBrokers:
    """A cluster with a topic of more than two slices."""
    cluster = started(1, 2)
    cluster.create_topic("a", (1,), (1,))
    cluster.create_topic("large", *[(2,)] * LARGE)
    cluster.create_topic("z", (1,))
    cluster.run_for(50.0)
    return cluster


@pytest.mark.parametrize("version", [1, 9, 13])
def test_many_partitions_are_described_in_slices(large: SimulatedBrokers, version: int) -> None:
    client = Client(large)
    client.session = RecordingSession(peer="127.0.0.1:1234")
    for _ in range(2):
        client.send(MetadataRequest(None), version)
        large.run_for(0.0)
    request = request_of(MetadataRequest(), version)
    first, second = client.responses
    assert first == second, "the second is made of what the first has encoded"
    whole: Any = decode_response(request, first)
    assert [len(topic.partitions) for topic in whole.topics] == [2, LARGE, 1]
    assert first == encode_response(request, whole)
    assert client.session.held


def test_listing_for_a_closed_connection_ends(large: SimulatedBrokers) -> None:
    client = Client(large)
    client.send(MetadataRequest(None), 12)
    (cancel,) = client.session.on_unblocked
    cancel()
    large.run_for(10.0)
    assert client.responses == []


def test_cluster_as_its_brokers() -> None:
    cluster = started(1, 2)
    client = Client(cluster)
    response = client.call(DescribeClusterRequest())
    assert [(each.broker_id, each.host, each.port) for each in response.brokers] == [
        (1, "broker-1", 9092),
        (2, "broker-2", 9092),
    ]
    assert (response.controller_id, response.cluster_id) == (1, "cluster")
    errors = [client.call(DescribeClusterRequest(endpoint_type=kind)).error_code for kind in (2, 3)]
    assert errors == [ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE]


def test_fenced_brokers_are_listed_on_request_only() -> None:
    cluster = started(1, 2)
    cluster.brokers[2].kill()
    cluster.run_until(lambda: cluster.controller.image.brokers[2].is_fenced)
    cluster.run_for(50.0)
    client = Client(cluster)
    assert [each.node_id for each in client.call(MetadataRequest([])).brokers] == [1]
    assert [each.broker_id for each in client.call(DescribeClusterRequest()).brokers] == [1]
    both = client.call(DescribeClusterRequest(include_fenced_brokers=True)).brokers
    assert [(each.broker_id, each.is_fenced) for each in both] == [(1, False), (2, True)]


def test_broker_names_itself_once_all_are_fenced() -> None:
    cluster = started(1, 2)
    done: list[bool] = []
    for broker in cluster.brokers.values():
        broker.broker.shut_down(lambda: done.append(True))
    cluster.run_until(lambda: len(done) == 2)
    cluster.run_for(50.0)
    assert all(broker.is_fenced for broker in cluster.controller.image.brokers.values())
    for broker_id in (1, 2):
        response = Client(cluster, broker_id).call(MetadataRequest([]))
        assert [(each.node_id, each.port) for each in response.brokers] == [(broker_id, 9092)]
        assert response.controller_id == -1


@pytest.fixture
def opening() -> tuple[SimulatedBrokers, Client]:
    """A broker that has the topic "old" and is opening the log of "events"."""
    cluster = started(1)
    cluster.create_topic("old", (1,))
    cluster.await_leader("old")
    topic_id = cluster.create_topic("events", (1,))
    cluster.run_until(lambda: topic_id in cluster.brokers[1].broker.metadata.image.topics)
    return cluster, Client(cluster)


def leaders(response: MetadataResponse) -> dict[str | None, list[tuple[int, int]]]:
    """The errors and leaders of the partitions of each topic."""
    return {
        each.name: [(partition.error_code, partition.leader_id) for partition in each.partitions]
        for each in response.topics
    }


@pytest.mark.parametrize("requested", [named("events"), None])
def test_response_waits_until_the_logs_of_new_topics_are_open(
    opening: tuple[SimulatedBrokers, Client], requested: list[MetadataRequestTopic] | None
) -> None:
    _, client = opening
    assert leaders(client.call(MetadataRequest(requested)))["events"] == [(0, 1)]


def test_responses_do_not_wait_for_other_topics(opening: tuple[SimulatedBrokers, Client]) -> None:
    cluster, client = opening
    assert leaders(client.call(MetadataRequest(named("old")))) == {"old": [(0, 1)]}
    assert cluster.brokers[1].broker.partitions.opening


def test_leader_is_not_named_before_it_can_append(
    opening: tuple[SimulatedBrokers, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No response waits while more partitions than MAX_OPENING are being opened."""
    monkeypatch.setattr(new_topics, "MAX_OPENING", 0)
    cluster, client = opening
    unknown = [(ErrorCode.LEADER_NOT_AVAILABLE, -1)]
    assert leaders(client.call(MetadataRequest(named("events")))) == {"events": unknown}
    cluster.await_leader("events")
    assert leaders(client.call(MetadataRequest(named("events")))) == {"events": [(0, 1)]}


def test_request_creates_a_limited_number_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """50,000 names took 70 ms."""
    monkeypatch.setattr(metadata_module, "MAX_CREATED", 2)
    cluster = started(1)
    client = Client(cluster)
    response = client.call(MetadataRequest([MetadataRequestTopic(name=name) for name in "abc"], True))
    assert len(response.topics) == 3
    cluster.run_for(1_000)
    assert sorted(cluster.controller.image.topic_ids) == ["a", "b"]
