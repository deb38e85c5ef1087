"""Received TLS records are divided into whole ones, and few are decrypted per iteration."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from quorumd.log_limit import INTERVAL_MS, LogLimit
from quorumd.runtime import tls_records
from quorumd.runtime.tls_records import (
    RECORDS_AT_ONCE,
    RECORDS_PER_ITERATION,
    DecryptionShares,
    RecordQueue,
)


def records(*sizes: int) -> bytes:
    return b"".join(b"\x17\x03\x03" + size.to_bytes(2) + bytes(size) for size in sizes)


def queue(data: bytes) -> RecordQueue:
    found = RecordQueue()
    found.add(data)
    return found


@pytest.mark.parametrize("cut", range(1, 12))
def test_only_whole_records_are_taken(cut: int) -> None:
    data = records(3, 0, 300)
    found = queue(data[:-cut])
    assert found.take(9) == (records(3, 0), 2)
    found.add(data[-cut:])
    assert found.take(9) == (records(300), 1)
    assert len(found) == 0


def test_limited_number_is_taken() -> None:
    found = queue(records(1, 2, 3))
    assert found.take(2) == (records(1, 2), 2)
    assert found.take(0) == (b"", 0)
    assert found.take(2) == (records(3), 1)


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\n", b"\x17\x03\x03\xff\xff"])
def test_bytes_that_are_no_record_are_not_kept(start: bytes) -> None:
    """So that OpenSSL rejects them now, and not once as many bytes have arrived as the header seems to say."""
    found = queue(records(1) + start)
    assert found.take(9) == (records(1) + start, 2)


def shares_of(soon: list[Callable[[], None]], now_ms: Callable[[], float] = lambda: 0.0) -> DecryptionShares:
    return DecryptionShares(soon.append, LogLimit(now_ms))


class Connection:
    """A connection whose records have one byte."""

    def __init__(self, shares: DecryptionShares, count: int, peer: str = "10.0.0.1:1") -> None:
        self.peer = peer
        self.shares = shares
        self.queue = queue(records(*[1] * count))
        self.turns: list[int] = []
        self.is_aborted = False

    @property
    def encrypted_bytes(self) -> int:
        return len(self.queue)

    def continue_decrypting(self) -> None:
        data, has_more = self.shares.take(self.queue)
        self.turns.append(len(data) // len(records(1)))
        if has_more:
            self.shares.wait(self)

    def abort(self) -> None:
        self.is_aborted = True
        self.queue = RecordQueue()


def test_connections_share_the_records_of_an_iteration() -> None:
    soon: list[Callable[[], None]] = []
    shares = shares_of(soon)
    connections = [Connection(shares, 3 * RECORDS_AT_ONCE) for _ in range(6)]
    for each in connections:
        each.continue_decrypting()
    assert sum(map(sum, (each.turns for each in connections))) == RECORDS_PER_ITERATION
    for _ in range(2):
        assert len(soon) == 1
        before = sum(map(sum, (each.turns for each in connections)))
        soon.pop()()
        assert sum(map(sum, (each.turns for each in connections))) - before == RECORDS_PER_ITERATION
        turns = [len(list(filter(None, each.turns))) for each in connections]
        assert max(turns) - min(turns) <= 2
    while soon:
        soon.pop()()
    assert [sum(each.turns) for each in connections] == [3 * RECORDS_AT_ONCE] * 6


def test_limit_is_not_renewed_while_little_is_decrypted() -> None:
    soon: list[Callable[[], None]] = []
    Connection(shares_of(soon), RECORDS_AT_ONCE).continue_decrypting()
    assert soon == []


def test_connection_with_most_is_aborted_if_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_records, "MAX_WAITING_BYTES", 10_000)
    soon: list[Callable[[], None]] = []
    shares = shares_of(soon)
    small, large, another = (Connection(shares, count) for count in (300, 1500, 900))
    for each in (small, large, another):
        shares.wait(each)
    assert [each.is_aborted for each in (small, large, another)] == [False, True, False]
    while soon:
        soon.pop()()
    assert [sum(each.turns) for each in (small, large, another)] == [300, 0, 900]


def test_abort_is_logged_with_the_peer_once_per_interval(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls_records, "MAX_WAITING_BYTES", 0)
    now_ms = [0.0]
    shares = shares_of([], lambda: now_ms[0])
    for number in range(3):
        shares.wait(Connection(shares, 1, f"10.0.0.{number}:1"))
    now_ms[0] += INTERVAL_MS
    shares.wait(Connection(shares, 1, "10.0.0.9:1"))
    first, second = caplog.record_tuples
    size = len(records(1))
    text = f"aborting the connection with 10.0.0.0:1: {size} bytes of it wait for decryption"
    assert first == ("quorumd.connections", logging.WARNING, text)
    text = f"aborting the connection with 10.0.0.9:1: {size} bytes of it wait for decryption"
    assert second[2] == f"{text} (2 more warnings of this kind were suppressed)"
