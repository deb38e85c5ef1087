"""A node with the broker role: registration, the listener for clients, and the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.errors import ErrorCode, ExitCode
from quorumd.ids import METADATA_TOPIC, OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.meta_properties import load_meta_properties, save_meta_properties
from quorumd.node.broker.metadata_feed import MetadataFeed
from quorumd.node.node import Node
from quorumd.node.readiness import readiness
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.wire import Message
from tests.support.node.broker_nodes import CLIENT_PORT, BrokerCluster, broker_role
from tests.support.node.nodes import DATA_DIRECTORY, Client, Cluster, host_of


def client_of(cluster: Cluster) -> Client:
    """A connection to the listener of node 1 for clients."""
    return Client(cluster, 1, "client", CLIENT_PORT)


def state(node: Node) -> BrokerState:
    assert node.broker is not None
    return node.broker.state


def combined_node(**settings: int) -> tuple[Cluster, Node]:
    cluster = BrokerCluster(**settings)
    node = cluster.start_node(1, broker=broker_role(1))
    cluster.run_until(lambda: state(node) is BrokerState.RUNNING)
    return cluster, node


def test_single_node_with_both_roles_is_unfenced() -> None:
    cluster = BrokerCluster()
    node = cluster.start_node(1, broker=broker_role(1))
    assert "not registered" in "".join(readiness(node.monitor.node_status()).reasons)
    cluster.run_until(lambda: state(node) is BrokerState.RUNNING)
    assert not node.state_machine.image.brokers[1].is_fenced
    assert readiness(node.monitor.node_status()).is_ready


def test_broker_joins_a_quorum_of_other_nodes() -> None:
    cluster = BrokerCluster(3)
    cluster.start()
    cluster.format(4)
    broker = cluster.start_node(
        4,
        broker=broker_role(4, is_controller=False),
        bootstrap_voters=(1, 2, 3),
        controllers_name="CONTROLLER",
    )
    cluster.run_until(lambda: state(broker) is BrokerState.RUNNING)
    assert not broker.engine.is_voter
    endpoint = cluster.leader().state_machine.image.brokers[4].endpoints[0]
    assert (endpoint.name, endpoint.host, endpoint.port) == ("PLAINTEXT", host_of(4), 9092)


def test_broker_begins_with_the_newest_snapshot_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[OffsetAndEpoch | None] = []
    start = MetadataFeed.start

    def record_and_start(self: MetadataFeed, snapshot: OffsetAndEpoch | None, committed_offset: int) -> None:
        begun.append(snapshot)
        start(self, snapshot, committed_offset)

    monkeypatch.setattr(MetadataFeed, "start", record_and_start)
    cluster = BrokerCluster(log=LogSettings(snapshot_bytes=1))
    node = cluster.start_node(1, broker=broker_role(1))
    cluster.run_until(lambda: node.log.latest_snapshot)
    newest = node.log.latest_snapshot
    cluster.kill(1)
    cluster.start_node(1, broker=broker_role(1))
    assert begun == [None, newest]


def test_broker_stays_registered_across_leaders() -> None:
    cluster = BrokerCluster(3)
    for node_id in cluster.voters:
        cluster.start_node(node_id, broker=broker_role(node_id))
    nodes = [cluster.nodes[node_id] for node_id in cluster.voters]
    cluster.run_until(lambda: all(state(node) is BrokerState.RUNNING for node in nodes))
    killed = cluster.leader()
    cluster.kill(killed.settings.node_id)
    cluster.run(15_000)
    image = cluster.leader().state_machine.image
    assert {id for id, broker in image.brokers.items() if broker.is_fenced} == {killed.settings.node_id}


def test_clients_are_refused_until_the_broker_is_unfenced() -> None:
    cluster = BrokerCluster()
    node = cluster.start_node(1, broker=broker_role(1))
    assert state(node) is not BrokerState.RUNNING
    early = client_of(cluster)
    cluster.run_until(lambda: early.is_closed)
    cluster.run_until(lambda: state(node) is BrokerState.RUNNING)
    client = client_of(cluster)
    response = client.request(ApiVersionsRequest("java", "1"), 3)
    offered = {api.api_key for api in response.api_keys}
    assert {ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_QUORUM, ApiKey.METADATA} <= offered
    assert not {ApiKey.VOTE, ApiKey.FETCH_SNAPSHOT, ApiKey.BROKER_REGISTRATION} & offered


def test_topic_is_created_through_the_listener_for_clients() -> None:
    cluster, node = combined_node()
    topics = [CreatableTopic("orders", 3, 1)]
    response = client_of(cluster).request(CreateTopicsRequest(topics, 5000), 7)
    assert response.topics[0].error_code == ErrorCode.NONE
    assert node.broker is not None
    broker = node.broker.broker
    assert broker is not None
    cluster.run_until(lambda: "orders" in broker.metadata.image.topic_ids)
    assert broker.metadata.image.hash == node.state_machine.image.hash


@pytest.mark.parametrize(
    ("size", "errors"), [(1, [ErrorCode.NONE] * 2), (2, [ErrorCode.INVALID_REQUEST] * 2)]
)
def test_requests_of_clients_are_split_into_parts_of_the_configured_size(
    size: int, errors: list[ErrorCode]
) -> None:
    """A partition that a request names twice is found only within one part."""
    cluster, _ = combined_node(max_partitions_per_part=size)
    client = client_of(cluster)
    client.request(CreateTopicsRequest([CreatableTopic("orders", 1, 1)], 5000), 7)
    cluster.run(1000)
    twice = [ListOffsetsPartition(0, timestamp=-1), ListOffsetsPartition(0, timestamp=-1)]
    response = client.request(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("orders", twice)]), 7)
    assert [each.error_code for each in response.topics[0].partitions] == errors


def test_large_request_of_the_broker_to_its_own_node_gets_a_response() -> None:
    """The controller executes it in parts; without a response the broker would wait until the leader changes."""
    cluster, node = combined_node(max_partitions_per_part=1)
    assert node.broker is not None
    seen: list[Message] = []
    topics = [CreatableTopic(name, 1, 1) for name in ("orders", "payments")]
    node.broker.open_channel().send(
        ApiKey.CREATE_TOPICS, lambda version: CreateTopicsRequest(topics, 5000), seen.append, pytest.fail
    )
    cluster.run(5000)
    (response,) = seen
    assert isinstance(response, CreateTopicsResponse)
    assert [each.error_code for each in response.topics] == [ErrorCode.NONE] * 2


def test_directory_of_other_cluster_stops_the_node() -> None:
    cluster = BrokerCluster(cluster_id="4L6g3nShT-eMCtK--X86sw")
    disk = cluster.disks[1]
    meta = load_meta_properties(disk, DATA_DIRECTORY)
    assert meta is not None
    disk.make_directory("/more")
    save_meta_properties(disk, "/more", meta._replace(cluster_id="XXXXXXXXQACAAAAAAAAAAA"))
    role = broker_role(1)
    directories = replace(role.template, log_directories=(DATA_DIRECTORY, "/more"))
    cluster.start_node(1, broker=replace(role, template=directories))
    cluster.run_until(lambda: cluster.exits)
    ((_, code, reason),) = cluster.exits
    assert code == ExitCode.DATA_DIRECTORY
    assert "/more belongs to cluster XXXXXXXXQACAAAAAAAAAAA" in reason


def test_clients_see_brokers_and_tools_see_the_quorum() -> None:
    """Both use the listener for clients; peers look for the leader there if the node has no other."""
    cluster, node = combined_node()
    client = client_of(cluster)
    metadata = client.request(MetadataRequest([]), 13)
    assert [(each.node_id, each.port) for each in metadata.brokers] == [(1, CLIENT_PORT)]
    quorum = client.request(MetadataRequest([MetadataRequestTopic(name=METADATA_TOPIC)], False), 13)
    (partition,) = quorum.topics[0].partitions
    assert (partition.leader_id, partition.replica_nodes) == (1, [1])
    brokers = client.request(DescribeClusterRequest(include_registrations=True), 2).brokers
    assert [(each.broker_id, each.port) for each in brokers] == [(1, CLIENT_PORT)]
    assert brokers[0].broker_epoch == node.state_machine.image.brokers[1].epoch
    controllers = client.request(DescribeClusterRequest(endpoint_type=2), 2)
    assert (controllers.error_code, controllers.controller_id) == (0, 1)
    assert [each.broker_id for each in controllers.brokers] == [1]


def test_node_stops_after_its_broker() -> None:
    cluster = BrokerCluster(3)
    for node_id in cluster.voters:
        cluster.start_node(node_id, broker=broker_role(node_id))
    nodes = dict(cluster.nodes)
    cluster.run_until(lambda: all(state(node) is BrokerState.RUNNING for node in nodes.values()))
    leader_id = cluster.leader().settings.node_id
    stopped = next(node_id for node_id in cluster.voters if node_id != leader_id)
    nodes[stopped].shut_down()
    assert not readiness(nodes[stopped].monitor.node_status()).is_ready
    cluster.run_until(lambda: cluster.exits)
    assert cluster.exits == [(stopped, ExitCode.DONE, "")]
    assert cluster.leader().state_machine.image.brokers[stopped].is_fenced


def test_failed_broker_stops_the_node_at_once() -> None:
    cluster, node = combined_node()
    client, role = client_of(cluster), node.broker
    assert role is not None
    role.on_failed("every log directory has failed")
    assert cluster.exits == [(1, ExitCode.DATA_DIRECTORY, "every log directory has failed")]
    assert state(node) is BrokerState.NOT_RUNNING
    assert client_of(cluster).is_closed
    cluster.run_until(lambda: client.is_closed)


def test_broker_that_no_controller_accepts_stops_the_node_with_an_exit_code_of_its_own() -> None:
    cluster, node = combined_node()
    assert node.broker is not None
    node.broker.on_controller_timeout("broker 1 is not registered")
    assert cluster.exits == [(1, ExitCode.CONTROLLER_TIMEOUT, "broker 1 is not registered")]


def test_clients_are_disconnected_before_the_node_stops() -> None:
    cluster, node = combined_node()
    client, role = client_of(cluster), node.broker
    done: list[int] = []
    assert role is not None
    role.shut_down(lambda: done.append(1))
    cluster.run_until(lambda: client.is_closed and done)
    assert client_of(cluster).is_closed
    assert cluster.exits == []


def test_stop_disconnects_clients() -> None:
    cluster, node = combined_node()
    client, role = client_of(cluster), node.broker
    assert role is not None
    role.stop()
    cluster.run_until(lambda: client.is_closed)
    assert client_of(cluster).is_closed
    assert cluster.exits == []


def test_node_stops_although_its_broker_has_not_begun() -> None:
    """A new cluster has no id before its first leader."""
    cluster = BrokerCluster(3)
    node = cluster.start_node(1, broker=broker_role(1))
    assert node.broker is not None
    node.shut_down()
    node.broker.cluster_adopted()
    cluster.run_until(lambda: cluster.exits)
    assert cluster.exits == [(1, ExitCode.DONE, "")]
    assert node.broker.broker is None


def test_stopping_broker_does_not_begin_when_the_cluster_becomes_known() -> None:
    cluster = BrokerCluster(3)
    node = cluster.start_node(1, broker=broker_role(1))
    assert node.broker is not None
    node.broker.shut_down(lambda: None)
    cluster.start(2, 3)
    cluster.leader()
    cluster.run_until(lambda: node.cluster_id is not None)
    cluster.run(1_000)
    assert node.broker.broker is None


def test_broker_stops_without_a_controller() -> None:
    """The nodes of a cluster are often stopped together, and the last ones no longer find a controller."""
    cluster = BrokerCluster()
    cluster.start()
    cluster.format(2)
    broker = cluster.start_node(
        2, broker=broker_role(2, is_controller=False), bootstrap_voters=(1,), controllers_name="CONTROLLER"
    )
    cluster.run_until(lambda: state(broker) is BrokerState.RUNNING)
    cluster.kill(1)
    cluster.run_until(lambda: broker.engine.leader_id < 0)
    before_ms = cluster.heap.now_ms
    broker.shut_down()
    cluster.run_until(lambda: cluster.exits)
    assert cluster.exits == [(2, ExitCode.DONE, "")]
    assert cluster.heap.now_ms - before_ms < 15_000
