"""Which fetches count as a voter's: those that return the token of the epoch (hole 44)."""

from __future__ import annotations

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import ReplicaKey
from quorumd.raft.events import RequestReceived
from quorumd.raft.messages import NO_TOKEN, BeginEpochRequest, FetchRequest, LeaderResponse
from quorumd.raft.roles import Follower
from quorumd.raft.settings import RaftSettings
from quorumd.raft.voter_proof import MAX_TOKEN
from tests.support.raft.quorum import key
from tests.support.raft.single_engine import EngineHarness

FORGED = 12345


def leader(settings: RaftSettings | None = None) -> EngineHarness:
    """A leader of three voters whose newest record only it has."""
    bench = EngineHarness(settings=settings).to_leader()
    bench.propose()
    bench.flush()
    return bench


def acknowledged(bench: EngineHarness) -> bool:
    return bench.engine.high_watermark == bench.log.end_offset


def begin_response(bench: EngineHarness, peer: int, knows_tokens: bool) -> None:
    bench.respond(peer, LeaderResponse(ErrorCode.NONE, 1, bench.engine.epoch, knows_tokens))


def test_token_is_a_random_number() -> None:
    bounds: list[int] = []

    def randrange(bound: int) -> int:
        bounds.append(bound)
        return bound - 1

    assert EngineHarness(randrange=randrange).to_leader(committed=False).token == MAX_TOKEN
    assert MAX_TOKEN in bounds
    assert EngineHarness().to_leader().token == 1


@pytest.mark.parametrize("token", [NO_TOKEN, FORGED])
def test_fetch_without_the_token_acknowledges_nothing(token: int) -> None:
    bench = leader()
    for beyond in (0, 1, 1000):
        bench.deliver(
            bench.fetch_of(2, bench.log.end_offset, last_epoch=bench.engine.epoch, wait=0, token=token)
        )
        bench.now += beyond
    assert not acknowledged(bench)
    bench.deliver(bench.fetch_of(2))
    assert acknowledged(bench)


def test_fetch_without_the_token_is_not_contact() -> None:
    bench = leader()
    for _ in range(8):
        bench.wait(bench.settings.fetch_timeout_ms / 2)
        if bench.engine.is_leader:
            bench.deliver(bench.fetch_of(2, wait=0, token=NO_TOKEN))
    assert not bench.engine.is_leader


def test_voter_without_the_token_gets_it_at_once_and_once_per_backoff() -> None:
    bench = leader()
    begin_response(bench, 2, knows_tokens=True)
    bench.now += bench.settings.retry_backoff_ms
    bench.sent.clear()
    for _ in range(10):
        bench.deliver(bench.fetch_of(2, wait=0, token=NO_TOKEN))
    (sent,) = bench.sent
    assert sent == (2, BeginEpochRequest(1, bench.engine.epoch, key(2), token=bench.token))
    begin_response(bench, 2, knows_tokens=True)
    for wait_ms in (bench.settings.retry_backoff_ms - 1, 1):
        assert len(bench.sent) == 1
        bench.now += wait_ms
        bench.deliver(bench.fetch_of(2, wait=0, token=NO_TOKEN))
    assert len(bench.sent) == 2


def test_delayed_fetch_ends_when_the_voter_has_the_token() -> None:
    bench = leader()
    end = bench.log.end_offset
    assert bench.deliver(bench.fetch_of(2, token=NO_TOKEN), reply="unproven") is None
    bench.deliver(bench.fetch_of(3, replica=ReplicaKey(9)), reply="observer")
    begin_response(bench, 2, knows_tokens=True)
    assert bench.response_to("unproven", bench.effects) is not None
    assert bench.response_to("observer", bench.effects) is None
    assert end == bench.log.end_offset


def test_forged_fetch_does_not_end_the_delayed_fetch_of_the_voter() -> None:
    bench = leader()
    bench.deliver(bench.fetch_of(2), reply="voter")
    bench.deliver(bench.fetch_of(2, token=FORGED), reply="forged")
    assert bench.response_to("voter", bench.effects) is None


@pytest.mark.parametrize("permitted", [True, False])
@pytest.mark.parametrize("authenticated", [True, False])
def test_stock_voters_count_by_setting_or_authentication(permitted: bool, authenticated: bool) -> None:
    bench = leader(RaftSettings(unauthenticated_stock_voters=permitted))
    fetch = bench.fetch_of(2, token=NO_TOKEN)
    bench.step(RequestReceived("early", fetch, is_authenticated=authenticated))
    assert not acknowledged(bench), "nobody knows yet that it is a stock controller"
    begin_response(bench, 2, knows_tokens=False)
    bench.step(RequestReceived("stock", fetch, is_authenticated=authenticated))
    assert acknowledged(bench) == (permitted or authenticated)


def test_only_a_leader_has_a_token() -> None:
    bench = leader()
    assert bench.engine.epoch_token == bench.token != NO_TOKEN
    assert EngineHarness().to_follower().engine.epoch_token == NO_TOKEN


def test_leader_without_tokens_counts_every_voter() -> None:
    bench = leader(RaftSettings(epoch_tokens=False))
    assert bench.token == NO_TOKEN
    bench.deliver(bench.fetch_of(2))
    assert acknowledged(bench)


@pytest.mark.parametrize(("epoch_tokens", "returned"), [(True, 77), (False, NO_TOKEN)])
def test_follower_returns_the_token(epoch_tokens: bool, returned: int) -> None:
    bench = EngineHarness(settings=RaftSettings(epoch_tokens=epoch_tokens))
    epoch = bench.engine.epoch + 1
    response = bench.deliver(BeginEpochRequest(2, epoch, key(1), token=77))
    assert response == LeaderResponse(ErrorCode.NONE, 2, epoch, knows_tokens=epoch_tokens)
    assert bench.requests(FetchRequest)[2].token == returned


def test_follower_of_a_leader_takes_its_token_later() -> None:
    bench = EngineHarness().to_follower()
    bench.deliver(BeginEpochRequest(bench.engine.leader_id, bench.engine.epoch, key(1), token=77))
    state = bench.engine._replica.state
    assert isinstance(state, Follower)
    assert state.token == 77
