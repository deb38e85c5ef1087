"""SASL on an accepted connection: before, during and after an authentication, and authenticating again."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.node.sessions.authentication import MAX_REASONS, Authenticator, SessionAuthentication
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from quorumd.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from quorumd.protocol.wire import Message
from quorumd.security.credentials import NoCredentials
from quorumd.security.sasl.exchange import Proof
from quorumd.security.sasl.settings import ListenerSasl, ServerSasl
from quorumd.simulator.environment.entropy import SimulatedEntropy
from tests.support.node.parts import NodeParts
from tests.support.node.recording_session import request_of

LIFETIME_MS = 10_000
USERS = {"alice": "secret", "bob": "other"}


class SaslHarness(NodeParts):
    """One connection to a listener with PLAIN, whose authentications are valid for LIFETIME_MS."""

    def __init__(self) -> None:
        super().__init__()
        server = ServerSasl(("PLAIN", "SCRAM-SHA-256"), USERS, max_reauth_ms={"PLAIN": LIFETIME_MS})
        self.authenticator = Authenticator(
            {"SASL": ListenerSasl(server)},
            NoCredentials(),
            self.time.clock,
            SimulatedEntropy(Random(1)),
            self.statistics,
        )
        found = self.authenticator.for_connection("SASL")
        assert found is not None
        self.session: SessionAuthentication = found

    def is_handled(self, message: Message, version: int = 0) -> bool:
        """Whether the authentication keeps a request from its handler."""
        return self.session.handles(request_of(message, version))

    def send(self, message: Message, version: int = 1) -> Any:
        """Respond to a SASL request; returns the response, None if the connection is closed without one."""
        assert self.is_handled(message, version)
        self.reply = self.session.respond(request_of(message, version), "peer")
        return self.reply.message

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> int:
        error: int = self.send(SaslHandshakeRequest(mechanism), version).error_code
        return error

    def begin_again(self) -> None:
        self.time.pass_ms(2000)
        assert self.handshake() == ErrorCode.NONE

    def authenticate(self, user: str = "alice", password: str = "secret") -> Any:
        return self.send(SaslAuthenticateRequest(f"\0{user}\0{password}".encode()))

    def log_in(self, user: str = "alice", password: str = "secret") -> Any:
        assert self.handshake() == ErrorCode.NONE
        return self.authenticate(user, password)


@pytest.fixture
def harness() -> SaslHarness:
    return SaslHarness()


def test_listener_without_sasl_has_no_authentication(harness: SaslHarness) -> None:
    assert harness.authenticator.for_connection("OTHER") is None


def test_only_api_versions_passes_before_authentication(harness: SaslHarness) -> None:
    assert not harness.is_handled(ApiVersionsRequest())
    assert harness.send(MetadataRequest(), 0) is None, "the connection is closed"
    assert harness.statistics.failed_authentications == 1


def test_nothing_passes_during_authentication(harness: SaslHarness) -> None:
    harness.handshake()
    assert harness.send(ApiVersionsRequest(), 0) is None


def test_client_is_known_after_authentication(harness: SaslHarness) -> None:
    response = harness.log_in()
    assert (response.error_code, response.session_lifetime_ms) == (0, LIFETIME_MS)
    assert harness.session.principal == "User:alice"
    assert not harness.is_handled(MetadataRequest())
    response = harness.authenticate()
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert not harness.reply.closes


def test_wrong_password_closes_the_connection(harness: SaslHarness) -> None:
    response = harness.log_in(password="guessed")
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "guessed" not in response.error_message
    assert harness.reply.closes


def test_token_without_handshake_closes_the_connection(harness: SaslHarness) -> None:
    assert harness.authenticate().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert harness.reply.closes


def test_other_mechanisms_are_refused(harness: SaslHarness) -> None:
    assert harness.handshake("GSSAPI") == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert harness.reply.message.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert harness.reply.closes


def test_handshake_cannot_begin_twice(harness: SaslHarness) -> None:
    harness.handshake()
    assert harness.handshake() == ErrorCode.ILLEGAL_SASL_STATE
    assert harness.reply.closes


def test_first_version_is_followed_by_plain_tokens(harness: SaslHarness) -> None:
    harness.handshake(version=0)
    assert harness.session.expects_plain_tokens
    harness.authenticate()
    assert not harness.session.expects_plain_tokens


def test_client_authenticates_again_in_time(harness: SaslHarness) -> None:
    harness.log_in()
    harness.time.pass_ms(0.85 * LIFETIME_MS)
    assert harness.log_in().session_lifetime_ms == LIFETIME_MS
    harness.time.pass_ms(LIFETIME_MS - 1)
    assert not harness.is_handled(MetadataRequest())


def test_authentication_ends_with_the_token(harness: SaslHarness) -> None:
    expires_at_ms = harness.time.clock.wall_ms() + LIFETIME_MS // 2

    class Validator:
        def validate(self, token: str) -> Proof:
            return Proof("User:alice", expires_at_ms)

    sasl = ServerSasl(("OAUTHBEARER",), {}, Validator(), {"OAUTHBEARER": LIFETIME_MS})
    harness.session = SessionAuthentication(harness.authenticator, sasl)
    assert harness.handshake("OAUTHBEARER") == ErrorCode.NONE
    message = SaslAuthenticateRequest(b"n,,\x01auth=Bearer token\x01\x01")
    assert harness.send(message).session_lifetime_ms == LIFETIME_MS // 2
    harness.time.pass_ms(LIFETIME_MS // 2 - 1)
    assert not harness.is_handled(MetadataRequest())
    harness.time.pass_ms(1)
    assert harness.is_handled(MetadataRequest())


def test_client_that_does_not_is_disconnected(harness: SaslHarness) -> None:
    harness.log_in()
    harness.time.pass_ms(LIFETIME_MS)
    assert harness.send(MetadataRequest(), 0) is None
    assert harness.statistics.failed_authentications == 1


def test_client_cannot_become_another_one(harness: SaslHarness) -> None:
    harness.log_in()
    harness.time.pass_ms(2000)
    assert harness.log_in("bob", "other").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert harness.reply.closes
    assert harness.session.principal == "User:alice"


def test_client_cannot_change_its_mechanism(harness: SaslHarness) -> None:
    harness.log_in()
    harness.time.pass_ms(2000)
    assert harness.handshake("SCRAM-SHA-256") == ErrorCode.UNSUPPORTED_SASL_MECHANISM


@pytest.mark.parametrize(
    ("is_logged_in", "mechanism", "problem"),
    [
        (False, "GSSAPI", "mechanism 'GSSAPI' is not enabled"),
        (True, "SCRAM-SHA-256", "is not the mechanism of the first authentication, PLAIN"),
    ],
)
def test_refused_mechanism_is_logged_with_its_problem(
    harness: SaslHarness,
    caplog: pytest.LogCaptureFixture,
    is_logged_in: bool,
    mechanism: str,
    problem: str,
) -> None:
    if is_logged_in:
        harness.log_in()
        harness.time.pass_ms(2000)
    harness.handshake(mechanism)
    assert problem in caplog.text


def test_client_cannot_authenticate_all_the_time(harness: SaslHarness) -> None:
    harness.log_in()
    harness.time.pass_ms(999)
    assert harness.handshake() == ErrorCode.ILLEGAL_SASL_STATE
    assert not harness.reply.closes
    harness.time.pass_ms(1)
    assert harness.handshake() == ErrorCode.NONE


@pytest.mark.parametrize(
    ("begin", "reason"),
    [
        (lambda harness: None, "unexpected Metadata"),
        (lambda harness: harness.handshake(), "unexpected Metadata"),
        (lambda harness: harness.log_in(), "User:alice did not re-authenticate in time"),
        (lambda harness: (harness.log_in(), harness.begin_again()), "unexpected Metadata"),
    ],
    ids=["unauthenticated", "in the first exchange", "expired", "in a later exchange"],
)
def test_refused_request_is_logged_with_its_reason(
    harness: SaslHarness,
    caplog: pytest.LogCaptureFixture,
    begin: Callable[[SaslHarness], object],
    reason: str,
) -> None:
    begin(harness)
    harness.time.pass_ms(LIFETIME_MS)
    harness.send(MetadataRequest(), 0)
    assert reason in caplog.text


def test_failures_are_logged_once_per_interval(
    harness: SaslHarness, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        harness.authenticator.log_failure("peer", "reason")
    harness.time.pass_ms(10_000)
    harness.authenticator.log_failure("peer", "reason")
    assert [record.args for record in caplog.records] == [("peer", "reason", 1), ("peer", "reason", 3)]
    assert harness.statistics.failed_authentications == 4


def test_reasons_of_failures_do_not_hide_each_other(
    harness: SaslHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """A client with the wrong password hid that another one had the wrong mechanism; clients choose its name."""
    for _ in range(3):
        for number in range(2 * MAX_REASONS):
            harness.authenticator.log_failure("peer", f"mechanism {number}")
    assert len(caplog.records) == MAX_REASONS + 1
    assert "mechanism 1 " in caplog.text
