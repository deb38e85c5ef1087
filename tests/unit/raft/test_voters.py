from __future__ import annotations

import pytest

from quorumd.ids import ReplicaKey
from quorumd.raft.voters import (
    Voter,
    VoterAssignment,
    VoterHistory,
    VoterSet,
    majority,
    majority_value,
)
from tests.support.raft.quorum import key, voter_set


@pytest.mark.parametrize(("voters", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4)])
def test_majority_is_more_than_half(voters: int, needed: int) -> None:
    assert majority(voters) == needed


@pytest.mark.parametrize(
    ("offsets", "reached"),
    [([7], 7), ([7, 3], 3), ([7, 3, 5], 5), ([9, 1, 1, 9], 1), ([9, 1, 1, 9, 4], 4), ([-1, -1, 8], -1)],
)
def test_reached_by_majority(offsets: list[int], reached: int) -> None:
    assert majority_value(offsets) == reached


def test_voter_set_counts_only_its_members() -> None:
    voters = voter_set(1, 2, 3)
    assert voters.ids == (1, 2, 3)
    assert voters.is_majority([1, 3])
    assert not voters.is_majority([1, 8, 9])
    assert voters.by_id(2) == Voter(key(2), voters.voters[1].endpoints)
    assert voters.by_id(4) is None


def test_recorded_directory_matches_only_itself() -> None:
    voters = voter_set(1, 2)
    assert voters.includes(key(1))
    assert not voters.includes(key(1, incarnation=2))
    assert not voters.includes(ReplicaKey(1))
    assert not voters.includes(key(3))


def test_voter_without_directory_matches_by_node_id() -> None:
    voters = VoterSet((Voter(ReplicaKey(1), ()),))
    assert voters.includes(key(1))
    assert voters.includes(key(1, incarnation=2))
    assert not voters.includes(key(2))


def test_history_returns_the_newest_set_and_rolls_back() -> None:
    history = VoterHistory()
    assert history.latest is None
    assert history.latest_offset == -1
    first, second = VoterAssignment(voter_set(1)), VoterAssignment(voter_set(1, 2), (3,))
    history.append(2, first)
    history.append(9, second)
    assert (history.latest, history.latest_offset, len(history)) == (second, 9, 2)
    history.truncate_to(10)
    assert history.latest is second
    history.truncate_to(9)
    assert (history.latest, history.latest_offset) == (first, 2)
    history.truncate_to(0)
    assert history.latest is None


def test_history_returns_the_set_below_an_offset() -> None:
    first, second = VoterAssignment(voter_set(1)), VoterAssignment(voter_set(1, 2))
    history = VoterHistory([(2, first), (7, second)])
    assert [history.value_before(offset) for offset in (0, 2, 3, 7, 8)] == [None, None, first, first, second]


def test_history_returns_the_offset_at_which_a_voter_was_removed() -> None:
    sets = {2: (1, 2, 3), 5: (1, 2), 8: (1, 2), 9: (1, 2, 4)}
    history = VoterHistory()
    removals = []
    for offset, voters in sets.items():
        history.append(offset, VoterAssignment(voter_set(*voters)))
        removals.append([history.removal_offset(key(node_id)) for node_id in (2, 3, 7)])
    assert removals == [[-1, -1, -1], [-1, 5, -1], [-1, 5, -1], [-1, -1, -1]]


def test_history_rejects_decreasing_offsets() -> None:
    history = VoterHistory([(2, VoterAssignment(voter_set(1)))])
    with pytest.raises(ValueError, match="offset 2"):
        history.append(2, VoterAssignment(voter_set(1, 2)))
    assert repr(history) == "VoterHistory(2: (1,))"
