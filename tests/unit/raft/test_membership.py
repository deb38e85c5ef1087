"""The next step from the voters of now to those that shall be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorumd.ids import ZERO_UUID, ReplicaKey
from quorumd.raft.membership import changed_voters, next_assignment, towards
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet, majority
from tests.support.raft_quorum import endpoint, key, voter_set


def ready(*ids: int) -> dict[int, Voter]:
    return {node_id: Voter(key(node_id), (endpoint(node_id),)) for node_id in ids}


def path(current: tuple[int, ...], target: tuple[int, ...], leader: int = 1) -> list[tuple[int, ...]]:
    """The voter sets on the way, with all nodes caught up and equally far."""
    latest, sets = towards(voter_set(*current), target), []
    while latest.target is not None:
        step = next_assignment(latest, leader, ready(*target), {})
        assert step is not None
        latest = step
        sets.append(latest.current.ids)
    return sets


@pytest.mark.parametrize(
    ("current", "target", "expected"),
    [
        # The draft's own example.
        ((1, 2, 3), (4, 5, 6), [(1, 2, 3, 4), (1, 2, 4), (1, 2, 4, 5), (1, 4, 5), (1, 4, 5, 6), (4, 5, 6)]),
        ((1,), (1, 2, 3), [(1, 2), (1, 2, 3)]),
        ((1, 2, 3, 4, 5), (1, 2), [(1, 2, 3, 4), (1, 2, 3), (1, 2)]),
        ((1, 2, 3), (2, 3), [(2, 3)]),
        ((1,), (2,), [(1, 2), (2,)]),
        ((1, 2, 3), (1, 2, 3), []),
    ],
)
def test_hole_6_the_target_is_reached_one_voter_at_a_time(
    current: tuple[int, ...], target: tuple[int, ...], expected: list[tuple[int, ...]]
) -> None:
    assert path(current, target) == expected


class TestHole8:
    def test_nobody_is_added_before_it_has_caught_up(self) -> None:
        latest = VoterAssignment(voter_set(1, 2, 3), (4, 5, 6))
        assert next_assignment(latest, 1, {}, {}) is None

    def test_whoever_has_caught_up_comes_first(self) -> None:
        step = next_assignment(VoterAssignment(voter_set(1, 2, 3), (4, 5, 6)), 1, ready(6), {})
        assert step is not None
        assert step.current.ids == (1, 2, 3, 6)

    def test_who_is_furthest_behind_leaves_first(self) -> None:
        latest = VoterAssignment(voter_set(1, 2, 3, 4), (1, 4))
        step = next_assignment(latest, 1, {}, {2: 5, 3: 7, 4: 0})
        assert step is not None
        assert step.current.ids == (1, 3, 4)

    def test_the_leader_leaves_last_however_far_it_is(self) -> None:
        assert path((1, 2, 3), (4,), leader=3)[-2:] == [(3, 4), (4,)]

    def test_voters_that_stay_are_not_touched_while_one_to_add_is_not_ready(self) -> None:
        assert next_assignment(VoterAssignment(voter_set(1, 2), (1, 2, 3)), 1, {}, {}) is None


def test_without_a_target_nothing_happens() -> None:
    assert next_assignment(VoterAssignment(voter_set(1, 2, 3)), 1, ready(4), {}) is None


def test_a_target_that_is_reached_is_dropped() -> None:
    latest = VoterAssignment(voter_set(1, 2), (1, 2))
    assert next_assignment(latest, 1, {}, {}) == VoterAssignment(voter_set(1, 2))


IDS = st.sets(st.integers(1, 7), min_size=1).map(lambda ids: tuple(sorted(ids)))


@given(IDS, IDS, st.randoms(use_true_random=False))
def test_every_step_changes_one_voter_and_majorities_always_meet(
    current: tuple[int, ...], target: tuple[int, ...], random: object
) -> None:
    """From any set to any other, whoever leads and however far everybody is."""
    latest, steps = towards(voter_set(*current), target), 0
    while latest.target is not None:
        ids = latest.current.ids
        leader = random.choice(ids)  # type: ignore[attr-defined]  # hypothesis hands out a Random
        offsets = {node_id: random.randrange(5) for node_id in ids}  # type: ignore[attr-defined]  # the same
        step = next_assignment(latest, leader, ready(*target), offsets)
        assert step is not None
        assert changed_voters(latest.current, step.current) <= 1
        smallest = min(len(ids), len(step.current.voters))
        assert majority(len(ids)) + majority(len(step.current.voters)) > smallest + 1
        assert len(step.current.voters) >= min(len(current), len(target))
        if leader not in step.current.ids:
            assert set(step.current.ids) == set(target)
        latest, steps = step, steps + 1
    assert latest.current.ids == target
    assert steps <= len(set(current) ^ set(target)) + 1


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (voter_set(1, 2), voter_set(1, 2), 0),
        (voter_set(1, 2), voter_set(1, 2, 3), 1),
        (voter_set(1, 2), voter_set(1), 1),
        (voter_set(1, 2), voter_set(1, 3), 2),
        (VoterSet((Voter(ReplicaKey(1, ZERO_UUID), ()),)), voter_set(1), 0),
        (voter_set(1), VoterSet((Voter(key(1, 2), ()),)), 1),
        (voter_set(1), VoterSet((Voter(ReplicaKey(1, ZERO_UUID), ()),)), 1),
    ],
)
def test_how_many_voters_differ(before: VoterSet, after: VoterSet, changed: int) -> None:
    assert changed_voters(before, after) == changed
