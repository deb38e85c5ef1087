"""SCRAM against itself and against the scramp library."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode

import pytest
from scramp import ScramClient as OtherClient
from scramp import ScramMechanism as OtherMechanism

from quorumd.errors import AuthenticationFailed
from quorumd.security.credentials import DelegationToken, ScramCredential
from quorumd.security.sasl import scram
from quorumd.security.sasl.exchange import Proof

SALT = b"some salt of sixteen"
NOW_MS = 1_000_000
TOKEN = DelegationToken("token-1", "User:owner", b"hmac of the token", NOW_MS + 1)


class Store:
    """One user, `a,b=c`, with the password `secret`, and one token."""

    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        if user not in ("a,b=c", "alice"):
            return None
        known = scram.BY_NAME[mechanism]
        return scram.scram_credential(known, scram.salted_password(known, "secret", SALT, 4096), SALT, 4096)

    def token(self, token_id: str) -> DelegationToken | None:
        return TOKEN if token_id == TOKEN.token_id else None


def server(mechanism: scram.Mechanism, now_ms: int = NOW_MS) -> scram.ScramServer:
    return scram.ScramServer(mechanism, Store(), lambda: "server", lambda: now_ms)


def exchange(client: scram.ScramClient, server: scram.ScramServer) -> None:
    challenge = b""
    while not client.is_complete:
        token = client.evaluate(challenge)
        if not client.is_complete:
            challenge = server.evaluate(token)


@pytest.mark.parametrize("mechanism", scram.MECHANISMS)
@pytest.mark.parametrize("name", ["alice", "a,b=c"])
def test_password_proves_the_user(mechanism: scram.Mechanism, name: str) -> None:
    side = server(mechanism)
    exchange(scram.ScramClient(mechanism, name, "secret", "client"), side)
    assert side.proof == Proof(f"User:{name}")


@pytest.mark.parametrize("mechanism", scram.MECHANISMS)
@pytest.mark.parametrize(("name", "password"), [("alice", "wrong"), ("bob", "secret")])
def test_wrong_password_or_name_proves_nothing(mechanism: scram.Mechanism, name: str, password: str) -> None:
    side = server(mechanism)
    with pytest.raises(AuthenticationFailed):
        exchange(scram.ScramClient(mechanism, name, password, "client"), side)
    assert side.proof is None


@pytest.mark.parametrize("mechanism", scram.MECHANISMS)
def test_token_proves_its_owner_until_it_expires(mechanism: scram.Mechanism) -> None:
    password = b64encode(TOKEN.hmac).decode()
    side = server(mechanism)
    exchange(scram.ScramClient(mechanism, "token-1", password, "client", is_token=True), side)
    assert side.proof == Proof("User:owner", TOKEN.expires_at_ms, is_token=True)
    with pytest.raises(AuthenticationFailed):
        exchange(
            scram.ScramClient(mechanism, "token-1", password, "client", is_token=True),
            server(mechanism, TOKEN.expires_at_ms),
        )


def test_name_of_a_token_is_not_an_user() -> None:
    mechanism = scram.MECHANISMS[0]
    with pytest.raises(AuthenticationFailed):
        exchange(scram.ScramClient(mechanism, "token-1", "secret", "client"), server(mechanism))


@pytest.mark.parametrize("mechanism", scram.MECHANISMS)
def test_client_of_another_library_authenticates(mechanism: scram.Mechanism) -> None:
    side = server(mechanism)
    client = OtherClient([mechanism.name], "alice", "secret", c_nonce="client")
    client.set_server_first(side.evaluate(client.get_client_first().encode()).decode())
    client.set_server_final(side.evaluate(client.get_client_final().encode()).decode())
    assert side.proof == Proof("User:alice")


@pytest.mark.parametrize("mechanism", scram.MECHANISMS)
def test_server_of_another_library_accepts_the_client(mechanism: scram.Mechanism) -> None:
    other = OtherMechanism(mechanism.name)
    salt, stored, server_key, iterations = other.make_auth_info("secret", iteration_count=4096)
    side = other.make_server(lambda name: (salt, stored, server_key, iterations))
    client = scram.ScramClient(mechanism, "alice", "secret", "client")
    side.set_client_first(client.evaluate(b"").decode())
    side.set_client_final(client.evaluate(side.get_server_first().encode()).decode())
    client.evaluate(side.get_server_final().encode())
    assert client.is_complete


def test_server_that_does_not_know_the_password_is_refused() -> None:
    mechanism = scram.MECHANISMS[0]
    client, side = scram.ScramClient(mechanism, "alice", "secret", "client"), server(mechanism)
    client.evaluate(side.evaluate(client.evaluate(b"")))
    with pytest.raises(AuthenticationFailed):
        client.evaluate(b"v=" + b64encode(bytes(32)))
    assert not client.is_complete


@pytest.mark.parametrize(
    "first",
    [
        *(b"r=other,s=YQ==,i=4096", b"r=client,s=YQ==,i=4096", b"r=clientX,s=YQ==,i=1"),
        *(b"r=clientX,s=YQ==,i=16385", b"r=clientX,s=?,i=4096", b"r=clientX,s=YQ==,i=x", b"\xff"),
    ],
)
def test_client_refuses_a_bad_challenge(first: bytes) -> None:
    client = scram.ScramClient(scram.MECHANISMS[0], "alice", "secret", "client")
    client.evaluate(b"")
    with pytest.raises(AuthenticationFailed):
        client.evaluate(first)


@pytest.mark.parametrize(
    "first",
    [
        *(b"", b"n,,", b"p=tls-unique,,n=alice,r=x", b"n,,n=,r=x", b"n,,n=alice,r=", b"n,,m=1,n=alice,r=x"),
        *(b"n,a=bob,n=alice,r=x", b"n,,n=al=ice,r=x", b"\xff", b"n"),
    ],
)
def test_server_refuses_a_bad_first_message(first: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        server(scram.MECHANISMS[0]).evaluate(first)


@pytest.mark.parametrize(
    "change", [("r=client", "r=other"), ("c=biws", "c=eSws"), ("p=", "p=A"), ("p=", "q=")]
)
def test_server_refuses_a_changed_final_message(change: tuple[str, str]) -> None:
    client, side = (
        scram.ScramClient(scram.MECHANISMS[0], "alice", "secret", "client"),
        server(scram.MECHANISMS[0]),
    )
    final = client.evaluate(side.evaluate(client.evaluate(b""))).decode()
    with pytest.raises(AuthenticationFailed):
        side.evaluate(final.replace(*change).encode())
    assert side.proof is None


@pytest.mark.parametrize("unsigned", ["c=biws,r=clientother", "c=eSws,r=clientserver", "r=clientserver"])
def test_server_refuses_another_exchange_signed_with_the_password(unsigned: str) -> None:
    known, side = scram.MECHANISMS[0], server(scram.MECHANISMS[0])
    first = side.evaluate(b"n,,n=alice,r=client").decode()
    salted = scram.salted_password(known, "secret", SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", known.digest)
    signature = hmac.digest(
        hashlib.sha256(client_key).digest(), f"n=alice,r=client,{first},{unsigned}".encode(), known.digest
    )
    proof = b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    with pytest.raises(AuthenticationFailed):
        side.evaluate(f"{unsigned},p={proof}".encode())
    assert side.proof is None


def test_message_with_many_attributes_is_refused_before_it_is_parsed() -> None:
    first = b"n,,n=alice,r=x"
    with pytest.raises(AuthenticationFailed, match="more than 32 attributes"):
        server(scram.MECHANISMS[0]).evaluate(first + b",a=b" * 31)
    assert server(scram.MECHANISMS[0]).evaluate(first + b",a=b" * 30).startswith(b"r=xserver,")


def test_exchange_cannot_continue_after_its_end() -> None:
    client, side = (
        scram.ScramClient(scram.MECHANISMS[0], "alice", "secret", "client"),
        server(scram.MECHANISMS[0]),
    )
    final = client.evaluate(side.evaluate(client.evaluate(b"")))
    side.evaluate(final)
    with pytest.raises(AuthenticationFailed):
        side.evaluate(final)
