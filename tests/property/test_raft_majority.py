"""The majority arithmetic against naive versions that try all subsets."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from quorumd.ids import OffsetAndEpoch
from quorumd.raft.follower import continuation
from quorumd.raft.messages import FetchedBatch
from quorumd.raft.voters import majority, majority_value
from tests.support.raft.quorum import voter_set

offsets = st.lists(st.integers(-1, 20), min_size=1, max_size=7)


@given(offsets)
def test_reached_by_majority_is_the_largest_offset_of_some_majority(values: list[int]) -> None:
    majorities = combinations(values, majority(len(values)))
    assert majority_value(values) == max(min(members) for members in majorities)


@given(st.integers(1, 9))
def test_two_majorities_always_meet(voters: int) -> None:
    assert 2 * majority(voters) > voters
    assert 2 * (majority(voters) - 1) <= voters


@given(st.sets(st.integers(1, 7), min_size=1), st.lists(st.integers(1, 9), unique=True))
def test_is_majority_counts_members(members: set[int], ids: list[int]) -> None:
    assert voter_set(*members).is_majority(ids) == (2 * len(members & set(ids)) > len(members))


positions = st.builds(OffsetAndEpoch, st.integers(0, 9), st.integers(0, 9))


@given(positions, positions, positions)
def test_being_up_to_date_is_a_total_order(a: OffsetAndEpoch, b: OffsetAndEpoch, c: OffsetAndEpoch) -> None:
    assert a.is_at_least(b) or b.is_at_least(a)
    assert not (a.is_at_least(b) and b.is_at_least(a)) or a == b
    assert not (a.is_at_least(b) and b.is_at_least(c)) or a.is_at_least(c)


@st.composite
def fetched(draw: st.DrawFn) -> tuple[FetchedBatch, ...]:
    base = draw(st.integers(0, 6))
    batches = []
    for position in range(draw(st.integers(0, 5))):
        base += draw(st.sampled_from([0, 0, 0, 1]))
        end = base + draw(st.integers(1, 3))
        batches.append(FetchedBatch(base, end, draw(st.integers(1, 5)), position))
        base = end
    return tuple(batches)


@given(st.integers(0, 8), st.integers(0, 4), st.integers(1, 5), fetched())
def test_appended_batches_continue_the_log(
    offset: int, last_epoch: int, epoch: int, batches: tuple[FetchedBatch, ...]
) -> None:
    end = OffsetAndEpoch(offset, last_epoch)
    for batch in continuation(end, epoch, batches):
        assert batch.base_offset == end.offset
        assert end.epoch <= batch.epoch <= epoch
        end = OffsetAndEpoch(batch.end_offset, batch.epoch)
