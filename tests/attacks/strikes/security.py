"""Attacks with mutated TLS records, SASL messages and ACL requests."""

from __future__ import annotations

import json
import ssl
import time
from base64 import urlsafe_b64encode
from contextlib import closing, suppress
from itertools import product
from random import Random

from quorumd.protocol.apis import ApiKey
from quorumd.protocol.codec import encode
from quorumd.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from quorumd.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from quorumd.protocol.wire import Message
from quorumd.security.sasl.jwt_validator import ALGORITHMS
from tests.attacks.field import SIGNING_KEY_ID
from tests.attacks.target import SIZE, Address, Peer, Target
from tests.fuzz.mutation import Mutator
from tests.fuzz.targets import security
from tests.support.node.sample_requests import full_request

MECHANISMS = {"PLAIN": "SASL PLAIN", "SCRAM-SHA-256": "SASL SCRAM"}
ACL_APIS = (ApiKey.CREATE_ACLS, ApiKey.DESCRIBE_ACLS, ApiKey.DELETE_ACLS)
IN_ONE_CONNECTION = 10
FLEXIBLE = 2
LONGEST_STRING = 32_767
LONG = 60_000
"""Bytes of a name; a whole SASL message may have 64 KiB or more."""


def _corpus(name: str) -> list[bytes]:
    (target,) = (each for each in security.TARGETS if each.name == name)
    return list(target.corpus())


def send_fuzzed_tls(target: Target) -> None:
    """Send mutated TLS handshakes, each on a new connection."""
    _send(target, target.tls, Mutator(Random(1), _corpus("TLS records")), 1)


def send_fuzzed_sasl(target: Target) -> None:
    """Send mutated messages of each SASL mechanism, after a valid SaslHandshake."""
    mutators = {name: Mutator(Random(2), _corpus(kind)) for name, kind in MECHANISMS.items()}
    for _ in target.deadline():
        for address in target.sasl:
            for mechanism, mutator in mutators.items():
                with suppress(OSError):
                    peer = Peer(address)
                    messages: list[tuple[Message, int]] = [(SaslHandshakeRequest(mechanism), 1)]
                    messages += [(SaslAuthenticateRequest(mutator.next_input()), 2) for _ in range(2)]
                    peer.send(*(peer.frame(message, version) for message, version in messages))
                    peer.close()


def stall_tls_handshakes(target: Target) -> None:
    """Begin handshakes on many connections, and send the rest of the first message byte by byte."""
    hello = _client_hello()
    peers: list[tuple[Peer, int]] = []
    for left in target.deadline():
        for address in target.tls:
            with suppress(OSError):
                peer = Peer(address)
                peer.send(hello[:100])
                peers.append((peer, 100))
        for position, (peer, sent) in enumerate(peers):
            with suppress(OSError):
                peers[position] = (peer, sent + peer.socket.send(hello[sent : sent + 1]))
        time.sleep(min(0.005, left))


def _client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def authenticate_without_end(target: Target) -> None:
    """Begin SCRAM with long messages on new connections, and never prove the password; log in with long tokens, and
    begin a second exchange during the first."""
    name = b"a" * LONG
    attributes = b",".join(b"%x=" % number for number in range(LONG))
    openings = (
        ("SCRAM-SHA-256", [b"n,,n=alice,r=" + name, b"c=biws,r=" + name + b",p=" + name]),
        ("SCRAM-SHA-256", [b"n,,n=alice,r=x," + attributes]),
        ("PLAIN", [b"\0" + name + b"\0" + name]),
        ("PLAIN", [b"\0" * LONG]),
        ("PLAIN", []),
    )
    for _ in target.deadline():
        for address in target.sasl:
            for mechanism, tokens in openings:
                with suppress(OSError):
                    peer = Peer(address)
                    messages: list[tuple[Message, int]] = [(SaslHandshakeRequest(mechanism), 1)]
                    messages += [(SaslAuthenticateRequest(token), 2) for token in tokens]
                    for message, version in messages * 10:
                        peer.request(message, version)


def send_forged_tokens(target: Target) -> None:
    """Log in with tokens as long as they may be: of every algorithm, with known and unknown keys, and without end."""
    payload = b"A" * LONG
    tokens = []
    for algorithm, key in product(ALGORITHMS, (SIGNING_KEY_ID, "unknown")):
        header = urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": key}).encode()).rstrip(b"=")
        tokens += [b".".join((header, payload, b"A" * size)) for size in (86, 342)]
    tokens += [urlsafe_b64encode(b"[" * (LONG // 2)).rstrip(b"=") + b".e30.AA", b"." * LONG]
    for _ in target.deadline():
        for address, token in product(target.sasl, tokens):
            with suppress(OSError), closing(Peer(address)) as peer:
                peer.request(SaslHandshakeRequest("OAUTHBEARER"), 1)
                peer.request(SaslAuthenticateRequest(b"n,,\x01auth=Bearer " + token + b"\x01\x01"), 2)


def send_long_names_before_login(target: Target) -> None:
    """Name absurdly long SASL mechanisms, send frames of 1 MiB before authentication, and large TLS records."""
    handshake = SaslHandshakeRequest("M" * LONGEST_STRING)
    token = SaslAuthenticateRequest(b"n,,\x01auth=Bearer " + bytes(1 << 20))
    record = b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + bytes((1 << 14) - 6)
    for _ in target.deadline():
        for secured, encrypted in zip(target.sasl, target.tls, strict=True):
            for message, version in ((handshake, 1), (token, 2)):
                with suppress(OSError), closing(Peer(secured)) as peer:
                    peer.request(message, version)
            with suppress(OSError), closing(Peer(encrypted)) as peer:
                peer.send(record * 8)
                peer.read_frame()


def send_fuzzed_acls(target: Target) -> None:
    """Send mutated ACL requests as a superuser."""
    frames = [
        key.to_bytes(2)
        + FLEXIBLE.to_bytes(2)
        + bytes(4)
        + b"\xff\xff\x00"
        + _body(full_request(key, FLEXIBLE))
        for key in ACL_APIS
    ]
    mutator = Mutator(Random(3), frames)
    framed = Mutator(Random(4), [SIZE.pack(len(frame)) + frame for frame in frames])
    _send(target, list(target.nodes.values()), mutator, IN_ONE_CONNECTION, with_size=True)
    _send(target, list(target.nodes.values()), framed, IN_ONE_CONNECTION)


def _body(message: Message) -> bytes:
    return encode(message, FLEXIBLE)


def _send(
    target: Target, addresses: list[Address], mutator: Mutator, count: int, *, with_size: bool = False
) -> None:
    for _ in target.deadline():
        for address in addresses:
            with suppress(OSError):
                peer = Peer(address)
                for _ in range(count):
                    data = mutator.next_input()
                    peer.send(SIZE.pack(len(data)) + data if with_size else data)
                peer.close()
