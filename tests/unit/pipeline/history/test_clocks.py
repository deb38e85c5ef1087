"""A leader's wrong clock is detected where time goes back, and only its epochs are shifted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from quorumd.pipeline.history.clocks import Clocks, shifts

DAY = 86_400


def shifts_of(starts: list[int], ends: list[int]) -> list[int]:
    """Epochs of ten offsets each with these start and end times."""
    begins = np.arange(len(starts), dtype=np.int64) * 10
    return shifts(begins, np.array(starts), begins + 9, np.array(ends)).tolist()


def test_consistent_clocks_are_trusted() -> None:
    assert shifts_of([0, 10, 10, 50], [9, 10, 30, 60]) == [0, 0, 0, 0]


def test_long_pause_is_not_wrong_clock() -> None:
    assert shifts_of([0, 10, 30 * DAY], [9, 20, 30 * DAY + 5]) == [0, 0, 0]


def test_epoch_with_fast_clock_is_shifted_to_previous_end() -> None:
    assert shifts_of([0, 10 + DAY, 30], [9, 25 + DAY, 40]) == [0, 9 - (10 + DAY), 0]


def test_epoch_with_slow_clock_is_shifted() -> None:
    assert shifts_of([DAY - 9, DAY, 3, DAY + 30], [DAY - 5, DAY + 9, 23, DAY + 40]) == [0, 0, DAY + 9 - 3, 0]


def test_consecutive_shifted_epochs_follow_each_other() -> None:
    moved = shifts_of([80, 100, 5, 2, 150], [90, 110, 15, 22, 160])
    assert moved == [0, 0, 110 - 5, 120 - 2, 0]


def test_shifted_first_epoch_ends_at_next_start() -> None:
    assert shifts_of([DAY, 50, 60], [DAY + 7, 55, 70]) == [50 - 7 - DAY, 0, 0]


def test_epoch_may_have_only_known_start() -> None:
    begins = np.array([100, 200, 300, 400])
    starts = np.array([4, 5, 3, 7])
    before_all = np.array([50])
    assert shifts(begins, starts, before_all, np.array([99])).tolist() == [0, 0, 2, 0]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), min_size=5, max_size=30),
    st.data(),
    st.integers(2_000, 9_000) | st.integers(-9_000, -2_000),
)
def test_wrong_clock_is_shifted_between_neighbours(
    epochs: list[tuple[int, int]], data: st.DataObject, wrong_by: int
) -> None:
    """`epochs` are their durations and the pauses after them."""
    starts, ends, now = [], [], 0
    for length, pause in epochs:
        starts.append(now)
        ends.append(now + length)
        now += length + pause
    one = data.draw(st.integers(2, len(epochs) - 2))
    starts[one] += wrong_by
    ends[one] += wrong_by
    moved = shifts_of(starts, ends)
    assert [i for i, shift in enumerate(moved) if shift] == [one]
    assert ends[one - 1] <= starts[one] + moved[one]
    assert ends[one] + moved[one] <= starts[one + 1]


def test_times_are_shifted_by_epoch_of_their_offset() -> None:
    clocks = Clocks(np.array([0, 10, 20]), np.array([0, 5_000_000, 0]))
    noon = datetime(2026, 3, 14, 12, tzinfo=UTC)
    times = pa.chunked_array([pa.array([noon, noon, None, noon], pa.timestamp("us", "UTC"))])
    offsets = pa.chunked_array([pa.array([9, 10, None, 20], pa.int64())])
    assert clocks.moved == 1
    assert clocks.corrected(times, offsets).to_pylist() == [noon, noon + timedelta(seconds=5), None, noon]
    assert clocks.corrected(times, offsets).type == times.type
