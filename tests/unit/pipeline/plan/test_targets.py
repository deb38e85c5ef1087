"""Targets are as even as the racks allow, integers, of the right sum, and closest to the current loads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorumd.errors import ConfigError
from quorumd.pipeline.plan.targets import Bands, RackRules, bands, rack_bounds, settled, targets


def array(*values: int) -> Any:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("sizes", "factor", "fewest", "most"),
    [
        ((2, 2, 2), 2, (0, 0, 0), (1, 1, 1)),
        ((2, 2, 2), 3, (1, 1, 1), (1, 1, 1)),
        ((4, 4), 3, (1, 1), (2, 2)),
        ((9,), 3, (3,), (3,)),
        ((1, 1, 5), 4, (1, 1, 2), (1, 1, 2)),
        ((1, 4, 4), 4, (1, 1, 1), (1, 2, 2)),
        ((2, 2), 4, (2, 2), (2, 2)),
    ],
)
def test_partition_is_spread_evenly_over_racks(
    sizes: tuple[int, ...], factor: int, fewest: tuple[int, ...], most: tuple[int, ...]
) -> None:
    low, high = rack_bounds(array(*sizes), factor)
    assert (tuple(low), tuple(high)) == (fewest, most)


def test_more_replicas_than_brokers_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"4 replicas .*only 3 "):
        rack_bounds(array(2, 1), 4)


def banded(racks: tuple[int, ...], partitions: dict[int, int], tolerance: float = 0.0) -> Bands:
    rack_of = array(*racks)
    rules = RackRules.of(np.bincount(rack_of[rack_of >= 0]), np.array(list(partitions), np.int64))
    return bands(rack_of, rules, partitions, tolerance, whole=True)


def test_brokers_get_equal_shares_if_racks_allow() -> None:
    within = banded((0, 0, 1, 1, 2, 2), {2: 100})
    assert within.total == 200
    assert set(within.low) == {33}
    assert set(within.high) == {34}


def test_small_rack_takes_one_replica_per_partition() -> None:
    """Redpanda's issue 6058: rack shares come first."""
    within = banded((0, 0, 0, 0, 0, 0, 1, 2), {3: 90})
    assert list(within.low) == [15] * 6 + [90, 90]
    assert list(within.high) == [15] * 6 + [90, 90]
    within = banded((0, 0, 0, 0, 0, 0, 1, 2), {2: 90})
    assert list(within.low) == [15] * 6 + [45, 45], "the large rack takes one of each, not more"


def test_replication_factor_classes_share_racks() -> None:
    """Two racks of ten and two of one: single replicas go to the large racks, three replicas to three racks."""
    within = banded((*([0] * 10), *([1] * 10), 2, 3), {1: 50, 3: 50})
    of_rack = [within.share[:10].sum(), within.share[10:20].sum(), within.share[20], within.share[21]]
    assert sum(of_rack) == pytest.approx(200)
    assert of_rack == pytest.approx([75, 75, 25, 25], abs=0.01)


def test_drained_brokers_get_no_replicas() -> None:
    within = banded((0, -1, 0), {2: 10})
    assert list(within.high) == [10, 0, 10]


@given(st.lists(st.integers(0, 100), min_size=1, max_size=9), st.data())
def test_settled_targets_keep_bounds_and_sum(start: list[int], data: st.DataObject) -> None:
    low = [data.draw(st.integers(0, value)) for value in start]
    high = [data.draw(st.integers(value, 120)) for value in start]
    total = data.draw(st.integers(sum(low), sum(high)))
    ones = np.ones(len(start), np.int64)
    found = settled(array(*start), array(*low), array(*high), ones, total)
    assert found.sum() == total
    assert (found >= low).all()
    assert (found <= high).all()
    moved = found - start
    assert (moved >= 0).all() or (moved <= 0).all(), "only up, or only down"
    raised, lowered = found[moved > 0], found[moved < 0]
    if len(raised):
        able = found[found < high]
        assert raised.max() - 1 <= able.min(initial=raised.max()), "the lowest first"
    if len(lowered):
        able = found[found > low]
        assert lowered.min() + 1 >= able.max(initial=lowered.min()), "the highest first"


@given(
    st.lists(st.integers(0, 50), min_size=6, max_size=6),
    st.integers(1, 3),
    st.floats(0, 0.5),
)
def test_targets_cost_no_more_than_their_bands(loads: list[int], factor: int, tolerance: float) -> None:
    partitions = sum(loads) // factor
    loads[0] -= sum(loads) - partitions * factor
    if loads[0] < 0 or not partitions:
        return
    within = banded((0, 0, 1, 1, 2, 2), {factor: partitions}, tolerance)
    found = targets(array(*loads), array(0, 0, 1, 1, 2, 2), within)
    assert found.sum() == within.total
    assert (found >= within.low).all()
    assert (found <= within.high).all()
    if factor < 3:
        gets = np.maximum(found - loads, 0).sum()
        least = max(np.maximum(within.low - loads, 0).sum(), np.maximum(array(*loads) - within.high, 0).sum())
        racks_free = (np.bincount([0, 0, 1, 1, 2, 2], found) < within.rack_high).all()
        assert gets >= least
        assert gets == least or not racks_free
