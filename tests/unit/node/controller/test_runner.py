"""The controller in whole nodes: brokers over the wire, sessions in virtual time, leadership changes."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.controller import ControllerSettings
from quorumd.controller.partition import NO_LEADER, Partition, PartitionId, partition_record
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.node.controller.runner import MAX_CHECK_INTERVAL_MS
from quorumd.node.node import Node
from quorumd.protocol.messages.alter_partition_request import AlterPartitionRequest
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from quorumd.protocol.wire import Message
from tests.support.controller.broker_harness import directory, registration
from tests.support.node.nodes import Client, Closed, Cluster
from tests.support.text import shows

SESSION_MS = 4000.0
TOPIC_ID = KafkaUuid(b"the topic's id..")
WHERE = PartitionId(TOPIC_ID, 0)


class RegisteredBroker:
    """The controller client of a broker."""

    def __init__(self, cluster: Cluster, broker_id: int, start: int = 0) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.connect()
        fields = {"cluster_id": cluster.leader().cluster_id}
        response = self.client.request(registration(broker_id, start, **fields), 4)
        assert response.error_code == 0
        self.epoch = response.broker_epoch

    def connect(self) -> None:
        """Connect to the current leader."""
        leader = self.cluster.leader()
        self.client: Client = self.cluster.client(leader.settings.node_id, f"broker-{self.id}")

    def heartbeat(self, **fields: Any) -> Any:
        offset = self.cluster.leader().log.end_offset
        return self.client.request(BrokerHeartbeatRequest(self.id, self.epoch, offset, **fields), 1)


@pytest.fixture
def cluster() -> Cluster:
    settings = ControllerSettings(broker_session_timeout_ms=SESSION_MS)
    cluster = Cluster(3, controller=settings).start()
    cluster.leader()
    cluster.run(500)
    return cluster


def go_in_steps(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        node.settings.controller.max_partitions_per_step = 4


def write(node: Node, *records: Message) -> None:
    assert node.controller.writer.write_batch(records, lambda committed: None)


def make_partition(cluster: Cluster, partition: Partition) -> None:
    write(cluster.leader(), TopicRecord("topic", TOPIC_ID), partition_record(WHERE, partition))
    cluster.run(100)


def partition_of(node: Node) -> Partition:
    partition = node.state_machine.image.partition(WHERE)
    assert partition is not None
    return partition


def is_fenced(node: Node, broker_id: int) -> bool:
    return node.state_machine.image.brokers[broker_id].is_fenced


def test_broker_epoch_is_the_offset_of_the_registration_record(cluster: Cluster) -> None:
    leader = cluster.leader()
    before = leader.log.end_offset
    first = RegisteredBroker(cluster, 101)
    assert first.epoch == before
    assert leader.log.end_offset == before + 1


def test_broker_without_heartbeats_is_fenced_on_every_node(cluster: Cluster) -> None:
    brokers = [RegisteredBroker(cluster, broker_id) for broker_id in (101, 102)]
    for broker in brokers:
        assert not broker.heartbeat().is_fenced
    make_partition(cluster, Partition((101, 102), (101, 102), 101))
    for _ in range(4):
        cluster.run(SESSION_MS / 3)
        brokers[1].heartbeat()
    cluster.run(SESSION_MS / 3)
    for node in cluster.nodes.values():
        assert (is_fenced(node, 101), is_fenced(node, 102)) == (True, False)
        assert (partition_of(node).isr, partition_of(node).leader) == ((102,), 102)
    assert cluster.leader().statistics.sessions_expired == 1
    assert brokers[0].heartbeat().is_fenced is False, "it is unfenced again"


@pytest.mark.parametrize("by_topic", [False, True])
def test_unclean_election_is_logged_and_counted(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, by_topic: bool
) -> None:
    """The last known leader is elected without any permission, so operators must be informed."""
    broker, leader = RegisteredBroker(cluster, 101), cluster.leader()
    last_known = () if by_topic else (101,)
    make_partition(cluster, Partition((101, 102), (), NO_LEADER, last_known_elr=last_known))
    if by_topic:
        write(leader, ConfigRecord(2, "topic", "unclean.leader.election.enable", "true"))
    assert not caplog.records
    broker.heartbeat()
    cluster.run(100)
    assert partition_of(leader).leader == 101
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert shows(record.getMessage(), "broker 101", "topic-0")
    assert ("last known leader" in record.getMessage()) is not by_topic
    counted = leader.statistics.last_known_leader_elections, leader.statistics.unclean_elections
    assert counted == ((0, 1) if by_topic else (1, 0))


def test_election_from_the_elr_is_counted_but_not_logged(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    broker, leader = RegisteredBroker(cluster, 101), cluster.leader()
    make_partition(cluster, Partition((101, 102), (), NO_LEADER, elr=(101,), last_known_elr=(102,)))
    broker.heartbeat()
    cluster.run(100)
    assert partition_of(leader).leader == 101
    assert not [record for record in caplog.records if "may lack" in record.getMessage()]
    assert leader.statistics.last_known_leader_elections == 0
    assert leader.controller.writer.eligible_elections == 1


def test_broker_is_not_fenced_within_its_session_timeout(cluster: Cluster) -> None:
    broker = RegisteredBroker(cluster, 101)
    broker.heartbeat()
    cluster.run(SESSION_MS - 10)
    assert not is_fenced(cluster.leader(), 101)
    cluster.run(SESSION_MS / 8 + 10)
    assert is_fenced(cluster.leader(), 101)


def test_expired_brokers_are_fenced_in_order_of_their_last_heartbeat(cluster: Cluster) -> None:
    brokers = [RegisteredBroker(cluster, broker_id) for broker_id in (103, 101, 102)]
    for broker in brokers:
        broker.heartbeat()
    leader = cluster.leader()
    cluster.run_until(lambda: is_fenced(leader, 103))
    before = leader.log.end_offset
    assert not is_fenced(leader, 101)
    cluster.run(MAX_CHECK_INTERVAL_MS / 2)
    assert is_fenced(leader, 101)
    assert is_fenced(leader, 102)
    assert leader.log.end_offset == before + 3
    assert leader.statistics.sessions_expired == 3


def test_new_leader_gives_every_broker_a_full_session(cluster: Cluster) -> None:
    broker = RegisteredBroker(cluster, 101)
    broker.heartbeat()
    cluster.run(SESSION_MS - 200)
    cluster.kill(cluster.leader().settings.node_id)
    leader = cluster.leader()
    cluster.run(SESSION_MS - 500)
    assert not is_fenced(leader, 101)
    cluster.run(SESSION_MS)
    assert is_fenced(leader, 101)


def test_former_leader_fences_no_broker(cluster: Cluster) -> None:
    RegisteredBroker(cluster, 101).heartbeat()
    old = cluster.leader()
    others = [node_id for node_id in cluster.nodes if node_id != old.settings.node_id]
    for node_id in others:
        cluster.network.block(f"10.0.0.{old.settings.node_id}", f"10.0.0.{node_id}")
    cluster.run(3 * SESSION_MS)
    assert not old.engine.is_leader
    assert not is_fenced(old, 101)


def test_broker_can_be_unregistered_through_any_node(cluster: Cluster) -> None:
    RegisteredBroker(cluster, 101)
    follower = cluster.follower()
    client = cluster.client(follower.settings.node_id)
    assert client.request(UnregisterBrokerRequest(101), 0).error_code == 0
    assert client.request(UnregisterBrokerRequest(101), 0).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    cluster.run(100)
    assert all(101 not in node.state_machine.image.brokers for node in cluster.nodes.values())


def test_follower_rejects_broker_requests_at_once(cluster: Cluster) -> None:
    client = cluster.client(cluster.follower().settings.node_id)
    response = client.request(BrokerHeartbeatRequest(101, 1, 1), 1, limit_ms=50)
    assert response.error_code == ErrorCode.NOT_CONTROLLER


def test_alter_partition_on_a_connection_from_before_the_leadership_is_rejected(cluster: Cluster) -> None:
    broker = RegisteredBroker(cluster, 101)
    early = {node_id: cluster.client(node_id) for node_id in cluster.nodes}
    cluster.kill(cluster.leader().settings.node_id)
    leader = cluster.leader()
    broker.connect()
    request = AlterPartitionRequest(101, broker.epoch, [])
    response = early[leader.settings.node_id].request(request, 3)
    assert response.error_code == ErrorCode.NOT_CONTROLLER
    assert broker.client.request(request, 3).error_code == 0


def test_abandoned_connection_is_closed_on_its_next_alter_partition(cluster: Cluster) -> None:
    broker = RegisteredBroker(cluster, 101)
    given_up = broker.client
    broker.connect()
    request = AlterPartitionRequest(101, broker.epoch, [])
    assert given_up.request(request, 3).error_code == 0
    assert broker.client.request(request, 3).error_code == 0
    with pytest.raises(Closed):
        given_up.request(request, 3)
    assert broker.client.request(request, 3).error_code == 0


def test_sessions_are_extended_by_a_stall_of_the_leader(cluster: Cluster) -> None:
    """Heartbeats that arrived during the stall are read after the timer."""
    RegisteredBroker(cluster, 101).heartbeat()
    leader = cluster.leader()
    cluster.run(SESSION_MS - 10)
    leader.controller._check_sessions(cluster.heap.now_ms - 2000)
    cluster.run(1990)
    assert not is_fenced(leader, 101)
    cluster.run(SESSION_MS / 8 + 20)
    assert is_fenced(leader, 101)


def test_sessions_are_not_extended_by_a_check_that_is_hardly_late(cluster: Cluster) -> None:
    RegisteredBroker(cluster, 101).heartbeat()
    leader = cluster.leader()
    cluster.run(SESSION_MS - 10)
    leader.controller._check_sessions(cluster.heap.now_ms - MAX_CHECK_INTERVAL_MS / 2)
    cluster.run(20)
    leader.controller._check_sessions(cluster.heap.now_ms)
    cluster.run(20)
    assert is_fenced(leader, 101)


def test_broker_with_many_partitions_is_fenced_in_steps(cluster: Cluster) -> None:
    go_in_steps(cluster)
    for broker_id in (101, 102):
        RegisteredBroker(cluster, broker_id).heartbeat()
    leader = cluster.leader()
    rows = [
        partition_record(PartitionId(TOPIC_ID, number), Partition((replica,), (replica,), replica))
        for number, replica in enumerate([101, 102] * 10)
    ]
    write(leader, TopicRecord("topic", TOPIC_ID), *rows)
    image = leader.state_machine.image
    cluster.run_until(lambda: image.index.count_with_broker(101) < 10 or is_fenced(leader, 101))
    cluster.run(MAX_CHECK_INTERVAL_MS / 2)
    assert is_fenced(leader, 101)
    assert is_fenced(leader, 102)
    assert image.index.leader_count(101) == 0
    assert leader.statistics.sessions_expired == 2


def test_next_leader_completes_the_elections_of_an_unfenced_broker(cluster: Cluster) -> None:
    """The log of the first leader ends between the unfencing and the elections that follow it."""
    broker = RegisteredBroker(cluster, 101)
    make_partition(cluster, Partition((101,), (), NO_LEADER, elr=(101,), directories=(directory(101),)))
    write(cluster.leader(), BrokerRegistrationChangeRecord(101, broker.epoch, -1))
    cluster.run(50)
    cluster.kill(cluster.leader().settings.node_id)
    leader = cluster.leader()
    assert partition_of(leader).leader == NO_LEADER
    cluster.run(1000)
    assert partition_of(leader).leader == 101


def test_broker_with_many_partitions_is_elected_in_steps(cluster: Cluster) -> None:
    go_in_steps(cluster)
    broker = RegisteredBroker(cluster, 101)
    broker.heartbeat()
    cluster.run(1000)
    assert broker.heartbeat(want_fence=True).is_fenced
    leader = cluster.leader()
    place = (directory(101),)
    rows = [
        partition_record(
            PartitionId(TOPIC_ID, i), Partition((101,), (), NO_LEADER, elr=(101,), directories=place)
        )
        for i in range(10)
    ]
    write(leader, TopicRecord("topic", TOPIC_ID), *rows)
    broker.heartbeat()
    assert leader.state_machine.image.index.leader_count(101) == 4
    cluster.run(1000)
    assert leader.state_machine.image.index.leader_count(101) == 10


def test_periodic_unclean_elections_give_every_partition_a_leader(cluster: Cluster) -> None:
    broker = RegisteredBroker(cluster, 101)
    broker.heartbeat()
    partition = Partition((101, 102), (), NO_LEADER, elr=(102,), directories=(directory(101), directory(102)))
    make_partition(cluster, partition)
    cluster.run(1000)
    assert partition_of(cluster.leader()).leader == NO_LEADER
    write(cluster.leader(), ConfigRecord(2, "topic", "unclean.leader.election.enable", "true"))
    leader = cluster.leader()
    interval_ms = ControllerSettings().unclean_election_interval_ms
    for _ in range(int(interval_ms / 2000) + 1):
        broker.heartbeat()
        assert partition_of(leader).leader == NO_LEADER or cluster.heap.now_ms > interval_ms
        cluster.run(2000)
    assert partition_of(leader).leader == 101
