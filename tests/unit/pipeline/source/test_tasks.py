from __future__ import annotations

from itertools import pairwise
from struct import pack as packed

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorumd.pipeline.copies.log_files import CopyDirectory, SegmentFile, SnapshotFile
from quorumd.pipeline.source.options import MAX_OFFSET, Interval, Selection
from quorumd.pipeline.source.tasks import (
    File,
    OffsetIndex,
    files_of,
    largest_timestamp,
    may_hold,
    offset_ranges,
    pack,
    read_index,
    split,
)

DIRECTORY = CopyDirectory(
    1,
    "/n1",
    tuple(
        SegmentFile(1, f"/n1/{base:020d}.log", base, size) for base, size in ((0, 100), (10, 200), (30, 50))
    ),
    (SnapshotFile(1, "/n1/s.checkpoint", 10, 3, 77),),
)


def files(level: str = "records") -> list[File]:
    return files_of([DIRECTORY], level)


def selected(**parts: Interval) -> list[int]:
    return [file.expected_offset for file in files() if may_hold(file, Selection(**parts), None)]  # type: ignore[arg-type] # one of several kinds


def test_only_last_segment_may_be_torn() -> None:
    assert [(f.expected_offset, f.next_offset, f.may_be_torn) for f in files()] == [
        (0, 10, False),
        (10, 30, False),
        (30, None, True),
    ]


def test_snapshot_level_reads_snapshots_from_offset_0() -> None:
    (snapshot,) = files("snapshot")
    assert (snapshot.snapshot, snapshot.expected_offset, snapshot.may_be_torn) == ((10, 3), 0, False)


@pytest.mark.parametrize(
    ("low", "high", "bases"),
    [
        (0, MAX_OFFSET, [0, 10, 30]),
        (9, 10, [0]),
        (10, 11, [10]),
        (9, 11, [0, 10]),
        (30, 31, [30]),
        (1_000, 2_000, [30]),
        (5, 5, []),
    ],
)
def test_segments_outside_requested_offsets_are_pruned(low: int, high: int, bases: list[int]) -> None:
    assert selected(offsets=Interval(low, high)) == bases


def test_other_nodes_and_older_segments_are_pruned() -> None:
    first = files()[0]
    assert not may_hold(first, Selection(frozenset({2})), None)
    assert may_hold(first, Selection(frozenset({1, 2})), None)
    assert not may_hold(first, Selection(times=Interval(500)), 499)
    assert may_hold(first, Selection(times=Interval(500)), 500)
    assert may_hold(first, Selection(times=Interval(500)), None), "not known"


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 10**9))
def test_split_covers_every_byte_once(start: int, size: int, split_bytes: int) -> None:
    split_bytes = max(split_bytes, size // 1000 or 1)
    pieces = split(files()[0], start, start + size, split_bytes)
    assert pieces[0].start == start
    assert pieces[-1].end == start + size
    assert all(a.end == b.start for a, b in pairwise(pieces))
    assert all(piece.size <= split_bytes for piece in pieces)


@given(st.lists(st.integers(1, 300), max_size=30), st.integers(1, 1000))
def test_packing_keeps_pieces_in_order_and_fills_tasks(sizes: list[int], limit: int) -> None:
    file = files()[0]
    pieces = [piece for size in sizes for piece in split(file, 0, size, size)]
    tasks = pack(pieces, limit)
    assert [piece for task in tasks for piece in task] == pieces
    loads = [sum(piece.size for piece in task) for task in tasks]
    assert all(load <= limit or len(task) == 1 for load, task in zip(loads, tasks, strict=True))
    assert all(load + after[0].size > limit for load, after in zip(loads, tasks[1:], strict=False)), (
        "the next piece would have had room"
    )


def entries(*pairs: tuple[int, int]) -> bytes:
    return b"".join(packed(">II", *pair) for pair in pairs)


def test_index_is_read_up_to_first_invalid_entry() -> None:
    data = entries((5, 100), (9, 200))
    assert read_index(data + bytes(800), 1000, 500) == OffsetIndex((1005, 1009), (100, 200))
    assert read_index(data + entries((8, 300)), 1000, 500).positions == (100, 200), "offsets ascend"
    assert read_index(data + entries((12, 150)), 1000, 500).positions == (100, 200), "positions ascend"
    assert read_index(data + entries((12, 500)), 1000, 500).positions == (100, 200), "inside of the file"
    assert read_index(data[:-1], 1000, 500).positions == (100,)
    assert read_index(b"", 1000, 500) == OffsetIndex()


@given(st.data())
def test_index_bounds_exclude_no_requested_offset(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=40))
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    batches = [(end - size, end, 10 * i) for i, (size, end) in enumerate(zip(sizes, ends, strict=True))]
    indexed = sorted(data.draw(st.sets(st.integers(1, len(sizes)), max_size=10)))
    known = [batches[i] for i in indexed if i < len(batches)]
    index = OffsetIndex(tuple(end - 1 for _, end, _ in known), tuple(at for _, _, at in known))
    low = data.draw(st.integers(0, ends[-1]))
    high = data.draw(st.integers(low, ends[-1] + 1))
    start, end = index.bounds(Interval(low, high), 10 * len(sizes))
    wanted = [at for base, stop, at in batches if stop > low and base < high]
    assert all(start <= at < end for at in wanted)
    by_position = {at: (base, stop) for base, stop, at in batches}
    if start:
        assert by_position[start][1] <= low, "a batch that is not wanted: it may be damaged unseen"


def test_largest_timestamp_is_last_entry_of_time_index() -> None:
    data = packed(">qI", 700, 3) + packed(">qI", 900, 7)
    assert largest_timestamp(data, 100, 110) == 900
    assert largest_timestamp(data, 100, None) is None, "it is written to"
    assert largest_timestamp(data, 100, 107) is None, "an offset of the next segment"
    assert largest_timestamp(data[:-1], 100, 110) is None
    assert largest_timestamp(b"", 100, 110) is None
    assert largest_timestamp(packed(">qI", 900, 3) + packed(">qI", 900, 7), 100, 110) is None


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 10**5))
def test_offset_ranges_cover_each_offset_once(start: int, count: int, tasks: int, least: int) -> None:
    ranges = offset_ranges(start, start + count, tasks, least)
    assert sum(high - low for low, high in ranges) == count
    assert len(ranges) <= tasks
    assert [low for low, _ in ranges[1:]] == [high for _, high in ranges[:-1]]
    assert len(ranges) == 1 or all(high - low >= least for low, high in ranges) or count == 0
