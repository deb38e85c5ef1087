"""Requests of a broker to the active controller: in the same process, on another node, across elections."""

from __future__ import annotations

from typing import Any

from quorumd.errors import ErrorCode
from quorumd.node.node import Node
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from tests.support.node.broker_nodes import BrokerCluster, broker_role
from tests.support.node.nodes import Cluster, host_of

UNKNOWN_BROKER = BrokerHeartbeatRequest(9, 1, 0)


class Harness:
    """A channel of one node."""

    def __init__(self, cluster: Cluster, node: Node) -> None:
        assert node.broker is not None
        self.cluster = cluster
        self.outcomes: list[Any] = []
        self.channel = node.broker.open_channel()

    def send(self, api_key: int = ApiKey.BROKER_HEARTBEAT, message: Any = UNKNOWN_BROKER) -> None:
        self.channel.send(
            api_key,
            lambda version: message,
            lambda response: self.outcomes.append((api_key, response.error_code)),
            lambda failure: self.outcomes.append(failure.reason),
        )

    def outcome(self) -> Any:
        self.cluster.run_until(lambda: self.outcomes)
        return self.outcomes.pop(0)


def brokers(voters: int = 1, started: tuple[int, ...] = ()) -> Cluster:
    """A cluster of nodes with both roles."""
    cluster = BrokerCluster(voters)
    for node_id in started or cluster.voters:
        cluster.start_node(node_id, broker=broker_role(node_id))
    return cluster


def test_request_is_handled_in_the_same_process() -> None:
    cluster = brokers()
    harness = Harness(cluster, cluster.leader())
    harness.send()
    assert not harness.outcomes
    assert harness.outcome() == (ApiKey.BROKER_HEARTBEAT, ErrorCode.STALE_BROKER_EPOCH)


def test_request_goes_to_the_leader() -> None:
    cluster = brokers(3)
    harness = Harness(cluster, cluster.follower())
    harness.send()
    assert harness.outcome() == (ApiKey.BROKER_HEARTBEAT, ErrorCode.STALE_BROKER_EPOCH)


def test_requests_of_a_channel_keep_their_order() -> None:
    cluster = brokers()
    harness = Harness(cluster, cluster.leader())
    harness.send()
    harness.send(ApiKey.ALLOCATE_PRODUCER_IDS, AllocateProducerIdsRequest(9, 1))
    harness.send()
    cluster.run_until(lambda: len(harness.outcomes) == 3)
    keys = [ApiKey.BROKER_HEARTBEAT, ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.BROKER_HEARTBEAT]
    assert harness.outcomes == [(key, ErrorCode.STALE_BROKER_EPOCH) for key in keys]


def test_request_without_controller_fails_later() -> None:
    cluster = brokers(3, started=(1,))
    harness = Harness(cluster, cluster.nodes[1])
    harness.send()
    assert not harness.outcomes
    assert harness.outcome() == "no active controller is known"


def test_request_fails_when_the_leader_changes() -> None:
    """Waiting for the request's deadline would fence the broker."""
    cluster = brokers(3)
    leader = cluster.leader()
    follower = cluster.follower()
    harness = Harness(cluster, follower)
    harness.send()
    harness.outcome()
    for other in cluster.voters:
        if other != leader.settings.node_id:
            cluster.network.block(host_of(other), leader.settings.advertised.host)
            cluster.network.block(leader.settings.advertised.host, host_of(other))
    cluster.run(1000)
    harness.send()
    sent_ms = cluster.heap.now_ms
    assert "is no longer the active controller" in harness.outcome()
    assert cluster.heap.now_ms - sent_ms < follower.settings.request_timeout_ms


def test_closed_channel_calls_nothing_back() -> None:
    cluster = brokers()
    harness = Harness(cluster, cluster.leader())
    harness.send()
    cluster.nodes[1].lifecycle.stop(0, "")
    cluster.run(5000)
    assert harness.outcomes == []


def test_local_session_has_a_new_number_in_every_epoch() -> None:
    """Otherwise the controller would reject its AlterPartition requests as older than the leadership."""
    cluster = brokers()
    node = cluster.leader()
    harness = Harness(cluster, node)
    before = node.incoming.next_number
    harness.send()
    harness.outcome()
    harness.send()
    harness.outcome()
    assert node.incoming.next_number == before + 1
