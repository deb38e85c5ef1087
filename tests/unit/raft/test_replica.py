"""Random timeouts, and the identity of replicas."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.ids import ReplicaKey
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.replica import Peer, Replica
from quorumd.raft.settings import RaftSettings
from quorumd.raft.voters import VoterAssignment, VoterHistory
from tests.support.raft.quorum import MemoryLog, endpoint, key, voter_set


def replica(*, me: ReplicaKey = key(1), seed: int = 1, history: VoterHistory | None = None) -> Replica:  # noqa: B008 (a value)
    made = Replica(
        RaftSettings(), me, QuorumState(), MemoryLog(), history or VoterHistory(), Random(seed).randrange
    )
    made.now = 100.0
    return made


def test_election_timeouts_are_spread_over_one_to_two_times_the_setting() -> None:
    made = replica()
    waits = [made.election_timeout() - 100 for _ in range(500)]
    assert 1000 <= min(waits) < 1050
    assert 1950 < max(waits) < 2000


def test_fetch_timeouts_have_jitter() -> None:
    made = replica()
    waits = [made.fetch_timeout() - 100 for _ in range(500)]
    assert 2000 <= min(waits) < 2010
    assert 2240 < max(waits) < 2250


def test_election_backoff_grows_to_its_maximum() -> None:
    longest = [0.0] * 12
    for seed in range(200):
        made = replica(seed=seed)
        for failure in range(12):
            longest[failure] = max(longest[failure], made.election_backoff() - 100)
    assert longest[0] < 150
    assert longest[1] < 350
    assert max(longest) == longest[11] == 1000


@pytest.mark.parametrize(("attempts", "wait"), [(0, 20), (1, 40), (3, 160), (6, 1000), (99, 1000)])
def test_retries_back_off_exponentially_with_a_fifth_of_jitter(attempts: int, wait: int) -> None:
    made = replica()
    waits = [made.retry_after(attempts) - 100 for _ in range(300)]
    assert wait * 0.8 <= min(waits)
    assert max(waits) < wait * 1.2 + 1


def test_founders_vote_before_the_first_leader() -> None:
    made = replica()
    assert made.is_bootstrapping
    assert not made.is_voter
    assert made.is_blank
    made.founders = voter_set(1, 2, 3)
    assert made.is_voter
    assert not made.is_blank
    replaced = replica(me=key(1, incarnation=2))
    replaced.founders = voter_set(1, 2, 3)
    assert not replaced.is_voter
    recorded = replica(history=VoterHistory([(0, VoterAssignment(voter_set(2, 3)))]))
    assert not recorded.is_voter
    assert not recorded.is_bootstrapping


def test_peers_with_address_are_known() -> None:
    made = replica()
    made.peers[9] = Peer(key(9), endpoint(9))
    made.peers[2] = Peer(key(2), endpoint(2))
    assert made.known_peers() == [2, 9]
