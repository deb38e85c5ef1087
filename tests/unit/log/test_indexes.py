"""Sparse indexes against a list of all batches."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from struct import iter_unpack

from quorumd.log.indexes import NO_TIMESTAMP, SegmentIndexes

BASE = 1000
INTERVAL = 100


def filled(batches: list[tuple[int, int, int, int]]) -> SegmentIndexes:
    indexes = SegmentIndexes(BASE, INTERVAL)
    for last_offset, position, size, timestamp in batches:
        indexes.add(last_offset, position, size, timestamp)
    return indexes


def some_batches(seed: int, count: int = 40) -> list[tuple[int, int, int, int]]:
    random = Random(seed)
    batches = []
    offset, position = BASE, 0
    for _ in range(count):
        size = random.randint(20, 150)
        records = random.randint(1, 4)
        batches.append((offset + records - 1, position, size, random.randint(0, 50)))
        offset += records
        position += size
    return batches


def test_lookup_returns_position_of_a_batch_shortly_before() -> None:
    for seed in range(20):
        batches = some_batches(seed)
        indexes = filled(batches)
        starts = {position: last_offset for last_offset, position, _, _ in batches}
        first = BASE
        for last_offset, position, _, _ in batches:
            for offset in range(first, last_offset + 1):
                found = indexes.position_before(offset)
                assert found in starts
                assert found <= position
                assert position - found <= INTERVAL + 2 * 150
            first = last_offset + 1


def test_entries_are_last_offset_and_position_of_a_batch_every_interval() -> None:
    batches = [(BASE + 2 * index + 1, 60 * index, 60, 7) for index in range(7)]
    # 60 bytes each: more than 100 bytes lie before batches 2, 4 and 6.
    assert list(iter_unpack(">II", filled(batches).offset_index())) == [(5, 120), (9, 240), (13, 360)]


def test_time_entries_are_increasing() -> None:
    for seed in range(20):
        batches = some_batches(seed)
        entries = list(iter_unpack(">qI", filled(batches).time_index()))
        assert entries == sorted(entries)
        assert len({timestamp for timestamp, _ in entries}) == len(entries)
        largest = max(timestamp for *_, timestamp in batches)
        first = next(last_offset for last_offset, _, _, timestamp in batches if timestamp == largest)
        assert entries[-1] == (largest, first - BASE)


def test_truncation_equals_never_having_appended() -> None:
    for seed in range(20):
        batches = some_batches(seed)
        for keep in range(len(batches) + 1):
            indexes = filled(batches)
            end = batches[keep - 1][0] + 1 if keep else BASE
            position = batches[keep][1] if keep < len(batches) else batches[-1][1] + batches[-1][2]
            indexes.truncate(end, position)
            fresh = filled(batches[:keep])
            assert indexes.offset_index() == fresh.offset_index()
            for batch in batches[keep:]:
                indexes.add(*batch)
            assert indexes.offset_index() == filled(batches).offset_index()


def test_truncation_removes_time_entries() -> None:
    batches = some_batches(3)
    indexes = filled(batches)
    indexes.truncate(batches[9][0] + 1, batches[10][1])
    entries = list(iter_unpack(">qI", indexes.time_index()))
    assert entries
    assert all(offset + BASE <= batches[9][0] for _, offset in entries)
    indexes.truncate(BASE, 0)
    assert indexes.time_index() == b""


def test_empty() -> None:
    indexes = SegmentIndexes(BASE, INTERVAL)
    assert indexes.offset_index() == indexes.time_index() == b""
    assert indexes.position_before(BASE) == 0
    assert indexes._largest[0] == NO_TIMESTAMP


def test_offset_beyond_the_entry_range_is_not_indexed() -> None:
    """Batches of a damaged file can claim two thousand million offsets each (found by fuzzing)."""
    most = 2**31 - 1
    indexes = filled([(BASE + n * most, n * 200, 200, n) for n in range(5)])
    assert [last for last, _ in iter_unpack(">II", indexes.offset_index())] == [most]
    assert indexes.position_before(BASE + 4 * most) == 200
    assert len(indexes.time_index()) == 12


def test_largest_timestamp_is_that_of_all_batches() -> None:
    assert filled([]).largest_timestamp_ms == NO_TIMESTAMP
    assert filled([(BASE, 0, 60, 7), (BASE + 1, 60, 60, 9), (BASE + 2, 120, 60, 8)]).largest_timestamp_ms == 9


def test_largest_timestamp_can_be_that_of_a_batch_that_is_not_indexed() -> None:
    indexes = filled([(BASE, 0, 60, 7)])
    for offset, timestamp_ms in ((BASE + 3, 9), (BASE + 4, 9), (BASE + 5, 8)):
        indexes.update_largest_timestamp(offset, timestamp_ms)
    assert (indexes.largest_timestamp_ms, indexes.largest_timestamp_offset) == (9, BASE + 3)


def test_loaded_files_continue_as_if_never_written() -> None:
    for seed in range(20):
        batches = some_batches(seed)
        for keep in (0, 1, 20, 39):
            indexes = filled(batches[:keep])
            size = sum(size for *_, size, _ in batches[:keep])
            loaded = SegmentIndexes(BASE, INTERVAL)
            assert loaded.load(indexes.offset_index(), indexes.time_index(), size)
            assert loaded.largest_timestamp_ms == indexes.largest_timestamp_ms
            assert loaded.largest_timestamp_offset == indexes.largest_timestamp_offset
            for batch in batches[keep:]:
                loaded.add(*batch)
            assert loaded.offset_index() == filled(batches).offset_index()
            assert loaded.largest_timestamp_ms == filled(batches).largest_timestamp_ms


def test_loaded_timestamps_have_64_bits() -> None:
    late = 1_764_400_000_000
    batches = [(BASE + number, 60 * number, 60, late + number * 2**32) for number in range(7)]
    indexes = filled(batches)
    loaded = SegmentIndexes(BASE, INTERVAL)
    assert loaded.load(indexes.offset_index(), indexes.time_index(), 7 * 60)
    assert loaded.time_index() == indexes.time_index()
    assert loaded.largest_timestamp_ms == late + 6 * 2**32


def test_files_that_cannot_be_indexes_are_not_loaded() -> None:
    batches = some_batches(3)
    indexes = filled(batches)
    size = sum(size for *_, size, _ in batches)
    offsets, times = indexes.offset_index(), indexes.time_index()
    loaded = SegmentIndexes(BASE, INTERVAL)
    assert not loaded.load(offsets[:-1], times, size)
    assert not loaded.load(offsets, times[:-1], size)
    assert not loaded.load(offsets[:8] + bytes(8) + offsets[16:], times, size)
    assert not loaded.load(offsets, times[:12] + bytes(12) + times[24:], size)
    assert not loaded.load(offsets, times, indexes.last_position)
    assert not loaded.load(b"", b"", size)
    assert loaded.load(offsets, times, size)


def test_timestamp_lookup_starts_at_or_before_the_first_later_batch() -> None:
    for seed in range(20):
        batches = some_batches(seed)
        indexes = filled(batches)
        for wanted in range(52):
            later = [position for _, position, _, timestamp in batches if timestamp >= wanted]
            assert indexes.position_before_timestamp(wanted) <= min(later, default=batches[-1][1])


def test_boundary_is_a_batch_up_to_which_all_may_be_read() -> None:
    for seed in range(20):
        batches = some_batches(seed)
        indexes = filled(batches)
        ends = {0: BASE} | {position: before[0] + 1 for before, (_, position, *_) in pairwise(batches)}
        for position in range(0, batches[-1][1] + 300, 37):
            for max_offset in range(BASE, batches[-1][0] + 3, 5):
                boundary = indexes.boundary(position, max_offset)
                assert boundary <= position
                assert ends[boundary] <= max_offset


def test_time_entries_hold_the_present_in_milliseconds() -> None:
    now_ms = 1_700_000_000_000
    batches = [(BASE + index, 60 * index, 60, now_ms + index) for index in range(7)]
    assert list(iter_unpack(">qI", filled(batches).time_index())) == [
        (now_ms + index, index) for index in (2, 4, 6)
    ]
