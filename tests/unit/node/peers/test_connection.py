from __future__ import annotations

from typing import Any

import pytest

from quorumd.node.peers.connection import (
    REAUTHENTICATION_SHARE,
    Call,
    Failure,
    PeerConnection,
    PeerSettings,
    Purpose,
)
from quorumd.node.peers.connections import PeerConnections
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from quorumd.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from quorumd.security.sasl.settings import ClientSasl
from quorumd.simulator.environment.stream import Side
from tests.support.node.parts import NodeParts
from tests.support.node.scripted_peer import ScriptedPeer

SETTINGS = PeerSettings("quorumd-test")
TIMEOUT_MS = 500.0


class ConnectionHarness(NodeParts):
    """A connection to the host `peer`; records responses, failures and negotiated versions."""

    def __init__(self, settings: PeerSettings = SETTINGS) -> None:
        super().__init__()
        self.connection = PeerConnection(self.network.host("me"), self.time.clock, "peer", 9092, settings)
        self.responses: list[tuple[str, Any]] = []
        self.failures: list[tuple[str, Failure]] = []
        self.versions: list[int] = []

    def call(self, name: str, api_key: int = ApiKey.METADATA, after_ms: float = TIMEOUT_MS) -> None:
        def build(version: int) -> Any:
            self.versions.append(version)
            return MetadataRequest([]) if api_key == ApiKey.METADATA else DescribeClusterRequest()

        call = Call(
            api_key,
            build,
            lambda response: self.responses.append((name, response)),
            lambda failure: self.failures.append((name, failure)),
            self.time.clock.now_ms() + after_ms,
        )
        self.connection.call(call)

    def on_ended(self) -> list[str]:
        return [name for name, _ in self.responses] + [name for name, _ in self.failures]


@pytest.fixture
def harness() -> ConnectionHarness:
    return ConnectionHarness()


def test_versions_are_negotiated_before_the_first_call(harness: ConnectionHarness) -> None:
    peer = ScriptedPeer(
        harness.network, supported_versions={ApiKey.API_VERSIONS: (0, 4), ApiKey.METADATA: (0, 5)}
    )
    harness.call("a")
    harness.time.pass_ms(10)
    assert harness.versions == [5]
    assert [request.client_id for request in peer.pending] == ["quorumd-test"]
    peer.respond(MetadataResponse())
    harness.time.pass_ms(10)
    assert [name for name, _ in harness.responses] == ["a"]


@pytest.mark.stand_in
@pytest.mark.parametrize("purpose", list(Purpose))
def test_only_hosts_of_voters_get_reserved_connections(
    harness: ConnectionHarness, purpose: Purpose, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any client may have announced the other addresses."""
    reserved: list[str] = []
    monkeypatch.setattr(Side, "reserve_for_host", lambda transport: reserved.append(transport.peer))
    connections = PeerConnections(harness.network.host("me"), harness.time.clock, SETTINGS)
    peer = ScriptedPeer(harness.network)
    deadline_ms = harness.time.clock.now_ms() + TIMEOUT_MS
    call = Call(ApiKey.METADATA, lambda version: MetadataRequest([]), print, print, deadline_ms)
    connections.call("peer", 9092, call, purpose)
    harness.time.pass_ms(10)
    assert len(peer.pending) == 1
    assert reserved == (["peer:9092"] if purpose in (Purpose.FETCH, Purpose.QUORUM) else [])


def test_calls_share_a_connection_and_get_responses_in_order(harness: ConnectionHarness) -> None:
    peer = ScriptedPeer(harness.network)
    for name in "abc":
        harness.call(name)
    harness.time.pass_ms(10)
    harness.call("d")
    harness.time.pass_ms(10)
    assert len(peer.links) == 1
    for controller_id in range(4):
        peer.respond(MetadataResponse(controller_id=controller_id))
    harness.time.pass_ms(10)
    assert [(name, response.controller_id) for name, response in harness.responses] == [
        ("a", 0),
        ("b", 1),
        ("c", 2),
        ("d", 3),
    ]
    harness.time.pass_ms(10 * TIMEOUT_MS)
    assert harness.failures == [], "calls with a response are not overdue"
    assert not peer.links[0].is_closed


@pytest.mark.parametrize(("lifetime_ms", "is_renewed"), [(10_000, True), (0, False)])
def test_authentication_is_renewed_before_its_lifetime_ends(lifetime_ms: int, is_renewed: bool) -> None:
    login = ClientSasl("PLAIN", "me", "secret")
    harness = ConnectionHarness(
        PeerSettings("quorumd-test", new_sasl_client=lambda: login.new_client("nonce"))
    )
    peer = ScriptedPeer(harness.network)
    names: list[str] = []

    def exchange(call: str) -> list[str]:
        """Requests of the peer until this call has its response."""
        names.clear()
        harness.call(call)
        while call not in harness.on_ended():
            harness.time.pass_ms(10)
            names.append(peer.pending[0].message.NAME)
            peer.respond(response_to[names[-1]])
            harness.time.pass_ms(10)
        return names

    response_to = {
        "SaslHandshakeRequest": SaslHandshakeResponse(0, ["PLAIN"]),
        "SaslAuthenticateRequest": SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms),
        "MetadataRequest": MetadataResponse(),
    }
    whole = ["SaslHandshakeRequest", "SaslAuthenticateRequest", "MetadataRequest"]
    assert exchange("a") == whole
    harness.time.pass_ms(REAUTHENTICATION_SHARE * 10_000 - 100)
    assert exchange("b") == ["MetadataRequest"]
    harness.time.pass_ms(100)
    assert exchange("c") == (whole if is_renewed else ["MetadataRequest"])


def test_refused_connection_fails_calls_as_refused_and_unsent(harness: ConnectionHarness) -> None:
    harness.call("a")
    harness.time.pass_ms(10)
    ((_, failure),) = harness.failures
    assert failure.refused
    assert failure.unsent


def test_timeout_of_a_connection_attempt_is_not_a_refusal(harness: ConnectionHarness) -> None:
    harness.network.block("me", "peer")
    harness.call("a")
    harness.time.pass_ms(TIMEOUT_MS - 1)
    assert harness.failures == []
    harness.time.pass_ms(1)
    ((_, failure),) = harness.failures
    assert failure.unsent
    assert not failure.refused
    assert harness.connection.is_idle


def test_call_times_out_if_the_handshake_gets_no_response(harness: ConnectionHarness) -> None:
    peer = ScriptedPeer(harness.network)
    peer.greets = False
    harness.call("a")
    harness.time.pass_ms(TIMEOUT_MS)
    assert harness.failures[0][1].unsent
    harness.time.pass_ms(10)
    assert peer.links[0].is_closed


def test_one_overdue_call_fails_all_calls_of_its_connection(harness: ConnectionHarness) -> None:
    """Responses arrive in order, so later calls cannot complete in time either; all may have had an effect."""
    peer = ScriptedPeer(harness.network)
    harness.call("a")
    harness.call("b", after_ms=10 * TIMEOUT_MS)
    harness.time.pass_ms(TIMEOUT_MS)
    assert [(name, failure.unsent) for name, failure in harness.failures] == [("a", False), ("b", False)]
    peer.pending.clear()
    harness.call("c")
    harness.time.pass_ms(10)
    assert len(peer.links) == 2
    peer.respond(MetadataResponse())
    harness.time.pass_ms(10)
    assert [name for name, _ in harness.responses] == ["c"]


def test_late_responses_of_an_abandoned_connection_are_ignored(harness: ConnectionHarness) -> None:
    peer = ScriptedPeer(harness.network)
    harness.call("a")
    harness.time.pass_ms(10)
    harness.network.block("me", "peer")
    harness.time.pass_ms(TIMEOUT_MS)
    peer.respond(MetadataResponse())
    harness.network.heal()
    harness.time.pass_ms(1000)
    assert harness.on_ended() == ["a"]


def test_connection_established_after_the_timeout_is_closed(harness: ConnectionHarness) -> None:
    peer = ScriptedPeer(harness.network)
    harness.network.block("me", "peer")
    harness.call("a", after_ms=900)
    harness.time.pass_ms(950)
    harness.network.heal()
    harness.time.pass_ms(5000)
    assert all(link.is_closed for link in peer.links)
    assert harness.on_ended() == ["a"]


def test_lost_connection_fails_calls_in_flight_and_the_next_call_reconnects(
    harness: ConnectionHarness,
) -> None:
    peer = ScriptedPeer(harness.network)
    harness.call("a")
    harness.time.pass_ms(10)
    peer.links[0].close()
    harness.time.pass_ms(10)
    ((_, failure),) = harness.failures
    assert not failure.unsent, "it may have had an effect"
    assert harness.connection.is_idle
    harness.call("b")
    harness.time.pass_ms(10)
    peer.respond(MetadataResponse(), number=1)
    harness.time.pass_ms(10)
    assert [name for name, _ in harness.responses] == ["b"]


def test_call_made_in_a_failure_callback_gets_a_new_connection(harness: ConnectionHarness) -> None:
    peer = ScriptedPeer(harness.network)
    next_request = Call(
        ApiKey.METADATA,
        lambda version: MetadataRequest([]),
        lambda response: harness.responses.append(("again", response)),
        lambda failure: None,
        harness.time.clock.now_ms() + 10 * TIMEOUT_MS,
    )
    first = Call(
        ApiKey.METADATA,
        lambda version: MetadataRequest([]),
        lambda response: None,
        lambda failure: harness.connection.call(next_request),
        harness.time.clock.now_ms() + TIMEOUT_MS,
    )
    harness.connection.call(first)
    harness.time.pass_ms(10)
    peer.links[0].close()
    harness.time.pass_ms(10)
    peer.respond(MetadataResponse(), number=1)
    harness.time.pass_ms(10)
    assert [name for name, _ in harness.responses] == ["again"]


@pytest.mark.parametrize("supported_versions", [{}, {ApiKey.METADATA: (50, 60)}])
def test_unsupported_call_fails_later_and_keeps_the_connection(
    harness: ConnectionHarness, supported_versions: dict[int, tuple[int, int]]
) -> None:
    """Not within `call`: the engine is applying its effects."""
    peer = ScriptedPeer(
        harness.network,
        supported_versions={ApiKey.API_VERSIONS: (0, 4), ApiKey.DESCRIBE_CLUSTER: (0, 2)}
        | supported_versions,
    )
    harness.call("first", ApiKey.DESCRIBE_CLUSTER)
    harness.time.pass_ms(10)
    harness.call("a")
    assert harness.failures == []
    harness.time.end_turn()
    ((_, failure),) = harness.failures
    assert (failure.unsupported, failure.unsent) == (True, True)
    peer.respond(DescribeClusterResponse())
    harness.time.pass_ms(10)
    assert [name for name, _ in harness.responses] == ["first"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\x00\x00\x04\x00\x00\x00\x63",  # a response to a request that was never sent
        b"\x7f\xff\xff\xff",  # a frame above the size limit
        b"\x00\x00\x00\x02\x00\x00",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_malformed_response_closes_only_its_connection(harness: ConnectionHarness, garbage: bytes) -> None:
    peer = ScriptedPeer(harness.network)
    harness.call("a")
    harness.time.pass_ms(10)
    peer.links[0].write(garbage)
    harness.time.pass_ms(10)
    assert [name for name, _ in harness.failures] == ["a"]
    assert peer.links[0].is_closed
    peer.pending.clear()
    harness.call("b")
    harness.time.pass_ms(10)
    peer.respond(MetadataResponse())
    harness.time.pass_ms(10)
    assert [name for name, _ in harness.responses] == ["b"]


def test_malformed_handshake_fails_the_call(harness: ConnectionHarness) -> None:
    peer = ScriptedPeer(harness.network)
    peer.greets = False
    harness.call("a")
    harness.time.pass_ms(10)
    peer.links[0].write(b"\x00\x00\x00\x06\x00\x00\x00\x00\xff\xff")
    harness.time.pass_ms(10)
    assert [failure.unsent for _, failure in harness.failures] == [True]


def test_close_makes_no_callbacks(harness: ConnectionHarness) -> None:
    peer = ScriptedPeer(harness.network)
    harness.call("a")
    harness.time.pass_ms(10)
    harness.connection.close()
    harness.time.pass_ms(10 * TIMEOUT_MS)
    assert peer.links[0].is_closed
    assert harness.on_ended() == []


def test_later_call_times_out_after_an_earlier_one_got_its_response(harness: ConnectionHarness) -> None:
    peer = ScriptedPeer(harness.network)
    harness.call("a")
    harness.call("b", after_ms=2 * TIMEOUT_MS)
    harness.time.pass_ms(10)
    peer.respond(MetadataResponse())
    harness.time.pass_ms(2 * TIMEOUT_MS)
    assert [name for name, _ in harness.responses] == ["a"]
    assert [name for name, _ in harness.failures] == ["b"]


def test_failed_handshake_fails_the_calls_at_once(harness: ConnectionHarness) -> None:
    peer = ScriptedPeer(harness.network, supported_versions={ApiKey.API_VERSIONS: (9, 9)})
    harness.call("a")
    harness.time.pass_ms(10)
    assert [name for name, _ in harness.failures] == ["a"]
    assert peer.links[0].is_closed
