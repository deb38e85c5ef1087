"""Bytes of clients before authentication (TLS records, SASL messages, tokens), keys, and hosts of ACLs."""

from __future__ import annotations

import json
import ssl
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from quorumd.client.tls import build_contexts
from quorumd.errors import AuthenticationFailed, ConfigError
from quorumd.runtime.tls import Handshakes, TlsStream
from quorumd.security.acls import AclIndex, host_key, host_of_peer, is_valid_range, java_host
from quorumd.security.credentials import DelegationToken, ScramCredential
from quorumd.security.principals import PrincipalMapper
from quorumd.security.sasl.jwt_validator import JwtRules, JwtValidator, parse_key_set
from quorumd.security.sasl.oauth_bearer import OAuthBearerServer
from quorumd.security.sasl.plain import PlainServer
from quorumd.security.sasl.scram import (
    BY_NAME,
    ScramClient,
    ScramServer,
    salted_password,
    scram_credential,
)
from quorumd.security.tls import KeyStore, TlsSettings, TrustStore
from tests.fuzz.target import Parse, Target
from tests.support.security.certificates import Certificates

NOW_S = 1_800_000_000
MECHANISM = BY_NAME["SCRAM-SHA-256"]
SIGNING_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SEPARATOR = b"\n"


def _base64url(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


# ---- SASL


class _Users:
    """Implements `CredentialStore` with the user alice and one token."""

    @cache  # noqa: B019  # one instance for the whole process
    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        if user != "alice":
            return None
        salted = salted_password(MECHANISM, "secret", b"salt", 4096)
        return scram_credential(MECHANISM, salted, b"salt", 4096)

    def token(self, token_id: str) -> DelegationToken | None:
        return DelegationToken("token", "User:bob", b"hmac", NOW_S * 2000) if token_id == "token" else None


USERS = _Users()


def _scram_server() -> ScramServer:
    return ScramServer(MECHANISM, USERS, lambda: "server", lambda: NOW_S * 1000)


@cache
def _scram_exchanges() -> list[bytes]:
    found = []
    for name, password, is_token in (
        ("alice", "secret", False),
        ("token", b64encode(b"hmac").decode(), True),
    ):
        client = ScramClient(MECHANISM, name, password, "client", is_token=is_token)
        first = client.evaluate(b"")
        challenge = _scram_server().evaluate(first)
        found += [first + SEPARATOR + client.evaluate(challenge) + SEPARATOR + challenge]
    return [
        *found,
        b"n,a=alice,n=alice,r=x" + SEPARATOR + b"c=biws,r=xserver,p=YQ==" + SEPARATOR + b"r=x,s=YQ==,i=1",
    ]


def _exchange_scram(data: bytes) -> None:
    """Send the first and the final message to a server, and a challenge to a client."""
    first, _, rest = data.partition(SEPARATOR)
    final, _, challenge = rest.partition(SEPARATOR)
    client = ScramClient(MECHANISM, "alice", "secret", "client")
    client.evaluate(b"")
    server = _scram_server()
    try:
        server.evaluate(first)
        server.evaluate(final)
    except AuthenticationFailed:
        assert server.proof is None
    # A client computes up to its maximum of iterations if a server demands it, which would take too long here.
    if b"i=4096" in challenge or b",i=" not in challenge:
        client.evaluate(challenge)


def _plain_corpus() -> list[bytes]:
    return [b"\0alice\0secret", b"alice\0alice\0secret", b"\0bob\0secret", "\0\u00e9\0x".encode()]


def _log_in_plainly(data: bytes) -> None:
    server = PlainServer({"alice": "secret"})
    server.evaluate(data)
    assert server.proof is not None
    assert data.endswith(b"\0alice\0secret")


# ---- tokens


def _key_set() -> bytes:
    public = SIGNING_KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    key = {
        "kty": "OKP",
        "crv": "Ed25519",
        "kid": "1",
        "use": "sig",
        "alg": "EdDSA",
        "x": _base64url(public).decode(),
    }
    return json.dumps({"keys": [key]}).encode()


def _claims() -> bytes:
    return json.dumps(
        {"iss": "issuer", "aud": "quorum", "sub": "alice", "exp": NOW_S + 100, "nbf": NOW_S, "iat": NOW_S}
    ).encode()


def _token(claims: bytes) -> bytes:
    """Return a token with a valid signature of any claims."""
    signed = _base64url(json.dumps({"alg": "EdDSA", "kid": "1"}).encode()) + b"." + _base64url(claims)
    return signed + b"." + _base64url(SIGNING_KEY.sign(signed))


def _bearer(token: bytes) -> bytes:
    return b"n,,\x01auth=Bearer " + token + b"\x01\x01"


def _make_bearer(wrap: Callable[[bytes], bytes]) -> Parse:
    validator = JwtValidator(JwtRules(("quorum",), "issuer"), lambda: NOW_S * 1000)
    validator.load_keys(_key_set().decode())

    def log_in(data: bytes) -> None:
        server = OAuthBearerServer(validator)
        if server.evaluate(wrap(data)):
            raise AuthenticationFailed("the token is invalid")
        assert server.proof is not None

    return log_in


def _bearer_corpus() -> list[bytes]:
    return [_bearer(_token(_claims())), b"n,a=alice," + _bearer(_token(_claims()))[3:], _bearer(b"a.b.c")]


def _parse_key_set(data: bytes) -> None:
    parse_key_set(data.decode(errors="replace"))


# ---- TLS


class _Files:
    """TLS contexts of a server and a client with certificates of one authority, and the server's PEM text."""

    def __init__(self) -> None:
        with TemporaryDirectory() as directory:
            certificates = Certificates(Path(directory))
            path = certificates.issue("node")
            self.pem = path.read_bytes()
            self.trusted = certificates.trusted.read_bytes()
            store = TrustStore(location=str(certificates.trusted))
            contexts = build_contexts(TlsSettings(KeyStore(location=str(path)), store, "required"))
            self.server, self.client = contexts.server, contexts.client


@cache
def _files() -> _Files:
    return _Files()


@cache
def _flights() -> list[bytes]:
    """Return the first flight of a client, a complete handshake followed by a request, and other bytes."""
    files = _files()
    (to_server, to_client) = ssl.MemoryBIO(), ssl.MemoryBIO()
    assert files.server is not None
    server = files.server.wrap_bio(to_server, to_client, server_side=True)
    arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = files.client.wrap_bio(arriving, leaving, server_hostname="localhost")
    sent = []
    for _ in range(3):
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
            arriving.write(to_client.read())
            if leaving.pending:
                sent.append(leaving.read())
                to_server.write(sent[-1])
    client.write(b"a request")
    sent.append(leaving.read())
    return [sent[0], b"".join(sent), sent[0] * 3, b"\x15\x03\x03\x00\x02\x02\x28", b"GET / HTTP/1.1\r\n\r\n"]


class _Loop:
    """The parts of an event loop and a transport that a handshake uses, without threads."""

    def __init__(self) -> None:
        self.handshakes: Any = Handshakes(self)  # type: ignore[arg-type]  # the parts that it uses
        self.failure = ""

    def call_later(self, delay_s: float, callback: Callable[..., None], *arguments: object) -> _Loop:
        return self

    def cancel(self) -> None: ...

    def call_soon(self, callback: Callable[[], None]) -> None: ...

    def run_in_executor(self, executor: object, step: Callable[[], None]) -> Future[None]:
        done: Future[None] = Future()
        try:
            done.set_result(step())
        except ssl.SSLError as error:
            done.set_exception(error)
        return done

    def write(self, data: bytes) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def fail(self, reason: str) -> None:
        self.failure = reason


def _accept(data: bytes) -> None:
    loop, context = _Loop(), _files().server
    assert context is not None
    stream = TlsStream(context, loop.handshakes, PrincipalMapper("DEFAULT"))
    transport: Any = loop
    stream.start(transport, lambda: None, loop.fail)
    for position in range(0, len(data), 1000):
        stream.receive(data[position : position + 1000])
    stream.connection_lost()
    assert loop.handshakes.accepted_in_progress == 0
    if loop.failure:
        raise ConfigError(loop.failure)


def _pem_corpus() -> list[bytes]:
    return [_files().pem, _files().trusted, _files().trusted * 3]


def _read_pem(data: bytes) -> None:
    text = data.decode(errors="replace")
    build_contexts(TlsSettings(KeyStore(certificate_chain=text, key=text), TrustStore(certificates=text)))


# ---- hosts of ACLs


def _hosts_corpus() -> list[bytes]:
    return [
        b"10.0.0.0/8\n10.1.2.3",
        b"::1\n0:0:0:0:0:0:0:1",
        b"*\n[::1]:9092",
        b"fe80::/10\nfe80::1%eth0",
        b"a\nb",
    ]


def _match_hosts(data: bytes) -> None:
    allowed, _, host = data.decode(errors="replace").partition("\n")
    is_valid_range(allowed)
    index = AclIndex()
    index.range_lengths = {4: (8,), 6: (10,)}
    index.host_keys(java_host(host))
    host_key(allowed)
    host_of_peer(host)


FAILED = (AuthenticationFailed,)
TARGETS = (
    Target("SASL PLAIN", 1, _plain_corpus, lambda: _log_in_plainly, FAILED, takes_large=False),
    Target("SASL SCRAM", 2, _scram_exchanges, lambda: _exchange_scram, FAILED, takes_large=False),
    Target("SASL OAUTHBEARER", 2, _bearer_corpus, partial(_make_bearer, bytes), FAILED, takes_large=False),
    Target(
        "token claims",
        1,
        lambda: [_claims()],
        partial(_make_bearer, lambda claims: _bearer(_token(claims))),
        FAILED,
        (b"NaN", b"1e999", b"null", b'""', b"[]"),
        takes_large=False,
    ),
    Target(
        "JSON web key sets", 1, lambda: [_key_set()], lambda: _parse_key_set, (ValueError,), takes_large=False
    ),
    Target("TLS records", 1, _flights, lambda: _accept, (ssl.SSLError, ConfigError), takes_large=False),
    Target("PEM", 0.5, _pem_corpus, lambda: _read_pem, (ConfigError,), takes_large=False),
    Target("hosts of ACLs", 1, _hosts_corpus, lambda: _match_hosts, (), takes_large=False),
)
