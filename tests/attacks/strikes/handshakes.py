"""Attacks on TLS before and beside requests: huge certificates, handshakes that stop half-way, further handshakes on
one connection, and clients that read nothing."""

from __future__ import annotations

import resource
import ssl
import time
from contextlib import closing, suppress
from itertools import cycle, product
from pathlib import Path

from tests.attacks.strikes.tls import address_without_certificate, client_context, client_hello, in_threads
from tests.attacks.target import Address, Peer, Target
from tests.support.security import key_updates, renegotiation
from tests.support.security.forged_certificates import Forger

CLIENTS = 4
HALF_OPEN = 4000
"""More connections than unfinished handshakes of a node may be pending."""
HELLOS = 5000
UPDATES = 5000
SMALL_BUFFER = 4096
PIECE = b"\x16\x03\x01\x40\x00" + b"\x01\x01\x00\x00" + bytes((1 << 14) - 4)
"""A record of the largest size, which begins a message of 64 KiB."""
PIECES = 32


def present_huge_certificates(target: Target) -> None:
    """Authenticate with certificates of an unknown authority that have thousands of names, with long chains, and with
    many certificates of the same name, where clients must and where they may have one; and with a certificate of the
    node's own authority that has thousands of names."""
    forger = Forger(Path(target.certificates))
    contexts = [_with_certificate(path) for path in (*forger.untrusted(), forger.trusted())]
    pairs = cycle(product([*target.tls, *target.optional_tls], contexts))
    in_threads(target, CLIENTS, lambda target, number: _shake_hands(*next(pairs)))


def _shake_hands(address: Address, context: ssl.SSLContext) -> None:
    with (
        suppress(OSError, ssl.SSLError),
        closing(Peer(address)) as peer,
        context.wrap_socket(peer.socket) as stream,
    ):
        stream.settimeout(0.2)
        stream.recv(1)


def _with_certificate(path: Path) -> ssl.SSLContext:
    context = client_context()
    context.load_cert_chain(path)
    return context


def leave_handshakes_half_open(target: Target) -> None:
    """Send the first message of a handshake on thousands of connections, and nothing after the server's response."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    hello = client_hello()
    peers: list[Peer] = []
    addresses = cycle(target.tls)
    for _ in target.deadline():
        if len(peers) < HALF_OPEN:
            with suppress(OSError):
                peers.append(peer := Peer(next(addresses)))
                peer.send(hello)
        else:
            time.sleep(0.01)


def send_long_handshakes(target: Target) -> None:
    """Send half a megabyte on each of many connections before the handshake is complete, as fast as the node closes
    them."""
    peers: list[Peer] = []
    addresses = cycle(target.tls)
    for _ in target.deadline():
        with suppress(OSError):
            peers.append(peer := Peer(next(addresses)))
            peer.socket.setblocking(False)
            peer.send(PIECE * PIECES)
        if len(peers) > HALF_OPEN // 10:
            peers.pop(0).close()


def renegotiate(target: Target) -> None:
    """Begin another handshake again and again on connections with TLS 1.2, without reading the refusals."""
    in_threads(target, CLIENTS, _renegotiate)


def _renegotiate(target: Target, number: int) -> None:
    with suppress(OSError), closing(Peer(address_without_certificate(target, number), SMALL_BUFFER)) as peer:
        client = renegotiation.connect(peer.socket, client_context())
        batch = b"".join(client.hello() for _ in range(HELLOS))
        for _ in target.deadline():
            peer.send(batch)
            batch = b"".join(client.hello() for _ in range(HELLOS))


def request_key_updates(target: Target) -> None:
    """Request changes of the server's keys on connections from which nothing is read."""
    in_threads(target, CLIENTS, _request_key_updates)


def _request_key_updates(target: Target, number: int) -> None:
    with suppress(OSError), closing(Peer(address_without_certificate(target, number), SMALL_BUFFER)) as peer:
        keys = key_updates.connect(peer.socket, client_context())
        for _ in target.deadline():
            peer.send(b"".join(keys.update(requests_another=True) for _ in range(UPDATES)))
