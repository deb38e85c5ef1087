"""Requests of a broker to the active controller: in the same process, on another node, across elections."""

from __future__ import annotations

from typing import Any, cast

from quorumd.errors import ErrorCode
from quorumd.node.broker.controller_channel import ControllerAccess, NodeControllerChannel
from quorumd.node.node import Node
from quorumd.node.peers.connection import Call, Failure
from quorumd.node.peers.connections import PeerConnections
from quorumd.node.peers.discovery import Discovery
from quorumd.node.sessions.router import RequestRouter
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.routes import Route, Session
from tests.support.node.broker_nodes import BrokerCluster, broker_role
from tests.support.node.nodes import Cluster, host_of
from tests.support.node.parts import OWN, NodeParts
from tests.support.node.recording_connections import RecordingConnections
from tests.support.node.scripted_discovery import ScriptedDiscovery
from tests.support.node.scripted_engine import ScriptedEngine
from tests.support.node.scripted_role import ScriptedRole

UNKNOWN_BROKER = BrokerHeartbeatRequest(9, 1, 0)


class OpenChannel:
    """A channel of one node of a cluster."""

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
    harness = OpenChannel(cluster, cluster.leader())
    harness.send()
    assert not harness.outcomes
    assert harness.outcome() == (ApiKey.BROKER_HEARTBEAT, ErrorCode.STALE_BROKER_EPOCH)


def test_request_goes_to_the_leader() -> None:
    cluster = brokers(3)
    harness = OpenChannel(cluster, cluster.follower())
    harness.send()
    assert harness.outcome() == (ApiKey.BROKER_HEARTBEAT, ErrorCode.STALE_BROKER_EPOCH)


def test_requests_of_a_channel_keep_their_order() -> None:
    cluster = brokers()
    harness = OpenChannel(cluster, cluster.leader())
    harness.send()
    harness.send(ApiKey.ALLOCATE_PRODUCER_IDS, AllocateProducerIdsRequest(9, 1))
    harness.send()
    cluster.run_until(lambda: len(harness.outcomes) == 3)
    keys = [ApiKey.BROKER_HEARTBEAT, ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.BROKER_HEARTBEAT]
    assert harness.outcomes == [(key, ErrorCode.STALE_BROKER_EPOCH) for key in keys]


def test_request_without_controller_fails_later() -> None:
    cluster = brokers(3, started=(1,))
    harness = OpenChannel(cluster, cluster.nodes[1])
    harness.send()
    assert not harness.outcomes
    assert harness.outcome() == "no active controller is known"


def test_request_fails_when_the_leader_changes() -> None:
    """Waiting for the request's deadline would fence the broker."""
    cluster = brokers(3)
    leader = cluster.leader()
    follower = cluster.follower()
    harness = OpenChannel(cluster, follower)
    harness.send()
    harness.outcome()
    for other in cluster.voters:
        if other != leader.settings.node_id:
            cluster.network.block(host_of(other), leader.settings.advertised.host)
            cluster.network.block(leader.settings.advertised.host, host_of(other))
    cluster.run(1000)
    harness.send()
    sent_ms = cluster.heap.now_ms
    assert "active controller" in harness.outcome()
    assert cluster.heap.now_ms - sent_ms < follower.settings.request_timeout_ms


def test_closed_channel_calls_nothing_back() -> None:
    cluster = brokers()
    harness = OpenChannel(cluster, cluster.leader())
    harness.send()
    cluster.nodes[1].core.lifecycle.stop(0, "")
    cluster.run(5000)
    assert harness.outcomes == []


def test_local_session_has_a_new_number_in_every_epoch() -> None:
    """Otherwise the controller would reject its AlterPartition requests as older than the leadership."""
    cluster = brokers()
    node = cluster.leader()
    harness = OpenChannel(cluster, node)
    before = node.core.incoming.next_number
    harness.send()
    harness.outcome()
    harness.send()
    harness.outcome()
    assert node.core.incoming.next_number == before + 1


class ChannelHarness(NodeParts):
    """A channel of replica OWN that has two requests, of which "a" is in flight once `send_requests` returns."""

    def __init__(self, leader_id: int, *, is_active: bool = False) -> None:
        super().__init__()
        self.engine = ScriptedEngine(leader_id=leader_id, epoch=1)
        self.is_active = is_active
        self.discovery = ScriptedDiscovery()
        self.connections = RecordingConnections()
        self.routed: list[tuple[Any, Any]] = []
        self.outcomes: list[str] = []
        router = RequestRouter()
        router.add([Route(BrokerHeartbeatRequest, self._route)])
        self.channel = NodeControllerChannel(
            ControllerAccess(
                self.basics,
                self.quorum(role=ScriptedRole(lambda: self.is_active)),
                cast(Discovery, self.discovery),
                router,
                next_number=lambda: 7,
                connect=lambda listener: cast(PeerConnections, self.connections),
            )
        )

    def _route(self, session: Session, request: Request[BrokerHeartbeatRequest]) -> None:
        self.routed.append((session, request))

    def send(self, name: str) -> None:
        self.channel.send(
            ApiKey.BROKER_HEARTBEAT,
            lambda version: UNKNOWN_BROKER,
            lambda response: self.outcomes.append(f"{name} done"),
            lambda failure: self.outcomes.append(f"{name} failed"),
        )

    def send_requests(self) -> None:
        self.send("a")
        self.send("b")
        self.time.end_turn()

    def call(self, number: int) -> Call:
        """One of the calls to the leader."""
        return self.connections.calls[number][2]


def channel_to(leader_id: int, *, is_active: bool = False) -> ChannelHarness:
    harness = ChannelHarness(leader_id, is_active=is_active)
    harness.send_requests()
    return harness


def test_failed_call_ends_its_request_and_the_next_one_is_sent() -> None:
    harness = channel_to(2)
    harness.call(0).on_failure(Failure("no response in time"))
    assert harness.outcomes == ["a failed"]
    assert len(harness.connections.calls) == 2


def test_request_fails_while_this_node_is_not_the_active_controller_yet() -> None:
    harness = channel_to(OWN.id)
    assert harness.outcomes == ["a failed", "b failed"]
    assert harness.connections.calls == harness.routed == []


def test_request_to_a_leader_without_an_address_fails() -> None:
    harness = ChannelHarness(2)
    harness.discovery.known.clear()
    harness.send_requests()
    assert harness.outcomes == ["a failed", "b failed"]


def test_connections_to_a_former_leader_are_closed() -> None:
    harness = channel_to(2)
    harness.engine.leader_id = 3
    harness.channel.leader_changed()
    assert harness.connections.closed == 1
    harness.time.end_turn()
    assert harness.outcomes == ["a failed"]
    harness.is_active = True
    harness.call(-1).on_failure(Failure("no response in time"))
    harness.send("c")
    assert harness.connections.closed == 2, "this node leads now"


def test_controller_that_does_not_accept_a_connection_gets_another() -> None:
    harness = channel_to(2)
    harness.call(0).on_response(BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER))
    assert (harness.outcomes, harness.connections.closed) == (["a failed"], 1)
    harness.call(1).on_response(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert (harness.outcomes, harness.connections.closed) == (["a failed", "b done"], 1)


def test_refusal_within_the_process_fails_only_the_request_in_flight() -> None:
    harness = channel_to(OWN.id, is_active=True)
    ((session, first),) = harness.routed
    session.respond_nothing(object())
    harness.time.end_turn()
    assert harness.outcomes == []
    session.respond_nothing(first)
    harness.time.end_turn()
    assert harness.outcomes == ["a failed"]
    assert len(harness.routed) == 2
    session.close()
    harness.time.end_turn()
    assert harness.outcomes == ["a failed", "b failed"]


def test_late_close_within_the_process_does_not_fail_a_request_to_another_leader() -> None:
    harness = channel_to(OWN.id, is_active=True)
    ((session, _),) = harness.routed
    harness.is_active, harness.engine.leader_id = False, 2
    harness.channel.leader_changed()
    harness.time.end_turn()
    assert (harness.outcomes, len(harness.connections.calls)) == (["a failed"], 1)
    session.close()
    harness.time.end_turn()
    assert harness.outcomes == ["a failed"]
    harness.call(0).on_response(BrokerHeartbeatResponse())
    assert harness.outcomes == ["a failed", "b done"]
