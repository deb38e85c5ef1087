"""Newer epochs in requests and responses: who may raise the epoch of a replica, and how far."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, ReplicaKey
from quorumd.raft.effects import Effects
from quorumd.raft.events import RequestReceived, ResponseReceived
from quorumd.raft.messages import FetchResponse, Request, VoteResponse
from quorumd.raft.newer_epochs import MAX_EPOCH_STEP
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.replica import LAST_EPOCH, MAX_EPOCH
from quorumd.raft.roles import Role
from quorumd.raft.voters import VoterAssignment, VoterSet
from tests.support.raft.quorum import key, unpinned, voter_set
from tests.support.raft.single_engine import EngineHarness, begin, end, fetch_error, vote

EPOCH = 5
STRANGER = 9


def follower(voters: VoterSet | None = None) -> EngineHarness:
    """A follower of node 2, which has just served a fetch."""
    bench = EngineHarness((1, 1, 3), QuorumState(EPOCH), voters=voters).to_follower(2)
    bench.respond(2, bench.records())
    assert bench.engine.contact_ms(bench.now) == 0
    return bench


def leader() -> EngineHarness:
    """A leader from which a majority has just fetched."""
    return EngineHarness((1, 1, 3), QuorumState(EPOCH - 1)).to_leader()


def send(bench: EngineHarness, request: Request, names_cluster: bool = True) -> Effects:
    return bench.step(RequestReceived("reply", request, names_cluster, "10.0.0.9:1234"))


def requests(sender: int, epoch: int) -> list[Request]:
    last = (99, epoch - 1)
    return [
        vote(epoch, last, candidate=sender),
        vote(epoch, last, candidate=sender, pre=True),
        begin(sender, epoch),
        end(sender, epoch, key(1).id),
    ]


KINDS = range(4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [follower, leader])
@pytest.mark.parametrize("ahead", [1, 5, MAX_EPOCH - EPOCH])
def test_non_voter_does_not_depose_a_live_leader(kind: int, make: object, ahead: int) -> None:
    bench = follower() if make is follower else leader()
    before, role = bench.state, bench.engine.role
    effects = send(bench, requests(STRANGER, before.epoch + ahead)[kind])
    assert (bench.state, bench.engine.role) == (before, role)
    assert effects.refused is not None
    assert (effects.refused.sender, effects.refused.peer) == (STRANGER, "10.0.0.9:1234")
    assert effects.refused.epoch == before.epoch + ahead
    response = bench.response_to("reply", effects)
    if kind < 2:
        # A Kafka controller drops a response with a lower epoch than its own, and repeats the request at once.
        assert response == VoteResponse(ErrorCode.NONE, NO_NODE, before.epoch + ahead, False)
    else:
        assert response.error is ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_voter_deposes_a_live_leader(kind: int) -> None:
    bench = follower()
    assert send(bench, requests(3, EPOCH + 1)[kind]).refused is None
    assert bench.engine.epoch == EPOCH + 1


def test_removed_voter_in_a_newer_epoch_still_counts() -> None:
    """The voter can follow the leader only in an epoch later than its own."""
    bench = follower()
    bench.history.append(2, VoterAssignment(voter_set(1, 2)))
    assert send(bench, vote(EPOCH + 1, (99, EPOCH), candidate=3)).refused is None
    assert bench.engine.epoch == EPOCH + 1


def test_voter_on_a_replaced_disk_is_not_a_recorded_voter() -> None:
    bench = follower()
    replaced = replace(vote(EPOCH + 1, (99, EPOCH)), candidate=key(3, incarnation=2))
    assert send(bench, replaced).refused is not None
    assert bench.engine.epoch == EPOCH


@pytest.mark.parametrize("kind", KINDS)
def test_request_that_does_not_name_the_cluster_needs_the_directory_id(kind: int) -> None:
    bench = follower()
    request = requests(3, EPOCH + 1)[kind]
    is_refused = send(bench, request, names_cluster=False).refused is not None
    # Votes have the candidate's directory id; the announcements of a leader do not.
    assert is_refused == (kind >= 2)
    assert bench.engine.epoch == (EPOCH if is_refused else EPOCH + 1)


def test_first_candidates_do_not_know_the_cluster_id() -> None:
    bench = follower(unpinned(1, 2, 3))
    send(bench, vote(EPOCH + 1, (99, EPOCH), candidate=3), names_cluster=False)
    assert bench.engine.epoch == EPOCH + 1


def test_non_voter_is_a_candidate_once_the_leader_is_lost() -> None:
    """It may be a voter whose addition is not in this log (hole 10)."""
    bench = follower()
    bench.now += bench.settings.fetch_timeout_ms
    send(bench, vote(EPOCH + 1, (99, EPOCH), candidate=STRANGER))
    assert bench.engine.epoch == EPOCH + 1


def test_non_voters_raise_the_epoch_once_per_election_timeout() -> None:
    bench = follower()
    bench.now += bench.settings.fetch_timeout_ms
    for step in range(1, 9):
        send(bench, vote(EPOCH + step, (99, EPOCH), candidate=STRANGER))
    assert bench.engine.epoch == EPOCH + 1
    send(bench, vote(EPOCH + 2, (99, EPOCH), candidate=3))
    assert bench.engine.epoch == EPOCH + 2, "voters are not delayed"
    bench.now += bench.settings.election_timeout_ms
    send(bench, vote(EPOCH + 3, (99, EPOCH), candidate=STRANGER))
    assert bench.engine.epoch == EPOCH + 3


@pytest.mark.parametrize("epoch", [EPOCH, EPOCH + 1])
def test_non_voter_is_not_followed_before_a_voter_reports_it(epoch: int) -> None:
    bench = EngineHarness((1, EPOCH), QuorumState(EPOCH))
    for announcement in requests(STRANGER, epoch)[2:]:
        assert bench.deliver(announcement).error is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert bench.effects.refused is not None
    assert (bench.engine.epoch, bench.engine.leader_id) == (EPOCH, NO_NODE)
    bench.discover(key(STRANGER))
    bench.step(ResponseReceived(STRANGER, bench.fetch_of(1), FetchResponse(ErrorCode.NONE, STRANGER, epoch)))
    assert bench.engine.leader_id == NO_NODE, "it cannot name itself in a response either"
    bench.step(ResponseReceived(2, bench.fetch_of(1), FetchResponse(ErrorCode.NONE, STRANGER, epoch)))
    assert (bench.engine.epoch, bench.engine.leader_id) == (epoch, STRANGER)


def test_leader_without_a_majority_yields_to_a_non_voter() -> None:
    bench = leader()
    bench.now += bench.settings.fetch_timeout_ms
    epoch = bench.engine.epoch + 1
    send(bench, vote(epoch, (99, epoch - 1), candidate=STRANGER))
    assert bench.engine.epoch == epoch


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ahead", [MAX_EPOCH_STEP + 1, LAST_EPOCH + 1 - EPOCH, MAX_EPOCH - EPOCH])
def test_request_far_ahead_is_refused_by_everyone(kind: int, ahead: int) -> None:
    bench = EngineHarness((1, 1, 3), QuorumState(EPOCH))
    assert bench.engine.role is Role.UNATTACHED
    effects = send(bench, requests(2, EPOCH + ahead)[kind])
    assert effects.refused is not None
    assert bench.engine.epoch == EPOCH


def test_responses_far_ahead_raise_the_epoch_step_by_step() -> None:
    bench = EngineHarness((1, 1, 3), QuorumState(EPOCH))
    far = EPOCH + 2 * MAX_EPOCH_STEP + 7
    bench.discover(key(2), key(3))
    epochs = []
    while bench.engine.epoch < far:
        if not bench.open:
            bench.fire_timer()
            continue
        bench.respond(next(iter(bench.open)), fetch_error(ErrorCode.FENCED_LEADER_EPOCH, 3, far))
        epochs.append(bench.engine.epoch)
    assert epochs == [EPOCH + MAX_EPOCH_STEP, EPOCH + 2 * MAX_EPOCH_STEP, far]
    assert bench.engine.leader_id == 3


def test_last_epochs_are_never_entered() -> None:
    bench = EngineHarness((1, 1, 3), QuorumState(LAST_EPOCH - 1))
    bench.discover(key(2), key(3))
    while not bench.open:
        bench.fire_timer()
    bench.respond(next(iter(bench.open)), fetch_error(ErrorCode.FENCED_LEADER_EPOCH, 3, MAX_EPOCH))
    assert bench.engine.epoch == LAST_EPOCH
    for _ in range(20):
        bench.fire_timer()
    assert bench.engine.epoch == LAST_EPOCH
    assert bench.engine.role is Role.UNATTACHED


def test_follower_in_the_last_epoch_stays_with_its_leader() -> None:
    bench = EngineHarness((1, 1, 3), QuorumState(LAST_EPOCH - 1)).to_follower(2, LAST_EPOCH)
    bench.respond(2, fetch_error(ErrorCode.FENCED_LEADER_EPOCH, NO_NODE, MAX_EPOCH))
    assert (bench.engine.role, bench.engine.epoch) == (Role.FOLLOWER, LAST_EPOCH)


def test_leader_of_the_last_epoch_does_not_campaign_again() -> None:
    bench = EngineHarness((1, 2, 3), QuorumState(LAST_EPOCH - 1)).to_resigned()
    assert bench.engine.epoch == LAST_EPOCH
    for _ in range(20):
        bench.fire_timer()
    assert (bench.engine.role, bench.engine.epoch) == (Role.RESIGNED, LAST_EPOCH)


def test_candidate_without_directory_id_is_known_by_its_node_id() -> None:
    """Kafka's controllers before 3.9 send none."""
    bench = follower()
    request = replace(vote(EPOCH + 1, (99, EPOCH)), candidate=ReplicaKey(3))
    assert send(bench, request).refused is None
    assert bench.engine.epoch == EPOCH + 1
