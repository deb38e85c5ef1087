"""The next step from the current voters to the target voters."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorumd.ids import ZERO_UUID, ReplicaKey
from quorumd.raft.membership import assignment_toward, count_changed_voters, next_assignment
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet, majority
from tests.support.raft.quorum import endpoint, key, voter_set


def ready(*ids: int) -> dict[int, Voter]:
    return {node_id: Voter(key(node_id), (endpoint(node_id),)) for node_id in ids}


def fetching(*ids: int) -> dict[int, int]:
    """Fetching voters with equal log ends."""
    return dict.fromkeys(ids, 7)


def path(current: tuple[int, ...], target: tuple[int, ...], leader: int = 1) -> list[tuple[int, ...]]:
    """The intermediate voter sets, with all nodes caught up at equal log ends."""
    latest, sets = assignment_toward(voter_set(*current), target), []
    while latest.target is not None:
        step = next_assignment(latest, leader, ready(*target), fetching(*latest.current.ids))
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
    def test_no_voter_is_added_before_catching_up(self) -> None:
        latest = VoterAssignment(voter_set(1, 2, 3), (4, 5, 6))
        assert next_assignment(latest, 1, {}, fetching(1, 2, 3)) is None

    def test_caught_up_replica_is_added_first(self) -> None:
        latest = VoterAssignment(voter_set(1, 2, 3), (4, 5, 6))
        step = next_assignment(latest, 1, ready(6), fetching(1, 2, 3))
        assert step is not None
        assert step.current.ids == (1, 2, 3, 6)

    def test_most_lagging_voter_is_removed_first(self) -> None:
        latest = VoterAssignment(voter_set(1, 2, 3, 4), (1, 4))
        step = next_assignment(latest, 1, {}, {1: 9, 2: 5, 3: 7, 4: 0})
        assert step is not None
        assert step.current.ids == (1, 3, 4)

    def test_leader_is_removed_last(self) -> None:
        assert path((1, 2, 3), (4,), leader=3)[-2:] == [(3, 4), (4,)]

    def test_no_removal_while_an_addition_is_not_caught_up(self) -> None:
        latest = VoterAssignment(voter_set(1, 2), (1, 2, 3))
        assert next_assignment(latest, 1, {}, fetching(1, 2)) is None


class TestDeadVoters:
    """Voters that do not fetch."""

    def test_are_removed_first(self) -> None:
        latest = VoterAssignment(voter_set(1, 2, 3, 4), (1, 5))
        step = next_assignment(latest, 1, ready(5), fetching(1, 3, 4))
        assert step is not None
        assert step.current.ids == (1, 3, 4)

    def test_may_be_replaced_one_by_one(self) -> None:
        latest, alive = VoterAssignment(voter_set(1, 2, 3), (1, 4, 5)), (1, 2)
        while latest.target is not None:
            alive = tuple(node_id for node_id in (1, 2, 4, 5) if latest.current.by_id(node_id))
            step = next_assignment(latest, 1, ready(4, 5), fetching(*alive))
            assert step is not None
            latest = step
        assert latest.current.ids == (1, 4, 5)

    def test_no_removal_while_remaining_voters_cannot_commit(self) -> None:
        latest = VoterAssignment(voter_set(1, 2, 3), (1, 2))
        assert next_assignment(latest, 1, {}, fetching(1, 3)) is None

    def test_leader_is_not_removed_while_the_others_are_dead(self) -> None:
        latest = VoterAssignment(voter_set(1, 2), (2,))
        assert next_assignment(latest, 1, {}, fetching(1)) is None

    def test_dead_target_is_awaited(self) -> None:
        latest = VoterAssignment(voter_set(1, 2, 3), (1, 2, 4))
        assert next_assignment(latest, 1, {}, fetching(1, 2, 3)) is None


@pytest.mark.parametrize(
    ("before", "cancelled_or_replaced", "expected"),
    [
        ((1, 2, 4), (1, 2, 3), (1, 2, 3, 4)),
        ((1, 2, 3, 4), (1, 2, 3), (1, 2, 3)),
        ((1, 2, 3, 4), (1, 2, 5), (1, 2, 3)),
        ((1, 2), (3, 4, 5), (1, 2, 3)),
    ],
)
def test_changed_target_continues_from_the_current_voters(
    before: tuple[int, ...], cancelled_or_replaced: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    latest = VoterAssignment(voter_set(*before), cancelled_or_replaced)
    step = next_assignment(latest, 1, ready(*cancelled_or_replaced), fetching(*before))
    assert step is not None
    assert step.current.ids == expected


def test_no_step_without_a_target() -> None:
    assert next_assignment(VoterAssignment(voter_set(1, 2, 3)), 1, ready(4), fetching(1, 2, 3)) is None


def test_reached_target_is_cleared() -> None:
    latest = VoterAssignment(voter_set(1, 2), (1, 2))
    assert next_assignment(latest, 1, {}, fetching(1, 2)) == VoterAssignment(voter_set(1, 2))


IDS = st.sets(st.integers(1, 7), min_size=1).map(lambda ids: tuple(sorted(ids)))


def majorities_meet(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    smallest = [set(ids) for ids in combinations(one, majority(len(one)))]
    return all(ids & set(more) for ids in smallest for more in combinations(other, majority(len(other))))


@given(IDS, IDS, st.randoms(use_true_random=False))
def test_every_step_changes_one_voter_and_majorities_always_meet(
    current: tuple[int, ...], target: tuple[int, ...], random: Random
) -> None:
    """From any set to any other, for every leader, order of catching up and log ends. A majority of the voters
    always fetches; otherwise there is no leader to plan a step."""
    latest, steps, waits = assignment_toward(voter_set(*current), target), 0, 0
    while latest.target is not None:
        ids = latest.current.ids
        patient = waits > 20  # finally every node catches up
        alive = random.sample(ids, len(ids) if patient else random.randint(majority(len(ids)), len(ids)))
        leader = random.choice(alive)
        caught_up = [node_id for node_id in target if patient or random.random() < 0.5]
        touch = {node_id: random.randrange(5) for node_id in alive}
        step = next_assignment(latest, leader, ready(*caught_up), touch)
        if step is None:
            waits += 1
            assert not patient
            continue
        after = step.current
        assert count_changed_voters(latest.current, after) <= 1
        assert majorities_meet(ids, after.ids)
        assert len(after.voters) >= min(len(current), len(target))
        assert set(after.ids) - set(ids) <= set(caught_up)
        assert after.is_majority([*touch, *caught_up]), "the step cannot be committed"
        if leader not in after.ids:
            assert set(after.ids) <= set(target), "the leader left before others"
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
def test_number_of_voter_changes(before: VoterSet, after: VoterSet, changed: int) -> None:
    assert count_changed_voters(before, after) == changed


def test_voter_on_a_replaced_disk_is_replaced_by_its_new_directory() -> None:
    new = Voter(key(3, incarnation=2), (endpoint(3),))
    before = VoterAssignment(voter_set(1, 2, 3), (1, 2, 3))
    removed = next_assignment(before, 1, {3: new}, {1: 9, 2: 9})
    assert removed == VoterAssignment(voter_set(1, 2), (1, 2, 3))
    added = next_assignment(removed, 1, {3: new}, {1: 9, 2: 9})
    assert added == VoterAssignment(voter_set(1, 2).with_voter(new))


def test_fetching_voter_is_not_replaced_by_another_directory_of_its_node() -> None:
    new = Voter(key(3, incarnation=2), (endpoint(3),))
    before = VoterAssignment(voter_set(1, 2, 3), (1, 2, 3))
    assert next_assignment(before, 1, {3: new}, {1: 9, 2: 9, 3: 9}) == VoterAssignment(voter_set(1, 2, 3))
