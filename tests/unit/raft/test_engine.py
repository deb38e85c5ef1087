from __future__ import annotations

from math import inf
from typing import get_args

from quorumd.ids import NO_NODE
from quorumd.raft.engine import HANDLERS
from quorumd.raft.events import (
    Event,
    PeerRequestFailed,
    Propose,
    ReadRequested,
    RequestReceived,
    ResponseReceived,
    ShutdownRequested,
    TimerFired,
)
from quorumd.raft.messages import Request
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from quorumd.raft.voters import VoterAssignment, VoterSet
from tests.support.raft.quorum import key
from tests.support.raft.single_engine import EngineHarness, begin, vote


def test_every_event_has_a_handler_in_every_role() -> None:
    from_peers = (RequestReceived, ResponseReceived, PeerRequestFailed)
    kinds = [(event, request) for event in from_peers for request in get_args(Request)]
    kinds += [event for event in get_args(Event) if event not in from_peers]
    assert set(HANDLERS) == set(kinds)
    for kind, handlers in HANDLERS.items():
        assert set(handlers) == set(Role), kind


def test_early_timers_are_harmless() -> None:
    searching = EngineHarness()
    searching.fire_timer()
    for bench in (
        searching,
        EngineHarness().to_follower(),
        EngineHarness().to_candidate(),
        EngineHarness().to_leader(),
        EngineHarness().to_resigned(),
    ):
        role, deadline = bench.engine.role, bench.engine.deadline
        bench.now = max(bench.now, min(deadline - 1, bench.now + 1))
        effects = bench.step(TimerFired())
        assert (bench.engine.role, bench.engine.deadline) == (role, deadline)
        assert effects.send == effects.send_after_flush == []
        assert not effects.leadership_changed


def test_leadership_changed_on_role_epoch_or_leader_change() -> None:
    bench = EngineHarness((1,), QuorumState(3))
    assert not bench.step(TimerFired()).leadership_changed
    bench.deliver(begin(2, 3))
    assert bench.effects.leadership_changed
    bench.deliver(begin(2, 3))
    assert not bench.effects.leadership_changed
    bench.deliver(vote(7, (0, 0)))
    assert bench.effects.leadership_changed


def test_repr_shows_role_and_epoch() -> None:
    bench = EngineHarness().to_leader()
    shown = repr(bench.engine)
    assert all(fact in shown for fact in ("node 1", "leader of epoch 2", "log end 2", "high watermark 2"))


def test_read_only_view() -> None:
    leader = EngineHarness().to_leader().engine
    assert (leader.is_leader, leader.is_voter) == (True, True)
    assert (leader.leader_id, leader.epoch, leader.voted) == (1, 2, key(1))
    assert leader.leader_epoch_start == 1
    assert leader.voters.current.ids == (1, 2, 3)
    observer = EngineHarness((), me=key(9)).engine
    assert (observer.is_voter, observer.leader_id, observer.leader_epoch_start) == (False, NO_NODE, -1)
    assert (observer.high_watermark, observer.voters) == (-1, VoterAssignment(VoterSet()))


def test_proposal_to_non_leader_is_fatal() -> None:
    assert "unattached" in (EngineHarness().engine.step(Propose(b"", 9), 0.0).fatal or "")


def test_fatal_effect_is_the_only_one() -> None:
    effects = EngineHarness().to_follower(2).engine.step(Propose(b"", 9), 0.0)
    assert effects.fatal
    assert (effects.save, effects.append, effects.send, effects.send_after_flush) == (None, None, [], [])


def test_non_leader_fails_reads() -> None:
    assert EngineHarness().step(ReadRequested("r")).reads_failed == ["r"]


def test_graceful_shutdown_of_non_leader_is_immediate() -> None:
    for bench in (
        EngineHarness(),
        EngineHarness().to_follower(),
        EngineHarness().to_prospective(),
        EngineHarness().to_candidate(),
    ):
        assert not bench.engine.handover_complete
        bench.step(ShutdownRequested())
        assert bench.engine.handover_complete


def test_only_leaderless_replicas_probe_for_leader() -> None:
    bench = EngineHarness().to_follower(2)
    assert not bench.engine.should_probe_leader(1e9)
    bench.fail(2)
    assert bench.engine.should_probe_leader(0.0), "its leader does not respond"
    assert EngineHarness().to_prospective().engine.should_probe_leader(0.0), (
        "every address it knows may be stale"
    )
    assert EngineHarness((), me=key(9)).engine.should_probe_leader(0.0)


def test_contact_is_measured_since_fetches_of_a_majority_or_of_the_leader() -> None:
    leader, follower, searching = EngineHarness().to_leader(), EngineHarness().to_follower(2), EngineHarness()
    follower.respond(2, follower.records())
    assert follower.engine.contact_ms(follower.now + 70.0) == 70.0
    leader.deliver(leader.fetch_of(2, offset=1))
    assert leader.engine.contact_ms(leader.now + 50.0) == 50.0
    assert searching.engine.contact_ms(searching.now) == inf
    settings = follower.settings
    assert leader.engine.contact_limit_ms == settings.fetch_timeout_ms
    assert follower.engine.contact_limit_ms == settings.fetch_timeout_ms + settings.fetch_max_wait_ms


def test_high_watermark_of_the_leader_may_be_above_the_log_end() -> None:
    follower = EngineHarness().to_follower(2)
    assert follower.engine.leader_high_watermark == -1
    follower.respond(2, follower.records(high_watermark=9))
    assert (follower.engine.leader_high_watermark, follower.engine.high_watermark) == (9, 1)
    leader = EngineHarness((1,)).to_leader()
    assert leader.engine.leader_high_watermark == leader.engine.high_watermark


def test_voter_records_by_offset() -> None:
    engine = EngineHarness().engine
    assert (engine.voters_offset, engine.voters_offset_before(0), engine.voters_offset_before(1)) == (
        0,
        -1,
        0,
    )
    assert engine.voters_before(1) == engine.voters
    assert engine.voters_before(0) == VoterAssignment(VoterSet())
    assert not engine.log_is_empty
    assert EngineHarness(()).engine.log_is_empty
