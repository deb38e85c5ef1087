"""What is no Kafka request closes its own connection, leaves the others alone, and is told in one line."""

from __future__ import annotations

import random
import struct

import pytest

from quorumd.protocol.apis import APIS
from tests.support.processes.daemons import Cluster, wait_for
from tests.support.processes.requests import set_register

_HEADER = struct.Struct(">hhih")


def _frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def _request(key: int, version: int, body: bytes) -> bytes:
    return _frame(_HEADER.pack(key, version, 1, -1) + body)


STRANGERS = {
    "http": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("16030100f1010000ed0303") + bytes(64),
    "random bytes": random.Random(7).randbytes(4096),
    "oversized frame": struct.pack(">i", 2**31 - 1) + bytes(100),
    "negative length": struct.pack(">i", -5) + bytes(10),
    "empty frame": _frame(b""),
    "frame shorter than a header": _frame(b"\x00\x12\x00"),
    "unknown api": _request(999, 0, b""),
    "unknown private api": _request(1999, 0, b""),
    "unknown version of a known api": _request(55, 99, b"\x00"),
    "body cut short": _request(44, 1, b"\x00\x05\x20"),
    "array of two thousand million": _request(44, 1, b"\x00" + b"\xff\xff\xff\xff\x07"),
}


def told_of_a_peer(text: str) -> list[str]:
    return [line for line in text.splitlines() if "127.0.0.1" in line]


@pytest.mark.parametrize("name", list(STRANGERS))
def test_stranger_is_cut_off_and_nobody_else(cluster: Cluster, name: str) -> None:
    leader = cluster.leader()
    epoch = leader.told().epoch
    with leader.connect() as neighbour, leader.connect() as stranger:
        set_register(neighbour, "neighbours", f"before {name}")
        said = len(leader.said())
        stranger.send_bytes(STRANGERS[name])
        assert stranger.is_closed_by_peer(), "it was answered"
        set_register(neighbour, "neighbours", f"after {name}")
        # Of itself it may have something to say meanwhile: a slow disk, say.
        lines = wait_for("the daemon to say why", lambda: told_of_a_peer(leader.said()[said:]))
    assert len(lines) == 1, lines
    assert leader.told().epoch == epoch


def test_an_unsupported_api_versions_is_answered_before_anything_else_is_asked(cluster: Cluster) -> None:
    with cluster.leader().connect() as stranger:
        stranger.send_bytes(_request(18, 99, b""))
        key, low, high = 18, 0, APIS[18].max_version
        assert stranger.read_frame() == struct.pack(">ihihhh", 1, 35, 1, key, low, high)


def test_half_a_request_waits_and_a_thousand_idle_bytes_are_no_harm(cluster: Cluster) -> None:
    """A frame may come byte by byte."""
    leader = cluster.leader()
    request = _request(18, 0, b"")
    with leader.connect() as slow:
        for byte in request:
            slow.send_bytes(bytes([byte]))
        answer = slow.read_frame()
    assert struct.unpack_from(">ih", answer) == (1, 0)
    assert cluster.leader() is leader
