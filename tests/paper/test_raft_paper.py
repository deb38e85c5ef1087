"""The claims of "In Search of an Understandable Consensus Algorithm" (extended version), sections 5 to 8.

One test per claim, named after its section; its docstring names other means of KIP-595 (followers pull, and the fetch
is heartbeat and acknowledgement). Membership changes (6) and snapshots (7) are tested elsewhere.
"""

from __future__ import annotations

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch
from quorumd.raft.effects import ControlBatch, LeaderChange, ReadReady
from quorumd.raft.events import ReadRequested, RequestReceived, ShutdownRequested
from quorumd.raft.messages import BeginEpochRequest, FetchRequest, VoteRequest
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.roles import Role
from quorumd.raft.settings import RaftSettings
from tests.support.raft.quorum import Quorum, key, voter_set
from tests.support.raft.single_engine import EngineHarness, begin, end, granted, vote

SEEDS = range(5)


def elected(seed: int = 0, voters: int = 3) -> tuple[Quorum, int]:
    quorum = Quorum(voters, seed=seed)
    quorum.start()
    return quorum, quorum.run_to_leader()


# 5.1 Raft basics


@pytest.mark.parametrize("role", ["follower", "prospective", "candidate", "leader", "resigned"])
def test_5_1_any_role_adopts_a_higher_term_and_leaves_its_own(role: str) -> None:
    for request in (vote(9, (0, 0)), begin(2, 9), end(2, 9, 3, 1)):
        bench = getattr(EngineHarness(), f"to_{role}")()
        bench.deliver(request)
        assert bench.engine.epoch == bench.state.epoch == 9
        assert bench.engine.role in (Role.UNATTACHED, Role.FOLLOWER)


@pytest.mark.parametrize("role", ["follower", "prospective", "candidate", "leader", "resigned"])
def test_5_1_request_of_a_stale_term_is_rejected(role: str) -> None:
    for request in (vote(6, (9, 5)), begin(2, 6), end(2, 6, 1)):
        bench = EngineHarness(saved=QuorumState(7))
        getattr(bench, f"to_{role}")()
        before = (bench.engine.role, bench.engine.epoch)
        assert bench.deliver(request).error is ErrorCode.FENCED_LEADER_EPOCH
        assert bench.deliver(bench.fetch_of(3, epoch=6)).error is ErrorCode.FENCED_LEADER_EPOCH
        assert (bench.engine.role, bench.engine.epoch) == before


def test_5_1_terms_never_decrease() -> None:
    quorum, leader = elected(3)
    quorum.crash(leader)
    quorum.run_to_leader()
    quorum.start(leader)
    quorum.run(3000)
    for node in quorum.nodes.values():
        epochs = [saved.epoch for saved in node.saves]
        assert epochs == sorted(epochs)


# 5.2 Leader election


def test_5_2_servers_start_without_leading() -> None:
    assert not EngineHarness().engine.is_leader
    assert not EngineHarness((), QuorumState(4, 1, key(1))).engine.is_leader


def test_5_2_election_timeout_starts_an_election() -> None:
    """Through a pre-vote first (KIP-996)."""
    bench = EngineHarness().to_follower(2)
    bench.now += bench.settings.fetch_timeout_ms
    bench.fire_timer()
    bench.respond(3, granted(1))
    assert (bench.engine.role, bench.engine.epoch) == (Role.CANDIDATE, 2)


def test_5_2_candidate_increments_term_votes_for_itself_and_requests_votes() -> None:
    bench = EngineHarness(voters=voter_set(1, 2, 3, 4, 5)).to_candidate()
    assert bench.state == QuorumState(2, NO_NODE, key(1))
    assert sorted(bench.requests(VoteRequest)) == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("voters", "votes", "wins"),
    [
        (2, 0, False),
        (2, 1, True),
        (3, 0, False),
        (3, 1, True),
        (4, 1, False),
        (4, 2, True),
        (5, 1, False),
        (5, 2, True),
    ],
)
def test_5_2_candidate_wins_with_a_majority_its_own_vote_included(
    voters: int, votes: int, wins: bool
) -> None:
    bench = EngineHarness(voters=voter_set(*range(1, voters + 1))).to_candidate()
    for peer in range(2, 2 + votes):
        bench.respond(peer, granted(2))
    assert bench.engine.is_leader is wins


def test_5_2_at_most_one_vote_per_term_first_come_first_served() -> None:
    bench = EngineHarness(saved=QuorumState(3))
    assert bench.deliver(vote(4, (1, 1), candidate=2)).granted
    assert not bench.deliver(vote(4, (1, 1), candidate=3)).granted
    assert bench.deliver(vote(4, (1, 1), candidate=2)).granted


def test_5_2_vote_survives_a_crash() -> None:
    bench = EngineHarness(saved=QuorumState(3))
    bench.deliver(vote(4, (1, 1), candidate=2))
    restarted = EngineHarness(saved=bench.state)
    assert not restarted.deliver(vote(4, (1, 1), candidate=3)).granted


def test_5_2_winner_sends_begin_quorum_epoch_immediately() -> None:
    bench = EngineHarness().to_leader(committed=False)
    assert sorted(bench.requests(BeginEpochRequest)) == [2, 3]


def test_5_2_candidate_yields_to_the_leader_of_its_term() -> None:
    bench = EngineHarness().to_candidate()
    bench.deliver(begin(3, 2))
    assert (bench.engine.role, bench.engine.leader_id) == (Role.FOLLOWER, 3)


def test_5_2_candidate_ignores_a_leader_of_an_older_term() -> None:
    bench = EngineHarness().to_candidate()
    bench.deliver(begin(3, 1))
    assert bench.engine.role is Role.CANDIDATE


@pytest.mark.parametrize("seed", SEEDS)
def test_5_2_split_votes_are_resolved(seed: int) -> None:
    """Every replica is a candidate at the same moment, in one epoch."""
    quorum = Quorum(5, seed=seed)
    for node_id, node in quorum.nodes.items():
        quorum.set_log(node_id, 1)
        node.saved = QuorumState(4, NO_NODE, node.key)
    quorum.start()
    assert quorum.run_to_leader(10_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_5_2_fetches_prevent_elections(seed: int) -> None:
    """The heartbeat of a pull protocol."""
    quorum, leader = elected(seed)
    epoch = quorum.nodes[leader].engine.epoch
    quorum.run(60_000)
    assert quorum.leaders == {epoch: leader}
    assert all(node.engine.epoch == epoch for node in quorum.nodes.values())


# 5.3 Log replication


@pytest.mark.parametrize("seed", SEEDS)
def test_5_3_record_commits_once_a_majority_has_it(seed: int) -> None:
    quorum, leader = elected(seed, voters=5)
    others = [n for n in quorum.nodes if n != leader]
    for node_id in others[:2]:
        quorum.isolate(node_id)
    end = quorum.propose(leader)
    quorum.run_to_commit(end, leader, *others[2:])
    quorum.isolate(others[2])
    end = quorum.propose(leader)
    quorum.run(2000)
    assert quorum.nodes[leader].committed < end


@pytest.mark.parametrize("seed", SEEDS)
def test_5_3_all_replicas_end_with_the_same_log(seed: int) -> None:
    quorum, leader = elected(seed)
    for _ in range(20):
        end = quorum.propose(leader)
        quorum.run(1)
    quorum.run_to_commit(end)
    logs = [node.log.batches for node in quorum.nodes.values()]
    assert logs[0] == logs[1] == logs[2]


def test_5_3_the_leader_only_appends() -> None:
    bench = EngineHarness((1, 1, 1)).to_leader()
    before = list(bench.log.batches)
    bench.deliver(bench.fetch_of(2, offset=1))
    bench.deliver(bench.fetch_of(3, offset=9, last_epoch=2))
    assert bench.log.batches == before
    assert bench.effects.truncate_to is None


FIGURE_7 = {
    "a": (1, 1, 1, 4, 4, 5, 5, 6, 6),
    "b": (1, 1, 1, 4),
    "c": (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6),
    "d": (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7),
    "e": (1, 1, 1, 4, 4, 4, 4),
    "f": (1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3),
}


@pytest.mark.parametrize("follower", FIGURE_7)
def test_5_3_figure_7_followers_converge_to_the_leaders_log(follower: str) -> None:
    quorum = Quorum(3)
    quorum.set_log(1, 1, 1, 1, 4, 4, 5, 5, 6, 6, 6, epoch=7)
    quorum.set_log(2, *FIGURE_7[follower], epoch=7)
    quorum.set_log(3, 1, 1, 1, epoch=7)
    quorum.isolate(2)
    quorum.start()
    assert quorum.run_to_leader() == 1
    quorum.heal()
    end = quorum.propose(1)
    quorum.run_to_commit(end)
    assert quorum.nodes[2].log.epochs == [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 8, 8]
    assert quorum.nodes[2].log.batches == quorum.nodes[1].log.batches


def test_5_3_one_response_skips_all_conflicting_records_of_an_epoch() -> None:
    """The optimization at the end of 5.3, as in Kafka: the response has an epoch and its end offset."""
    bench = EngineHarness((1, 1, 1, 4, 4)).to_leader()
    response = bench.deliver(FetchRequest(key(2), 5, 11, 3, 0, 1000))
    assert response.diverging == OffsetAndEpoch(3, 1)


def test_5_3_slow_follower_does_not_delay_the_others() -> None:
    quorum, leader = elected()
    slow = next(n for n in quorum.nodes if n != leader)
    quorum.isolate(slow)
    end = quorum.propose(leader)
    quorum.run_to_commit(end, *(n for n in quorum.nodes if n != slow))
    quorum.heal()
    quorum.run_to_commit(end)


# 5.4 Safety


@pytest.mark.parametrize(
    ("own", "candidate", "grants"),
    [
        ((1, 1), (2, 1), True),
        ((1, 1), (3, 1), True),
        ((1, 1), (1, 1), False),
        ((1, 1), (1, 2), True),
        ((1, 2), (5, 1), False),
        ((1, 2), (2, 2), True),
    ],
)
def test_5_4_1_the_voter_denies_its_vote_if_its_own_log_is_more_up_to_date(
    own: tuple[int, ...], candidate: tuple[int, int], grants: bool
) -> None:
    assert EngineHarness(own).deliver(vote(3, candidate)).granted is grants


@pytest.mark.parametrize("seed", SEEDS)
def test_5_4_1_new_leader_has_every_committed_record(seed: int) -> None:
    quorum, leader = elected(seed)
    behind = next(n for n in quorum.nodes if n != leader)
    quorum.isolate(behind)
    end = quorum.propose(leader)
    quorum.run_to_commit(end, leader)
    quorum.heal()
    quorum.crash(leader)
    new = quorum.run_to_leader()
    assert new not in (leader, behind) or quorum.nodes[new].log.end_offset > end


def test_5_4_2_figure_8_record_of_an_older_term_is_not_committed_by_counting() -> None:
    """(c): S1 leads term 4 and its record of term 2 is on a majority, yet its own first record is not."""
    bench = EngineHarness((1, 2), QuorumState(3), voters=voter_set(1, 2, 3, 4, 5)).to_candidate()
    for peer in (2, 3):
        bench.respond(peer, granted(4))
    assert bench.log.epochs == [1, 2, 4]
    bench.flush()
    for peer in (2, 3, 4):
        bench.deliver(bench.fetch_of(peer, offset=2))
    assert bench.engine.high_watermark == -1
    bench.deliver(bench.fetch_of(2, offset=3))
    assert bench.engine.high_watermark == -1
    bench.deliver(bench.fetch_of(3, offset=3))
    assert bench.engine.high_watermark == 3


def figure_8() -> Quorum:
    """(c) without S1's record of term 4 anywhere else: S1 to S3 have term 2, S5 has term 3, S4 has neither."""
    quorum = Quorum(5)
    for node_id, epochs in {1: (1, 2), 2: (1, 2), 3: (1, 2), 4: (1,), 5: (1, 3)}.items():
        quorum.set_log(node_id, *epochs, epoch=4)
    return quorum


def test_5_4_2_figure_8_d_such_a_record_may_be_overwritten() -> None:
    quorum = figure_8()
    quorum.start(2, 3, 4, 5)
    for other in (2, 3):
        quorum.cut(other, 4)
    assert quorum.run_to_leader() == 5
    quorum.heal()
    quorum.start(1)
    quorum.run_to_commit(quorum.propose(5))
    assert {tuple(node.log.epochs[:2]) for node in quorum.nodes.values()} == {(1, 3)}


def test_5_4_2_figure_8_e_but_not_once_a_record_of_the_own_term_is_on_a_majority() -> None:
    quorum = figure_8()
    quorum.start(1, 2, 3)
    leader = quorum.run_to_leader()
    quorum.run_to_commit(3, leader)
    quorum.start(4, 5)
    quorum.crash(leader)
    assert quorum.run_to_leader() in {1, 2, 3} - {leader}
    quorum.run(5000)
    assert all(node.log.epochs[:2] == [1, 2] for node in quorum.nodes.values() if node.up)


# 5.5 Follower and candidate crashes


def test_5_5_requests_are_retried_indefinitely() -> None:
    bench = EngineHarness().to_leader()
    requested = 0
    for _ in range(60):
        if 3 in bench.open and isinstance(bench.open[3], BeginEpochRequest):
            bench.fail(3)
        bench.deliver(bench.fetch_of(2))
        bench.fire_timer()
        requested += 3 in bench.requests(BeginEpochRequest)
    assert requested > 5


def test_5_5_requests_are_idempotent() -> None:
    bench = EngineHarness(saved=QuorumState(3))
    first = bench.deliver(vote(4, (1, 1)))
    assert bench.deliver(vote(4, (1, 1))) == first
    bench.deliver(begin(2, 4))
    saves = len(bench.saves)
    bench.deliver(begin(2, 4))
    assert len(bench.saves) == saves
    assert bench.engine.role is Role.FOLLOWER


@pytest.mark.parametrize("seed", SEEDS)
def test_5_5_crashed_follower_catches_up(seed: int) -> None:
    quorum, leader = elected(seed)
    follower = next(n for n in quorum.nodes if n != leader)
    quorum.crash(follower)
    end = quorum.propose(leader)
    quorum.run_to_commit(end, leader)
    quorum.start(follower)
    quorum.run_to_commit(end)


# 5.6 Timing and availability


@pytest.mark.parametrize("seed", SEEDS)
def test_5_6_new_leader_within_a_few_timeouts(seed: int) -> None:
    quorum, leader = elected(seed)
    settings = RaftSettings()
    quorum.run(1000)
    quorum.isolate(leader)
    assert quorum.run(
        settings.fetch_timeout_ms + 2 * settings.election_timeout_ms,
        lambda: quorum.leader() not in (None, leader),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_5_6_after_a_crash_the_refused_connection_saves_the_fetch_timeout(seed: int) -> None:
    quorum, leader = elected(seed)
    quorum.run(1000)
    quorum.crash(leader)
    assert quorum.run(1000, lambda: quorum.leader() is not None)


# 6 Disruptive servers


def test_6_partitioned_server_does_not_disturb_a_working_quorum() -> None:
    """The paper ignores votes within the minimum election timeout after a heartbeat; here pre-votes are rejected."""
    quorum, leader = elected()
    epoch = quorum.nodes[leader].engine.epoch
    outsider = next(n for n in quorum.nodes if n != leader)
    quorum.isolate(outsider)
    quorum.run(60_000)
    assert quorum.nodes[outsider].engine.epoch == epoch
    quorum.heal()
    quorum.run(5000)
    assert quorum.leaders == {epoch: leader}
    assert quorum.nodes[outsider].engine.leader_id == leader


@pytest.mark.parametrize("seed", SEEDS)
def test_6_pre_votes_do_not_block_a_leaderless_quorum(seed: int) -> None:
    """The followers of a dead leader detect its failure at different times."""
    for dead_in_silence in (True, False):
        quorum, leader = elected(seed)
        one, two = (n for n in quorum.nodes if n != leader)
        quorum.cut(one, leader)
        quorum.run(700 + 211 * seed)
        if dead_in_silence:
            quorum.isolate(leader)
        else:
            quorum.crash(leader)
        assert quorum.run(10_000, lambda: quorum.leader() in (one, two)), quorum  # noqa: B023 (called here)


def test_6_pre_votes_of_a_server_without_responses_do_not_disturb_the_quorum() -> None:
    quorum, leader = elected()
    deaf = next(n for n in quorum.nodes if n != leader)
    quorum.cut(leader, deaf, both=False)
    epoch = quorum.nodes[leader].engine.epoch
    quorum.run(30_000)
    assert quorum.leaders == {epoch: leader}
    end = quorum.propose(leader)
    quorum.run_to_commit(end, leader)


# 8 Client interaction


def test_8_new_leader_begins_its_term_with_a_record_of_its_own() -> None:
    bench = EngineHarness().to_leader(committed=False)
    assert bench.effects.append == ControlBatch((LeaderChange(1, (1, 2, 3), (1, 2)),))


def test_8_leader_confirms_with_a_majority_before_serving_a_read() -> None:
    bench = EngineHarness(voters=voter_set(1, 2, 3, 4, 5)).to_candidate()
    for peer in (2, 3):
        bench.respond(peer, granted(2))
    bench.flush()
    for peer in (2, 3):
        bench.deliver(bench.fetch_of(peer))
    bench.step(ReadRequested("read"))
    bench.step(RequestReceived("a", bench.fetch_of(2, read_round=1)))
    assert bench.effects.reads_ready == []
    bench.step(RequestReceived("b", bench.fetch_of(3, read_round=1)))
    assert bench.effects.reads_ready == [ReadReady("read", 2)]


def test_8_deposed_leader_serves_no_reads() -> None:
    """It still acts as leader while the others elected another and committed: a local response would be stale."""
    quorum, old = elected()
    quorum.run(1000)
    for other in quorum.nodes:
        quorum.cut(old, other)
    quorum.read(old, "stale")
    assert quorum.run(10_000, lambda: quorum.leader() not in (None, old))
    new = quorum.leader()
    assert new is not None
    quorum.run_to_commit(quorum.propose(new), new)
    quorum.heal()
    quorum.run(10_000)
    assert quorum.nodes[old].ready == {}
    assert quorum.nodes[old].failed == ["stale"]


def test_8_fetch_in_flight_confirms_no_read() -> None:
    """Both followers sent their fetches before the read was requested; then they elected another leader."""
    bench = EngineHarness().to_leader()
    early = [bench.fetch_of(2), bench.fetch_of(3)]
    bench.step(ReadRequested("read"))
    for request in early:
        bench.step(RequestReceived("f", request))
    assert bench.effects.reads_ready == []


# Leadership transfer (KIP-595 EndQuorumEpoch; thesis 3.10)


@pytest.mark.parametrize("seed", SEEDS)
def test_graceful_stop_hands_over_without_a_timeout(seed: int) -> None:
    quorum, leader = elected(seed)
    quorum.run(1000)
    quorum.step(leader, ShutdownRequested())
    assert quorum.run(500, lambda: quorum.leader() not in (None, leader))
    assert quorum.run(100, lambda: quorum.nodes[leader].engine.handover_complete)
