"""Attacks with valid TLS: many changes of keys, records with one byte, and handshakes that cost a server much."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from contextlib import closing, suppress
from threading import Thread

from tests.attacks.target import SIZE, Address, Peer, Target
from tests.support.security.key_updates import KeyChanges, connect

CLIENTS = 4
KEY_UPDATES = 9000
"""As many as the event loop reads at once from one connection."""
SMALL_RECORD_CLIENTS = 30
SMALL_RECORDS = 3000
SLOW_GROUP = "secp521r1"
"""The slowest group that Python 3.11 lets a client choose: a server would compute for 16 ms, its client need not."""
HELLOS = 20


def update_keys(target: Target) -> None:
    """Change the keys of a connection again and again, each time with 27 bytes."""
    in_threads(target, CLIENTS, _update_keys)


def _update_keys(target: Target, number: int) -> None:
    with suppress(OSError), closing(Peer(address_without_certificate(target, number))) as peer:
        keys = connect(peer.socket, client_context())
        peer.send(b"".join(keys.update(requests_another=True) for _ in range(KEY_UPDATES)))


def send_small_records(target: Target) -> None:
    """Send records with one byte on many connections at the same time: an endless frame."""
    peers: list[tuple[Peer, KeyChanges]] = []
    for number in range(SMALL_RECORD_CLIENTS):
        with suppress(OSError):
            peer = Peer(address_without_certificate(target, number))
            peers.append((peer, connect(peer.socket, client_context())))
    start = SIZE.pack(2 * SMALL_RECORDS)
    batches = [
        b"".join([keys.record(start), *(keys.record(b"\0") for _ in range(SMALL_RECORDS))])
        for _, keys in peers
    ]
    for (peer, _), batch in zip(peers, batches, strict=True):
        peer.socket.setblocking(False)
        with suppress(OSError):
            peer.send(batch)
    for left in target.deadline():
        time.sleep(min(0.1, left))


def choose_slow_groups(target: Target) -> None:
    """Begin handshakes with a slow group; the client computes nothing."""
    hello = client_hello(SLOW_GROUP)
    for _ in target.deadline():
        for address in target.tls:
            peers = []
            for _ in range(HELLOS):
                with suppress(OSError):
                    peers.append(peer := Peer(address))
                    peer.send(hello)
            for peer in peers:
                with suppress(OSError):
                    peer.socket.recv(1 << 16)
                peer.close()


def client_hello(group: str = "") -> bytes:
    """Return the first message of a client, with a key share of this group only."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = client_context()
    if group:
        context.set_ecdh_curve(group)
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def in_threads(target: Target, clients: int, act: Callable[[Target, int], None]) -> None:
    """Let several clients act again and again until the end of the attack."""

    def repeat(number: int) -> None:
        for _ in target.deadline():
            act(target, number)

    threads = [Thread(target=repeat, args=(number,), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def address_without_certificate(target: Target, number: int) -> Address:
    """Return one of the listeners with TLS at which clients need no certificate, in turns."""
    return target.open_tls[number % len(target.open_tls)]


def client_context() -> ssl.SSLContext:
    """Return the context of a client that trusts every server and has no certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
