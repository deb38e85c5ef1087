"""Where epochs begin and end."""

from __future__ import annotations

import pytest

from quorumd.ids import OffsetAndEpoch
from quorumd.log.epoch_cache import EpochCache


@pytest.fixture
def cache() -> EpochCache:
    """Epochs 2 from offset 10, 5 from 20, 6 from 21."""
    cache = EpochCache()
    cache.add(2, 10)
    cache.add(5, 20)
    cache.add(6, 21)
    return cache


@pytest.mark.parametrize(
    ("epoch", "found"), [(1, None), (2, (20, 2)), (4, (20, 2)), (5, (21, 5)), (6, (30, 6)), (99, (30, 6))]
)
def test_end_of_epoch(cache: EpochCache, epoch: int, found: tuple[int, int] | None) -> None:
    assert cache.end_of_epoch(epoch, 30) == (found and OffsetAndEpoch(*found))


@pytest.mark.parametrize(
    ("end_offset", "changed", "last_epoch"),
    [(30, False, 6), (22, False, 6), (21, True, 5), (11, True, 2), (10, True, 0)],
)
def test_cut(cache: EpochCache, end_offset: int, changed: bool, last_epoch: int) -> None:
    assert cache.truncate(end_offset) is changed
    assert cache.last_epoch == last_epoch


def test_empty() -> None:
    assert EpochCache().last_epoch == 0
    assert EpochCache().end_of_epoch(3, 0) is None
    assert EpochCache().encode() == b"0\n0\n"


def test_file_content(cache: EpochCache) -> None:
    assert cache.encode() == b"0\n3\n2 10\n5 20\n6 21\n"


@pytest.mark.parametrize(
    ("start", "content"),
    [
        ((15, 2), b"0\n3\n2 15\n5 20\n6 21\n"),
        ((20, 2), b"0\n2\n5 20\n6 21\n"),
        ((21, 5), b"0\n1\n6 21\n"),
        ((25, 6), b"0\n1\n6 25\n"),
        ((90, 8), b"0\n1\n8 90\n"),
    ],
    ids=str,
)
def test_file_content_with_a_later_log_start(
    cache: EpochCache, start: tuple[int, int], content: bytes
) -> None:
    cache.set_start(OffsetAndEpoch(*start))
    assert cache.encode() == content


def test_epoch_before_the_log_start_is_kept() -> None:
    cache = EpochCache()
    cache.set_start(OffsetAndEpoch(20, 2))
    cache.add(5, 20)
    assert [cache.end_of_epoch(epoch, 30) for epoch in (1, 2, 4, 5)] == [None, (20, 2), (20, 2), (30, 5)]
    assert cache.truncate(20)
    assert (cache.last_epoch, cache.end_of_epoch(5, 20)) == (2, (20, 2))
