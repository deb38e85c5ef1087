"""Bytes that are not a Kafka request close only their own connection, and are logged in one line."""

from __future__ import annotations

import random
import struct

import pytest

from quorumd.protocol.apis import APIS
from tests.support.processes.daemons import Cluster
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


def lines_about_a_peer(text: str) -> list[str]:
    return [line for line in text.splitlines() if "127.0.0.1" in line]


@pytest.mark.parametrize("name", list(STRANGERS))
def test_malformed_frame_closes_only_its_connection(cluster: Cluster, name: str) -> None:
    leader = cluster.leader()
    epoch = leader.await_quorum().epoch
    with leader.connect() as neighbour, leader.connect() as stranger:
        set_register(neighbour, "neighbours", f"before {name}")
        length = len(leader.log_text())
        stranger.send_bytes(STRANGERS[name])
        assert stranger.is_closed_by_peer(), "the node sent a response"
        set_register(neighbour, "neighbours", f"after {name}")
        # Warnings of one kind are logged once per interval, and another test may have caused the first warning.
        lines = lines_about_a_peer(leader.log_text()[length:])
        all_lines = lines_about_a_peer(leader.log_text())
    assert len(lines) <= 1, lines
    assert any("WARNING" in line and "closing the connection" in line for line in all_lines), all_lines
    assert leader.await_quorum().epoch == epoch


def test_unsupported_api_versions_gets_a_response_first(cluster: Cluster) -> None:
    with cluster.leader().connect() as stranger:
        stranger.send_bytes(_request(18, 99, b""))
        key, low, high = 18, 0, APIS[18].max_version
        assert stranger.read_frame() == struct.pack(">ihihhh", 1, 35, 1, key, low, high)


def test_partial_request_waits_for_its_remaining_bytes(cluster: Cluster) -> None:
    """A frame may arrive byte by byte."""
    leader = cluster.leader()
    request = _request(18, 0, b"")
    with leader.connect() as slow:
        for byte in request:
            slow.send_bytes(bytes([byte]))
        response = slow.read_frame()
    assert struct.unpack_from(">ih", response) == (1, 0)
    assert cluster.leader() is leader
