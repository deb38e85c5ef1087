"""PLAIN."""

from __future__ import annotations

import pytest

from quorumd.errors import AuthenticationFailed
from quorumd.security.sasl.exchange import Proof
from quorumd.security.sasl.plain import PlainClient, PlainServer

USERS = {"alice": "secret"}


def test_right_password_proves_the_user() -> None:
    server, client = PlainServer(USERS), PlainClient("alice", "secret")
    assert server.evaluate(client.evaluate(b"")) == b""
    assert server.proof == Proof("User:alice")
    assert client.is_complete


@pytest.mark.parametrize(
    "token",
    [
        *(
            b"\0alice\0wrong",
            b"\0bob\0secret",
            b"\0alice\0",
            b"\0\0secret",
            b"\0bob\0",
            b"bob\0alice\0secret",
        ),
        *(b"", b"\xff\0alice\0secret", b"alice\0secret", b"\0alice\0secret\0"),
    ],
)
def test_other_token_proves_nothing(token: bytes) -> None:
    server = PlainServer(USERS)
    with pytest.raises(AuthenticationFailed):
        server.evaluate(token)
    assert server.proof is None


def test_authorization_id_of_the_user_is_accepted() -> None:
    server = PlainServer(USERS)
    server.evaluate(b"alice\0alice\0secret")
    assert server.proof == Proof("User:alice")
