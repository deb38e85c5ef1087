from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from quorumd.pipeline.source.filters import selection_of
from quorumd.pipeline.source.options import Interval, Selection

OFFSET, TS, NODE = ("offset",), ("ts",), ("node",)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_767_268_800_000


@pytest.mark.parametrize(
    "each",
    [
        IsNotNull(OFFSET),
        IsNull(OFFSET),
        EqualNullSafe(OFFSET, None),
        Not(EqualTo(OFFSET, 5)),
        EqualTo(("type",), 5),
        EqualTo(("replicas", "offset"), 5),
        StringStartsWith(("segment",), "0"),
        GreaterThan(("leader",), 5),
    ],
)
def test_unrelated_filters_prune_nothing(each: Filter) -> None:
    read = selection_of([each], by_base_offset=False)
    assert read.nodes is None
    assert all(
        interval.meets(0, 1) and interval.meets(10**9, 10**9 + 1) for interval in (read.offsets, read.epochs)
    )
    assert read.times.meets(NOON_MS, NOON_MS + 1)


@pytest.mark.parametrize(
    ("each", "holds", "leaves_out"),
    [
        (EqualTo(OFFSET, 7), [7], [6, 8]),
        (EqualNullSafe(OFFSET, 7), [7], [6, 8]),
        (In(OFFSET, (7, None, 9)), [7, 9], [6, 10]),
        (GreaterThan(OFFSET, 7), [8], [6]),
        (GreaterThanOrEqual(OFFSET, 7), [7], [6]),
        (LessThan(OFFSET, 7), [6], [8]),
        (LessThanOrEqual(OFFSET, 7), [7], [8]),
        (EqualTo(OFFSET, None), [], [0, 7]),
    ],
)
def test_offset_comparisons_prune(each: Filter, holds: list[int], leaves_out: list[int]) -> None:
    offsets = selection_of([each], by_base_offset=False).offsets
    assert all(offsets.meets(offset, offset + 1) for offset in holds)
    assert not any(offsets.meets(offset, offset + 1) for offset in leaves_out)


def test_batch_starting_below_may_match() -> None:
    below = [LessThan(("base_offset",), 7)]
    assert selection_of(below, by_base_offset=False).offsets.meets(8, 9)
    assert not selection_of(below, by_base_offset=True).offsets.meets(8, 9)


def test_filters_are_combined_with_and() -> None:
    read = selection_of(
        [
            GreaterThan(OFFSET, 5),
            LessThan(OFFSET, 9),
            In(NODE, (1, 2)),
            EqualTo(NODE, 2),
            GreaterThanOrEqual(("epoch",), 3),
        ],
        by_base_offset=False,
    )
    assert read.nodes == frozenset({2})
    assert read.offsets == Interval(5, 10)
    assert read.epochs.low == 3
    assert selection_of([], by_base_offset=False) == Selection()


@pytest.mark.parametrize("noon", [NOON, NOON.replace(tzinfo=None)])
def test_naive_times_are_utc(noon: datetime) -> None:
    after = selection_of([GreaterThan(TS, noon)], by_base_offset=False).times
    assert after.meets(NOON_MS, NOON_MS + 1), "microseconds above are in the same millisecond"
    assert not after.meets(NOON_MS - 1, NOON_MS)
    before = selection_of([LessThan(TS, noon.replace(microsecond=500))], by_base_offset=False).times
    assert before.meets(NOON_MS, NOON_MS + 1)
    assert not before.meets(NOON_MS + 1, NOON_MS + 2)
