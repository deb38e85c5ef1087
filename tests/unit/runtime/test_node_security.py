"""Keys and tokens of OAUTHBEARER on a node: read at the start, refreshed, and read again for an unknown key."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from quorumd.config.jaas import JaasConfig
from quorumd.config.security import JwksSource, ListenerSecurity, SaslLogin, SaslServerSettings
from quorumd.errors import AuthenticationFailed
from quorumd.runtime.security import RETRY_S, NodeSecurity
from quorumd.security.sasl.jwt_validator import JwtRules
from quorumd.security.sasl.settings import ClientSasl, ServerSasl


class Loop:
    """The part of an event loop that is used: jobs run at once, and a test fires the timers."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now_s

    def run_in_executor(self, executor: None, job: Callable[[], float]) -> Future[float]:
        done: Future[float] = Future()
        done.set_result(job())
        return done

    def call_soon(self, callback: Callable[[], None]) -> None:
        raise AssertionError("nothing is decrypted")

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Loop:
        self.timers.append((delay_s, callback))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def fire(self) -> None:
        self.timers.pop()[1]()


class Node:
    """A node with keys and its own token in files."""

    def __init__(self, directory: Path) -> None:
        self.keys, self.token = directory / "keys.json", directory / "token"
        source = JwksSource(f"file://{self.keys}", 60_000, JwtRules(("kafka",), "issuer"))
        login = SaslLogin("OAUTHBEARER", JaasConfig("OAuthBearer", {}), f"file://{self.token}")
        server = SaslServerSettings(("OAUTHBEARER",), {}, source, {}, 1 << 16)
        self.loop = Loop()
        self.security = NodeSecurity(
            {"SASL": ListenerSecurity("SASL_PLAINTEXT", None, server, login)},
            cast("Any", self.loop),
            lambda name, expires_s: None,
        )

    @property
    def server(self) -> ServerSasl:
        found = self.security.sasl["SASL"].server
        assert found is not None
        return found

    @property
    def client(self) -> ClientSasl:
        found = self.security.sasl["SASL"].client
        assert found is not None
        return found

    def accepts(self, token: str) -> bool:
        assert self.server.validator is not None
        try:
            return self.server.validator.validate(token).principal == "User:alice"
        except AuthenticationFailed:
            return False

    def new_key(self, name: str) -> str:
        """Replace the keys by a new one; returns a token that it signed."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        self.keys.write_text(json.dumps({"keys": [public | {"kid": name}]}))
        claims = {"sub": "alice", "aud": "kafka", "iss": "issuer", "exp": time.time() + 600}
        return jwt.encode(claims, key, algorithm="ES256", headers={"kid": name})


@pytest.fixture
def node(tmp_path: Path) -> Node:
    found = Node(tmp_path)
    found.token.write_text("own token")
    return found


def test_keys_are_read_at_the_start_and_refreshed(node: Node) -> None:
    first = node.new_key("one")
    assert not node.accepts(first)
    node.security.start()
    assert node.accepts(first)
    second = node.new_key("one")
    refreshes = [fire for delay_s, fire in node.loop.timers if delay_s == 60]
    assert len(refreshes) == 1
    refreshes[0]()
    assert node.accepts(second)
    assert not node.accepts(first)


def test_unknown_key_has_the_keys_read_again_at_most_once_per_interval(node: Node) -> None:
    node.new_key("one")
    node.security.start()
    second = node.new_key("two")
    assert not node.accepts(second)
    assert not node.accepts(second), "the keys were read less than RETRY_S ago"
    node.loop.now_s += RETRY_S
    assert not node.accepts(second), "this token has the keys read"
    assert node.accepts(second)


def test_unreadable_keys_are_retried_and_logged(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.security.start()
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert str(node.keys) in warnings[0]
    token = node.new_key("one")
    (retry,) = [fire for delay_s, fire in node.loop.timers if delay_s == RETRY_S]
    retry()
    assert node.accepts(token)


def test_own_token_is_renewed(node: Node) -> None:
    node.new_key("one")
    node.security.start()
    first = node.client.new_client("nonce").evaluate(b"")
    assert b"own token" in first
    node.token.write_text("another")
    node.security.reload()
    assert b"another" in node.client.new_client("nonce").evaluate(b"")
    node.security.close()
    assert node.loop.timers == []
