"""Sessions whose clients authenticate with SASL, with and without headers around tokens (KIP-43, KIP-152)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.node.sessions.authentication import (
    Authenticator,
    SessionAuthentication,
    versions_before_authentication,
)
from quorumd.ports import ANONYMOUS
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from quorumd.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from quorumd.security.credentials import NoCredentials
from quorumd.security.sasl.exchange import Proof
from quorumd.security.sasl.settings import ClientSasl, ListenerSasl, ServerSasl
from quorumd.simulator.environment.entropy import SimulatedEntropy
from tests.support.node.parts import NodeParts
from tests.support.node.session_harness import LISTENER, SUPPORTED_VERSIONS, SessionHarness

USERS = {"alice": "secret"}
SERVER = ServerSasl(("PLAIN", "SCRAM-SHA-256"), USERS)
ALICE = b"\0alice\0secret"


class AuthenticatorHarness(NodeParts):
    """The authentication of one connection."""

    def __init__(self) -> None:
        super().__init__()
        self.authenticator = Authenticator(
            {"SASL": ListenerSasl(SERVER), "CLIENTS": ListenerSasl(None, ClientSasl("PLAIN"))},
            NoCredentials(),
            self.time.clock,
            SimulatedEntropy(Random(1)),
            self.statistics,
        )
        authentication = self.authenticator.for_connection("SASL")
        assert authentication is not None
        self.authentication: SessionAuthentication = authentication


@pytest.fixture
def harness() -> AuthenticatorHarness:
    return AuthenticatorHarness()


def test_only_listeners_with_mechanisms_authenticate(harness: AuthenticatorHarness) -> None:
    assert harness.authenticator.for_connection("PLAINTEXT") is None
    assert harness.authenticator.for_connection("CLIENTS") is None


def test_nonces_differ(harness: AuthenticatorHarness) -> None:
    assert harness.authenticator.new_nonce() != harness.authenticator.new_nonce()


def test_clients_may_negotiate_versions_before_they_authenticate() -> None:
    assert set(versions_before_authentication(SUPPORTED_VERSIONS)) == {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    }


def session_with_sasl() -> SessionHarness:
    return SessionHarness(sasl={LISTENER: ListenerSasl(SERVER)})


def test_session_speaks_for_the_client_that_authenticated() -> None:
    harness = session_with_sasl()
    harness.session.origin.principal = ANONYMOUS
    harness.session.received(harness.client.request(SaslHandshakeRequest("PLAIN"), 1)[1])
    harness.session.received(harness.client.request(SaslAuthenticateRequest(ALICE), 2)[1])
    assert harness.session.origin.principal == "User:alice"
    harness.send()
    assert len(harness.requests) == 1
    assert not harness.transport.is_closed


@pytest.mark.parametrize("is_token", [True, False])
def test_session_knows_whether_its_client_logged_in_with_a_token(is_token: bool) -> None:
    """Such a client must not create tokens."""

    class Validator:
        def validate(self, token: str) -> Proof:
            return Proof("User:alice", is_token=is_token)

    server = ServerSasl(("OAUTHBEARER",), {}, Validator())
    harness = SessionHarness(sasl={LISTENER: ListenerSasl(server)})
    harness.session.received(harness.client.request(SaslHandshakeRequest("OAUTHBEARER"), 1)[1])
    token = b"n,,\x01auth=Bearer token\x01\x01"
    harness.session.received(harness.client.request(SaslAuthenticateRequest(token), 2)[1])
    assert harness.session.origin.token_authenticated is is_token


@pytest.mark.parametrize("is_logged_in", [False, True])
def test_malformed_frame_of_a_client_without_sasl_is_logged_with_a_hint(
    is_logged_in: bool, caplog: pytest.LogCaptureFixture
) -> None:
    harness = session_with_sasl()
    if is_logged_in:
        harness.session.received(harness.client.request(SaslHandshakeRequest("PLAIN"), 1)[1])
        harness.session.received(harness.client.request(SaslAuthenticateRequest(ALICE), 2)[1])
    harness.session.received(b"\xff" * 8)
    assert harness.statistics.malformed_frames == 1
    assert (f"listener {LISTENER} requires SASL" in caplog.text) is not is_logged_in


def test_session_of_a_stranger_is_closed() -> None:
    harness = session_with_sasl()
    harness.send()
    assert harness.requests == []
    assert harness.transport.is_closed


def test_stranger_sends_no_frame_larger_than_a_token() -> None:
    harness = session_with_sasl()
    harness.session.received((SERVER.max_token_bytes + 1).to_bytes(4, "big"))
    assert harness.transport.is_closed


def test_session_is_closed_after_the_response_to_a_wrong_password() -> None:
    harness = session_with_sasl()
    harness.session.received(harness.client.request(SaslHandshakeRequest("PLAIN"), 1)[1])
    harness.session.received(harness.client.request(SaslAuthenticateRequest(b"\0alice\0no"), 2)[1])
    harness.time.pass_ms(100.0)
    responses: list[Any] = [each for _, each in harness.client.receive(b"".join(harness.transport.writes))]
    assert responses[-1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert harness.transport.is_closed


def test_failed_authentication_gets_its_response_after_a_delay() -> None:
    """Otherwise a client could try passwords as fast as it can connect."""
    harness = session_with_sasl()
    harness.session.received(harness.client.request(SaslHandshakeRequest("PLAIN"), 1)[1])
    harness.time.end_turn()
    harness.transport.writes.clear()
    harness.session.received(harness.client.request(SaslAuthenticateRequest(b"\0alice\0no"), 2)[1])
    harness.time.pass_ms(99.0)
    assert not harness.transport.writes
    assert not harness.transport.is_closed
    harness.time.pass_ms(1.0)
    harness.time.end_turn()
    assert len(harness.transport.writes) == 1
    assert harness.transport.is_closed


@pytest.mark.parametrize("delay_ms", [0.0, 100.0])
def test_only_the_first_password_of_a_connection_counts(delay_ms: float) -> None:
    """Otherwise a client could try any number of passwords in one connection."""
    harness = session_with_sasl()
    harness.session.origin.principal = ANONYMOUS
    harness.session._failure_delay_ms = delay_ms
    harness.session.received(harness.client.request(SaslHandshakeRequest("PLAIN"), 1)[1])
    harness.time.end_turn()
    harness.transport.writes.clear()
    guesses = (b"\0alice\0no", ALICE, ALICE)
    requests = [harness.client.request(SaslAuthenticateRequest(each), 2)[1] for each in guesses]
    harness.session.received(b"".join(requests))
    harness.time.pass_ms(10_000.0)
    harness.time.end_turn()
    assert harness.session.origin.principal == ANONYMOUS
    assert len(harness.transport.writes) == 1
    assert harness.transport.is_closed


def test_client_that_leaves_during_the_delay_gets_no_response() -> None:
    harness = session_with_sasl()
    harness.session.received(harness.client.request(SaslHandshakeRequest("PLAIN"), 0)[1])
    harness.session.received(frame(b"\0alice\0no"))
    harness.transport.writes.clear()
    harness.session.closed("", False)
    harness.time.pass_ms(200.0)
    assert not harness.transport.writes


def frame(token: bytes) -> bytes:
    return len(token).to_bytes(4, "big") + token


def test_tokens_after_the_first_version_of_the_handshake_have_no_header() -> None:
    harness = session_with_sasl()
    harness.route = lambda session, request: session.respond(request, MetadataResponse(controller_id=9))
    harness.session.received(harness.client.request(SaslHandshakeRequest("PLAIN"), 0)[1])
    harness.client.receive(b"".join(harness.transport.writes))
    harness.transport.writes.clear()
    harness.session.received(frame(ALICE))
    assert harness.transport.writes == [frame(b"")], "the response is a token too"
    harness.transport.writes.clear()
    harness.send()
    assert harness.received() == [9], "then requests have headers again"


def test_wrong_token_without_header_closes_without_a_response() -> None:
    harness = session_with_sasl()
    harness.session.received(harness.client.request(SaslHandshakeRequest("PLAIN"), 0)[1])
    harness.transport.writes.clear()
    harness.session.received(frame(b"\0alice\0no"))
    harness.time.pass_ms(100.0)
    assert harness.transport.writes == []
    assert harness.transport.is_closed
