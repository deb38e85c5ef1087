"""Requests of a broker to the active controller: in the same process, on another node, across elections."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from quorumd.errors import ErrorCode
from quorumd.node.broker.controller_channel import ControllerAccess, NodeControllerChannel
from quorumd.node.node import Node
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.connection import Failure
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from tests.support.node.broker_nodes import BrokerCluster, broker_role
from tests.support.node.nodes import Cluster, host_of
from tests.support.node.parts import OWN, NodeParts

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
    assert "active controller" in harness.outcome()
    assert cluster.heap.now_ms - sent_ms < follower.settings.request_timeout_ms


def test_closed_channel_calls_nothing_back() -> None:
    cluster = brokers()
    harness = Harness(cluster, cluster.leader())
    harness.send()
    cluster.nodes[1].core.lifecycle.stop(0, "")
    cluster.run(5000)
    assert harness.outcomes == []


def test_local_session_has_a_new_number_in_every_epoch() -> None:
    """Otherwise the controller would reject its AlterPartition requests as older than the leadership."""
    cluster = brokers()
    node = cluster.leader()
    harness = Harness(cluster, node)
    before = node.core.incoming.next_number
    harness.send()
    harness.outcome()
    harness.send()
    harness.outcome()
    assert node.core.incoming.next_number == before + 1


class ScriptedAccess:
    """The parts of a node that a channel uses: leader and role are scripted, `turns` run when `run` is called."""

    def __init__(self, leader_id: int, *, is_active: bool = False) -> None:
        self.quorum = SimpleNamespace(
            own=OWN,
            engine=SimpleNamespace(leader_id=leader_id, epoch=1),
            role=SimpleNamespace(is_active_controller=is_active),
        )
        self.turns: list[Callable[[], None]] = []
        self.node = SimpleNamespace(
            settings=NodeParts().settings,
            clock=SimpleNamespace(call_soon=self.turns.append, now_ms=lambda: 0.0),
        )
        self.discovery = SimpleNamespace(address_of=lambda node_id: Address("peer", 9092))
        self.router = SimpleNamespace(
            route=self._route, supported_versions={int(ApiKey.BROKER_HEARTBEAT): (0, 1)}
        )
        self.calls: list[Any] = []
        self.routed: list[tuple[Any, Any]] = []
        self.closed = 0

    def next_number(self) -> int:
        return 7

    def connect(self, listener: str) -> Any:
        return SimpleNamespace(
            call=lambda host, port, call: self.calls.append(call), close=self._close_connections
        )

    def _route(self, session: Any, request: Any) -> None:
        self.routed.append((session, request))

    def _close_connections(self) -> None:
        self.closed += 1

    def run(self) -> None:
        while self.turns:
            self.turns.pop(0)()


def scripted(access: ScriptedAccess) -> tuple[NodeControllerChannel, list[str]]:
    """A channel with a request in flight, and its outcomes."""
    channel, outcomes = NodeControllerChannel(cast(ControllerAccess, access)), list[str]()

    def send(name: str) -> None:
        channel.send(
            ApiKey.BROKER_HEARTBEAT,
            lambda version: UNKNOWN_BROKER,
            lambda response: outcomes.append(f"{name} done"),
            lambda failure: outcomes.append(f"{name} failed"),
        )

    send("a")
    send("b")
    access.run()
    return channel, outcomes


def test_failed_call_ends_its_request_and_the_next_one_is_sent() -> None:
    access = ScriptedAccess(2)
    _, outcomes = scripted(access)
    access.calls[0].on_failure(Failure("no response in time"))
    assert outcomes == ["a failed"]
    assert len(access.calls) == 2


def test_request_fails_while_this_node_is_not_the_active_controller_yet() -> None:
    access = ScriptedAccess(OWN.id)
    assert scripted(access)[1] == ["a failed", "b failed"]
    assert access.calls == access.routed == []


def test_request_to_a_leader_without_an_address_fails() -> None:
    access = ScriptedAccess(2)
    access.discovery.address_of = lambda node_id: None
    assert scripted(access)[1] == ["a failed", "b failed"]


def test_connections_to_a_former_leader_are_closed() -> None:
    access = ScriptedAccess(2)
    channel, outcomes = scripted(access)
    access.quorum.engine.leader_id = 3
    channel.leader_changed()
    assert access.closed == 1
    access.run()
    assert outcomes == ["a failed"]
    access.quorum.role.is_active_controller = True
    access.calls[-1].on_failure(Failure("no response in time"))
    channel.send(ApiKey.BROKER_HEARTBEAT, lambda version: UNKNOWN_BROKER, outcomes.append, lambda _: None)
    assert access.closed == 2, "this node leads now"


def test_controller_that_does_not_accept_a_connection_gets_another() -> None:
    access = ScriptedAccess(2)
    _, outcomes = scripted(access)
    access.calls[0].on_response(BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER))
    assert (outcomes, access.closed) == (["a failed"], 1)
    access.calls[1].on_response(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert (outcomes, access.closed) == (["a failed", "b done"], 1)


def test_refusal_within_the_process_fails_only_the_request_in_flight() -> None:
    access = ScriptedAccess(1, is_active=True)
    _, outcomes = scripted(access)
    ((session, first),) = access.routed
    session.respond_nothing(object())
    access.run()
    assert outcomes == []
    session.respond_nothing(first)
    access.run()
    assert outcomes == ["a failed"]
    assert len(access.routed) == 2
    session.close()
    access.run()
    assert outcomes == ["a failed", "b failed"]
