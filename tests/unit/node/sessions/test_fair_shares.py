"""No client takes more than its share of the node's time, memory and log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorumd.log_limit import INTERVAL_MS
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


class Client:
    """A connection with `left` requests to read."""

    def __init__(self, shares: FairShares, left: int, is_peer: bool = False) -> None:
        self.origin = Origin(f"client:{left}", "", 0, is_peer=is_peer)
        self.held_bytes = 0
        self.is_aborted = False
        self.left = left
        self.turns: list[int] = []
        self._shares = shares

    def continue_reading(self) -> None:
        read = min(self.left, self._shares.grant(self))
        self.left -= read
        self.turns.append(read)
        self._shares.record_read(self, read, 0)
        if self.left:
            self._shares.wait(self)

    def abort(self) -> None:
        self.is_aborted = True


@pytest.fixture
def parts() -> NodeParts:
    return NodeParts()


@pytest.fixture
def turns() -> list[Callable[[], None]]:
    """Callbacks of the next iteration."""
    return []


@pytest.fixture
def shares(parts: NodeParts, turns: list[Callable[[], None]]) -> FairShares:
    return FairShares(turns.append, parts.time.clock.now_ms, PER_ITERATION, 100_000)


def end_turn(turns: list[Callable[[], None]]) -> None:
    due = turns[:]
    turns.clear()
    for callback in due:
        callback()


def test_one_client_gets_all_of_a_turn(turns: list[Callable[[], None]], shares: FairShares) -> None:
    client = Client(shares, 25)
    client.continue_reading()
    for _ in range(3):
        end_turn(turns)
    assert client.turns == [10, 10, 5]


def test_clients_take_turns(turns: list[Callable[[], None]], shares: FairShares) -> None:
    flooding, small = Client(shares, 1000), Client(shares, 2)
    flooding.continue_reading()
    small.continue_reading()
    assert small.turns == [0], "this turn is used up"
    end_turn(turns)
    assert small.left == 0
    assert sum(flooding.turns[1:]) <= PER_ITERATION


def test_every_turn_is_bounded_however_many_clients_wait(
    turns: list[Callable[[], None]], shares: FairShares
) -> None:
    clients = [Client(shares, 3) for _ in range(50)]
    for client in clients:
        shares.wait(client)
    before = sum(client.left for client in clients)
    while any(client.left for client in clients):
        end_turn(turns)
        after = sum(client.left for client in clients)
        assert before - after <= PER_ITERATION
        before = after


def test_peers_do_not_wait(shares: FairShares) -> None:
    shares.record_read(Client(shares, 0), PER_ITERATION, 0)
    assert shares.grant(Client(shares, 5)) == 0
    assert shares.grant(Client(shares, 5, is_peer=True)) >= 5


def test_turn_ends_with_its_time(
    parts: NodeParts, turns: list[Callable[[], None]], shares: FairShares
) -> None:
    """Some requests take much longer than others."""
    client, peer = Client(shares, 1), Client(shares, 1, is_peer=True)
    assert not shares.must_yield(client), "no turn has begun"
    assert shares.grant(client) == PER_ITERATION
    assert not shares.must_yield(client)
    parts.time.pass_ms(ITERATION_MS)
    assert shares.must_yield(client)
    assert not shares.must_yield(peer)
    waiting = [Client(shares, 1) for _ in range(3)]
    for each in waiting:
        shares.wait(each)
    waiting[0].continue_reading = lambda: parts.time.pass_ms(ITERATION_MS)  # type: ignore[method-assign] # a stand-in
    end_turn(turns)
    assert [each.left for each in waiting[1:]] == [1, 1]
    end_turn(turns)
    assert [each.left for each in waiting[1:]] == [0, 0]


def test_received_bytes_count_as_requests(shares: FairShares) -> None:
    client, peer = Client(shares, 1), Client(shares, 1, is_peer=True)
    assert not shares.record_read(client, 0, BULK_BYTES - 1)
    assert shares.record_read(client, 0, BULK_BYTES), "it waits for its next turn"
    assert not shares.record_read(peer, 0, BULK_BYTES)
    shares.record_read(client, 0, PER_ITERATION * BYTES_PER_REQUEST)
    assert shares.grant(client) == 0


def test_largest_holder_is_aborted(shares: FairShares) -> None:
    clients = [Client(shares, number) for number in range(4)]
    for held, client in zip((10_000, 60_000, 20_000, 15_000), clients, strict=True):
        client.held_bytes = held
        shares.record_held_bytes(client)
    assert [client.is_aborted for client in clients] == [False, True, False, False]


def test_bytes_that_were_sent_meanwhile_do_not_count(shares: FairShares) -> None:
    reader, other = Client(shares, 1), Client(shares, 2)
    reader.held_bytes = 90_000
    shares.record_held_bytes(reader)
    reader.held_bytes = 0
    other.held_bytes = 50_000
    shares.record_held_bytes(other)
    assert not reader.is_aborted
    assert not other.is_aborted


def test_peers_are_aborted_last(shares: FairShares) -> None:
    follower, client = Client(shares, 1, is_peer=True), Client(shares, 2)
    follower.held_bytes, client.held_bytes = 80_000, 30_000
    shares.record_held_bytes(follower)
    shares.record_held_bytes(client)
    assert (follower.is_aborted, client.is_aborted) == (False, True)


def test_closed_connections_and_small_amounts_do_not_count(shares: FairShares) -> None:
    for number in range(1000):
        small = Client(shares, number)
        small.held_bytes = MIN_COUNTED_BYTES - 1
        shares.record_held_bytes(small)
        assert not small.is_aborted
    gone = Client(shares, 1)
    gone.held_bytes = 90_000
    shares.record_held_bytes(gone)
    shares.release(gone)
    last = Client(shares, 2)
    last.held_bytes = 90_000
    shares.record_held_bytes(last)
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
