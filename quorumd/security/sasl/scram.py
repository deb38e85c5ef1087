"""SCRAM (RFC 5802, RFC 7677): both sides prove that they know the password without sending it.

A delegation token authenticates by the same exchange: the client adds `tokenauth=true`, its name is the token's id
and its password the token's HMAC in base64 (KIP-48). The exchange costs a client milliseconds, since it salts and
hashes the password, and a server microseconds.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from quorumd.errors import AuthenticationFailed
from quorumd.security.credentials import CredentialStore, DelegationToken, ScramCredential
from quorumd.security.sasl.exchange import Proof, user


class Mechanism(NamedTuple):
    """A SCRAM mechanism."""

    name: str
    type: int
    """The number of the mechanism in records and requests."""
    digest: str
    """The name of its hash function."""


MECHANISMS: Final = (Mechanism("SCRAM-SHA-256", 1, "sha256"), Mechanism("SCRAM-SHA-512", 2, "sha512"))
BY_NAME: Final = {each.name: each for each in MECHANISMS}
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""The limit of stored credentials, as in Kafka, and of the iterations that a client computes for a server: nodes that
log in to others do so on the event loop."""
MAX_ATTRIBUTES: Final = 32
"""It takes 40 ms to separate the attributes of half a megabyte."""

_NO_BINDING: Final = "n,,"
_TOKEN_SALT: Final = b"delegation token"
_FAILED: Final = "invalid credentials"


def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Salt and hash a password (RFC 5802: Hi); deliberately takes milliseconds."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def scram_credential(mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Derive the verifier of a salted password."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", mechanism.digest), iterations)


@lru_cache(maxsize=256)
def _salted_once(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return `salted_password` from a cache: clients log in repeatedly with the same password and salt."""
    return salted_password(mechanism, password, salt, iterations)


def _token_credential(mechanism: Mechanism, token: DelegationToken) -> ScramCredential:
    password = b64encode(token.hmac).decode()
    salted = _salted_once(mechanism, password, _TOKEN_SALT, MIN_ITERATIONS)
    return scram_credential(mechanism, salted, _TOKEN_SALT, MIN_ITERATIONS)


class ScramServer:
    """The server's side; `new_nonce` provides text without commas that has not been used before."""

    def __init__(
        self,
        mechanism: Mechanism,
        store: CredentialStore,
        new_nonce: Callable[[], str],
        now_ms: Callable[[], int],
    ) -> None:
        self.proof: Proof | None = None
        self._mechanism = mechanism
        self._store = store
        self._new_nonce = new_nonce
        self._now_ms = now_ms
        self._candidate: Proof | None = None
        self._credential: ScramCredential | None = None
        self._nonce = ""
        self._binding = ""
        self._messages = ""
        """The first message of each side, which the final messages sign."""

    def evaluate(self, token: bytes) -> bytes:
        """See `SaslServer`."""
        message = _decode(token)
        if self._credential is None:
            return self._first(message)
        return self._final(message, self._credential)

    def _first(self, message: str) -> bytes:
        binding, comma, rest = message.partition(",")
        authorization_id, second_comma, bare = rest.partition(",")
        if not comma or not second_comma or binding not in ("n", "y"):
            raise AuthenticationFailed("channel binding is not supported")
        attributes = _attributes(bare)
        name, nonce = _unescape(attributes.get("n", "")), attributes.get("r", "")
        if not name or not nonce or bare.startswith("m="):
            raise AuthenticationFailed("the first SCRAM message needs a name and a nonce")
        if authorization_id and _unescape(authorization_id.removeprefix("a=")) != name:
            raise AuthenticationFailed("a client cannot act as another user")
        is_token = attributes.get("tokenauth", "").lower() == "true"
        self._credential = credential = self._token(name) if is_token else self._user(name)
        self._nonce = nonce + self._new_nonce()
        self._binding = f"{binding},{authorization_id},"
        salt = b64encode(credential.salt).decode()
        first = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._messages = f"{bare},{first}"
        return first.encode()

    def _user(self, name: str) -> ScramCredential:
        credential = self._store.scram(self._mechanism.name, name)
        if credential is None:
            raise AuthenticationFailed(_FAILED)
        self._candidate = Proof(user(name))
        return credential

    def _token(self, token_id: str) -> ScramCredential:
        token = self._store.token(token_id)
        if token is None or token.expires_at_ms <= self._now_ms():
            raise AuthenticationFailed(_FAILED)
        self._candidate = Proof(token.owner, token.expires_at_ms, is_token=True)
        return _token_credential(self._mechanism, token)

    def _final(self, message: str, credential: ScramCredential) -> bytes:
        if self.proof is not None:
            raise AuthenticationFailed("the exchange has ended")
        unsigned, _, signature = message.rpartition(",p=")
        attributes = _attributes(unsigned)
        binding = b64encode(self._binding.encode()).decode()
        is_bound = attributes.get("c") == binding and attributes.get("r") == self._nonce
        signed = f"{self._messages},{unsigned}".encode()
        digest = self._mechanism.digest
        client_signature = hmac.digest(credential.stored_key, signed, digest)
        client_key = _xor(_decode_base64(signature), client_signature)
        stored_key = hashlib.new(digest, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key) or not is_bound:
            raise AuthenticationFailed(_FAILED)
        self.proof = self._candidate
        return b"v=" + b64encode(hmac.digest(credential.server_key, signed, digest))


class ScramClient:
    """The client's side."""

    def __init__(
        self, mechanism: Mechanism, name: str, password: str, nonce: str, *, is_token: bool = False
    ) -> None:
        self.mechanism = mechanism.name
        self.is_complete = False
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        escaped = name.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={escaped},r={nonce}" + (",tokenauth=true" if is_token else "")
        self._server_signature: bytes | None = None

    def evaluate(self, challenge: bytes) -> bytes:
        """See `SaslClient`."""
        if not challenge and self._server_signature is None:
            return f"{_NO_BINDING}{self._bare}".encode()
        message = _decode(challenge)
        if self._server_signature is None:
            return self._prove(message)
        if not hmac.compare_digest(_decode_base64(message.removeprefix("v=")), self._server_signature):
            raise AuthenticationFailed("the server does not know the password of this client")
        self.is_complete = True
        return b""

    def _prove(self, message: str) -> bytes:
        attributes = _attributes(message)
        nonce, iterations = attributes.get("r", ""), attributes.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationFailed("the server's nonce does not begin with the client's nonce")
        if not (iterations.isascii() and iterations.isdecimal() and len(iterations) < 9):
            raise AuthenticationFailed("the server's iteration count is not a number")
        if not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
            raise AuthenticationFailed(
                f"the server's iteration count is {iterations}; expected {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            )
        salt = _decode_base64(attributes.get("s", ""))
        salted = _salted_once(self._mechanism, self._password, salt, int(iterations))
        digest = self._mechanism.digest
        client_key = hmac.digest(salted, b"Client Key", digest)
        stored_key = hashlib.new(digest, client_key).digest()
        unsigned = f"c={b64encode(_NO_BINDING.encode()).decode()},r={nonce}"
        signed = f"{self._bare},{message},{unsigned}".encode()
        server_key = hmac.digest(salted, b"Server Key", digest)
        self._server_signature = hmac.digest(server_key, signed, digest)
        proof = _xor(client_key, hmac.digest(stored_key, signed, digest))
        return f"{unsigned},p={b64encode(proof).decode()}".encode()


def _decode(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("the SCRAM message is not UTF-8") from None


def _attributes(message: str) -> dict[str, str]:
    """The attributes of a message by name; the first of duplicates applies. Raises AuthenticationFailed."""
    if message.count(",") >= MAX_ATTRIBUTES:
        raise AuthenticationFailed(f"the SCRAM message has more than {MAX_ATTRIBUTES} attributes")
    found: dict[str, str] = {}
    for part in message.split(","):
        name, equals, value = part.partition("=")
        if equals:
            found.setdefault(name, value)
    return found


def _unescape(name: str) -> str:
    if "=" in name.replace("=2C", "").replace("=3D", ""):
        raise AuthenticationFailed("the name in the SCRAM message is not escaped")
    return name.replace("=2C", ",").replace("=3D", "=")


def _decode_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise AuthenticationFailed("the SCRAM message has invalid base64") from None


def _xor(left: bytes, right: bytes) -> bytes:
    if len(left) != len(right):
        raise AuthenticationFailed(_FAILED)
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
