"""No client takes more than its share of the node's time, memory and log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorumd.log_limit import INTERVAL_MS, LogLimit
from quorumd.node.sessions.fair_shares import (
    BULK_BYTES,
    BYTES_PER_REQUEST,
    ITERATION_MS,
    MIN_COUNTED_BYTES,
    FairShares,
)
from quorumd.protocol.routes import Origin
from tests.support.node.parts import NodeParts

PER_ITERATION = 10


class ReadingClient:
    """A connection with `left` requests to read."""

    def __init__(self, shares: FairShares, left: int, is_peer: bool = False) -> None:
        self.origin = Origin(f"client:{left}", "", 0, is_peer=is_peer)
        self.held_bytes = 0
        self.is_aborted = False
        self.left = left
        self.turns: list[int] = []
        self._shares = shares

    def continue_reading(self) -> None:
        read = min(self.left, self._shares.grant())
        self.left -= read
        self.turns.append(read)
        self._shares.record_read(read, 0)
        if self.left:
            self._shares.wait(self)

    def abort(self) -> None:
        self.is_aborted = True


class SlowClient(ReadingClient):
    """A connection with a request that takes all the time of an iteration."""

    def __init__(self, shares: FairShares, parts: NodeParts) -> None:
        super().__init__(shares, 1)
        self._parts = parts

    def continue_reading(self) -> None:
        super().continue_reading()
        self._parts.time.pass_ms(ITERATION_MS)
        assert self._shares.must_yield()


@pytest.fixture
def parts() -> NodeParts:
    return NodeParts()


@pytest.fixture
def turns() -> list[Callable[[], None]]:
    """Callbacks of the next iteration."""
    return []


@pytest.fixture
def shares(parts: NodeParts, turns: list[Callable[[], None]]) -> FairShares:
    now_ms = parts.time.clock.now_ms
    return FairShares(turns.append, now_ms, LogLimit(now_ms), PER_ITERATION, 100_000)


def end_turn(turns: list[Callable[[], None]]) -> None:
    due = turns[:]
    turns.clear()
    for callback in due:
        callback()


def test_one_client_gets_all_of_a_turn(turns: list[Callable[[], None]], shares: FairShares) -> None:
    client = ReadingClient(shares, 25)
    client.continue_reading()
    for _ in range(3):
        end_turn(turns)
    assert client.turns == [10, 10, 5]


def test_clients_take_turns(turns: list[Callable[[], None]], shares: FairShares) -> None:
    flooding, small = ReadingClient(shares, 1000), ReadingClient(shares, 2)
    flooding.continue_reading()
    small.continue_reading()
    assert small.turns == [0], "this turn is used up"
    end_turn(turns)
    assert small.left == 0
    assert sum(flooding.turns[1:]) <= PER_ITERATION


def test_clients_wait_undisturbed_once_a_turn_is_used_up(
    turns: list[Callable[[], None]], shares: FairShares
) -> None:
    clients = [ReadingClient(shares, 1) for _ in range(PER_ITERATION + 2)]
    for client in clients:
        shares.wait(client)
    end_turn(turns)
    assert [client.turns for client in clients] == [[1]] * PER_ITERATION + [[], []]


def test_every_turn_is_bounded_however_many_clients_wait(
    turns: list[Callable[[], None]], shares: FairShares
) -> None:
    clients = [ReadingClient(shares, 3) for _ in range(50)]
    for client in clients:
        shares.wait(client)
    before = sum(client.left for client in clients)
    while any(client.left for client in clients):
        end_turn(turns)
        after = sum(client.left for client in clients)
        assert before - after <= PER_ITERATION
        before = after


def test_turn_ends_with_its_time(
    parts: NodeParts, turns: list[Callable[[], None]], shares: FairShares
) -> None:
    """Some requests take much longer than others."""
    assert shares.grant() == PER_ITERATION
    assert not shares.must_yield()
    parts.time.pass_ms(ITERATION_MS)
    assert shares.must_yield()
    assert shares.grant() == 0, "nor do other connections read more"
    waiting = [SlowClient(shares, parts), ReadingClient(shares, 1), ReadingClient(shares, 1)]
    for each in waiting:
        shares.wait(each)
    end_turn(turns)
    assert [each.left for each in waiting[1:]] == [1, 1]
    end_turn(turns)
    assert [each.left for each in waiting[1:]] == [0, 0]


def test_shares_are_renewed_once_half_is_used(
    parts: NodeParts, turns: list[Callable[[], None]], shares: FairShares
) -> None:
    """A callback for every request would cost more than all else here."""
    shares.record_read(PER_ITERATION // 2, 0)
    parts.time.pass_ms(ITERATION_MS / 2)
    assert not shares.must_yield()
    assert not turns
    shares.record_read(1, 0)
    assert len(turns) == 1
    end_turn(turns)
    assert shares.grant() == PER_ITERATION
    parts.time.pass_ms(ITERATION_MS / 2 + 1)
    assert not shares.must_yield()
    assert len(turns) == 1
    end_turn(turns)
    parts.time.pass_ms(ITERATION_MS - 1)
    assert not shares.must_yield()


def test_received_bytes_count_as_requests(shares: FairShares) -> None:
    assert not shares.record_read(0, BULK_BYTES - 1)
    assert shares.record_read(0, BULK_BYTES), "it waits for its next turn"
    shares.record_read(0, PER_ITERATION * BYTES_PER_REQUEST)
    assert shares.grant() == 0


def test_largest_holder_is_aborted(shares: FairShares) -> None:
    clients = [ReadingClient(shares, number) for number in range(4)]
    for held, client in zip((10_000, 60_000, 20_000, 15_000), clients, strict=True):
        client.held_bytes = held
        shares.record_held_bytes(client, client.held_bytes)
    assert [client.is_aborted for client in clients] == [False, True, False, False]


def test_bytes_that_were_sent_meanwhile_do_not_count(shares: FairShares) -> None:
    reader, other = ReadingClient(shares, 1), ReadingClient(shares, 2)
    reader.held_bytes = 90_000
    shares.record_held_bytes(reader, reader.held_bytes)
    reader.held_bytes = 0
    other.held_bytes = 50_000
    shares.record_held_bytes(other, other.held_bytes)
    assert not reader.is_aborted
    assert not other.is_aborted


def test_peers_are_aborted_last(shares: FairShares) -> None:
    follower, client = ReadingClient(shares, 1, is_peer=True), ReadingClient(shares, 2)
    follower.held_bytes, client.held_bytes = 80_000, 30_000
    shares.record_held_bytes(follower, follower.held_bytes)
    shares.record_held_bytes(client, client.held_bytes)
    assert (follower.is_aborted, client.is_aborted) == (False, True)


def test_closed_connections_and_small_amounts_do_not_count(shares: FairShares) -> None:
    for number in range(1000):
        small = ReadingClient(shares, number)
        small.held_bytes = MIN_COUNTED_BYTES - 1
        shares.record_held_bytes(small, small.held_bytes)
        assert not small.is_aborted
    gone = ReadingClient(shares, 1)
    gone.held_bytes = 90_000
    shares.record_held_bytes(gone, gone.held_bytes)
    shares.release(gone)
    last = ReadingClient(shares, 2)
    last.held_bytes = 90_000
    shares.record_held_bytes(last, last.held_bytes)
    assert not last.is_aborted


def test_warnings_of_a_kind_are_logged_once_per_interval(
    parts: NodeParts, shares: FairShares, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(100):
        shares.warn("frames", f"bad frame {number}")
    shares.warn("others", "something else")
    parts.time.pass_ms(INTERVAL_MS)
    shares.warn("frames", "bad frame 100")
    frames, others, again = caplog.messages
    assert (frames, others) == ("bad frame 0", "something else")
    assert "bad frame 100" in again
    assert "99" in again
