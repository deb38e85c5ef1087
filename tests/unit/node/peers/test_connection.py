from __future__ import annotations

from random import Random
from typing import Any

import pytest

from quorumd.node.peers.connection import Call, Failure, PeerConnection
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.simulator.environment.network import SimulatedNetwork
from tests.support.node.nodes import EVEN_LINKS
from tests.support.node.scripted_peer import ScriptedPeer
from tests.support.node.virtual_time import VirtualTime

TIMEOUT_MS = 500.0


class World:
    def __init__(self) -> None:
        self.time = VirtualTime()
        self.network = SimulatedNetwork(self.time.heap, Random(1), EVEN_LINKS)
        self.connection = PeerConnection(
            self.network.host("me"), self.time.clock, "peer", 9092, "quorumd-test"
        )
        self.answers: list[tuple[str, Any]] = []
        self.failures: list[tuple[str, Failure]] = []
        self.versions: list[int] = []

    def call(self, name: str, api_key: int = ApiKey.METADATA, after_ms: float = TIMEOUT_MS) -> None:
        def build(version: int) -> Any:
            self.versions.append(version)
            return MetadataRequest([]) if api_key == ApiKey.METADATA else DescribeClusterRequest()

        call = Call(
            api_key,
            build,
            lambda answer: self.answers.append((name, answer)),
            lambda failure: self.failures.append((name, failure)),
            self.time.clock.now_ms() + after_ms,
        )
        self.connection.call(call)

    def on_ended(self) -> list[str]:
        return [name for name, _ in self.answers] + [name for name, _ in self.failures]


@pytest.fixture
def world() -> World:
    return World()


def test_connects_and_learns_the_versions_before_the_first_call(world: World) -> None:
    peer = ScriptedPeer(world.network, spoken={ApiKey.API_VERSIONS: (0, 4), ApiKey.METADATA: (0, 5)})
    world.call("a")
    world.time.pass_ms(10)
    assert world.versions == [5]
    assert [request.client_id for request in peer.asked] == ["quorumd-test"]
    peer.answer(MetadataResponse())
    world.time.pass_ms(10)
    assert [name for name, _ in world.answers] == ["a"]


def test_calls_share_a_connection_and_are_answered_in_order(world: World) -> None:
    peer = ScriptedPeer(world.network)
    for name in "abc":
        world.call(name)
    world.time.pass_ms(10)
    world.call("d")
    world.time.pass_ms(10)
    assert len(peer.links) == 1
    for controller_id in range(4):
        peer.answer(MetadataResponse(controller_id=controller_id))
    world.time.pass_ms(10)
    assert [(name, answer.controller_id) for name, answer in world.answers] == [
        ("a", 0),
        ("b", 1),
        ("c", 2),
        ("d", 3),
    ]
    world.time.pass_ms(10 * TIMEOUT_MS)
    assert world.failures == [], "what was answered is not overdue"
    assert not peer.links[0].is_closed


def test_connection_refused(world: World) -> None:
    world.call("a")
    world.time.pass_ms(10)
    ((_, failure),) = world.failures
    assert failure.refused
    assert failure.unsent


def test_a_silent_host_is_not_a_refusal(world: World) -> None:
    world.network.block("me", "peer")
    world.call("a")
    world.time.pass_ms(TIMEOUT_MS - 1)
    assert world.failures == []
    world.time.pass_ms(1)
    ((_, failure),) = world.failures
    assert failure.unsent
    assert not failure.refused
    assert world.connection.is_idle


def test_a_peer_that_never_says_what_it_speaks(world: World) -> None:
    peer = ScriptedPeer(world.network)
    peer.greets = False
    world.call("a")
    world.time.pass_ms(TIMEOUT_MS)
    assert world.failures[0][1].unsent
    world.time.pass_ms(10)
    assert peer.links[0].is_closed


def test_one_overdue_call_fails_all_of_its_connection(world: World) -> None:
    """Answers come in order, so nothing behind it can come in time either; nobody knows what had an effect."""
    peer = ScriptedPeer(world.network)
    world.call("a")
    world.call("b", after_ms=10 * TIMEOUT_MS)
    world.time.pass_ms(TIMEOUT_MS)
    assert [(name, failure.unsent) for name, failure in world.failures] == [("a", False), ("b", False)]
    peer.asked.clear()
    world.call("c")
    world.time.pass_ms(10)
    assert len(peer.links) == 2
    peer.answer(MetadataResponse())
    world.time.pass_ms(10)
    assert [name for name, _ in world.answers] == ["c"]


def test_late_answers_of_an_abandoned_connection_are_nobodys(world: World) -> None:
    peer = ScriptedPeer(world.network)
    world.call("a")
    world.time.pass_ms(10)
    world.network.block("me", "peer")
    world.time.pass_ms(TIMEOUT_MS)
    peer.answer(MetadataResponse())
    world.network.heal()
    world.time.pass_ms(1000)
    assert world.on_ended() == ["a"]


def test_a_connection_that_is_made_too_late_is_closed(world: World) -> None:
    peer = ScriptedPeer(world.network)
    world.network.block("me", "peer")
    world.call("a", after_ms=900)
    world.time.pass_ms(950)
    world.network.heal()
    world.time.pass_ms(5000)
    assert all(link.is_closed for link in peer.links)
    assert world.on_ended() == ["a"]


def test_a_lost_connection_fails_what_is_under_way_and_the_next_call_connects_anew(world: World) -> None:
    peer = ScriptedPeer(world.network)
    world.call("a")
    world.time.pass_ms(10)
    peer.links[0].close()
    world.time.pass_ms(10)
    ((_, failure),) = world.failures
    assert not failure.unsent, "it may have had an effect"
    assert world.connection.is_idle
    world.call("b")
    world.time.pass_ms(10)
    peer.answer(MetadataResponse(), number=1)
    world.time.pass_ms(10)
    assert [name for name, _ in world.answers] == ["b"]


def test_a_call_made_in_reaction_to_a_failure_gets_its_own_connection(world: World) -> None:
    peer = ScriptedPeer(world.network)
    next_request = Call(
        ApiKey.METADATA,
        lambda version: MetadataRequest([]),
        lambda answer: world.answers.append(("again", answer)),
        lambda failure: None,
        world.time.clock.now_ms() + 10 * TIMEOUT_MS,
    )
    first = Call(
        ApiKey.METADATA,
        lambda version: MetadataRequest([]),
        lambda answer: None,
        lambda failure: world.connection.call(next_request),
        world.time.clock.now_ms() + TIMEOUT_MS,
    )
    world.connection.call(first)
    world.time.pass_ms(10)
    peer.links[0].close()
    world.time.pass_ms(10)
    peer.answer(MetadataResponse(), number=1)
    world.time.pass_ms(10)
    assert [name for name, _ in world.answers] == ["again"]


@pytest.mark.parametrize("spoken", [{}, {ApiKey.METADATA: (50, 60)}])
def test_what_the_peer_does_not_speak_fails_later_and_leaves_the_connection_alone(
    world: World, spoken: dict[int, tuple[int, int]]
) -> None:
    """Not from inside `call`: the engine that asked is in the middle of its effects."""
    peer = ScriptedPeer(
        world.network, spoken={ApiKey.API_VERSIONS: (0, 4), ApiKey.DESCRIBE_CLUSTER: (0, 2)} | spoken
    )
    world.call("first", ApiKey.DESCRIBE_CLUSTER)
    world.time.pass_ms(10)
    world.call("a")
    assert world.failures == []
    world.time.end_turn()
    ((_, failure),) = world.failures
    assert (failure.unsupported, failure.unsent) == (True, True)
    peer.answer(DescribeClusterResponse())
    world.time.pass_ms(10)
    assert [name for name, _ in world.answers] == ["first"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\x00\x00\x04\x00\x00\x00\x63",  # an answer to a request that was never sent
        b"\x7f\xff\xff\xff",  # a frame above the ceiling
        b"\x00\x00\x00\x02\x00\x00",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_garbage_breaks_this_connection_only(world: World, garbage: bytes) -> None:
    peer = ScriptedPeer(world.network)
    world.call("a")
    world.time.pass_ms(10)
    peer.links[0].write(garbage)
    world.time.pass_ms(10)
    assert [name for name, _ in world.failures] == ["a"]
    assert peer.links[0].is_closed
    peer.asked.clear()
    world.call("b")
    world.time.pass_ms(10)
    peer.answer(MetadataResponse())
    world.time.pass_ms(10)
    assert [name for name, _ in world.answers] == ["b"]


def test_garbage_instead_of_a_handshake(world: World) -> None:
    peer = ScriptedPeer(world.network)
    peer.greets = False
    world.call("a")
    world.time.pass_ms(10)
    peer.links[0].write(b"\x00\x00\x00\x06\x00\x00\x00\x00\xff\xff")
    world.time.pass_ms(10)
    assert [failure.unsent for _, failure in world.failures] == [True]


def test_close_calls_nobody_back(world: World) -> None:
    peer = ScriptedPeer(world.network)
    world.call("a")
    world.time.pass_ms(10)
    world.connection.close()
    world.time.pass_ms(10 * TIMEOUT_MS)
    assert peer.links[0].is_closed
    assert world.on_ended() == []
