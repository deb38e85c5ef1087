"""Plans tasks on the driver from options, directories, indexes or a live cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from quorumd.errors import InputIncomplete
from quorumd.pipeline.copies.log_files import read_directories
from quorumd.pipeline.scan.search import COUNTS, announced_size, resync
from quorumd.pipeline.source.options import EVERY_TIME, Interval, Selection, SourceOptions
from quorumd.pipeline.source.tasks import (
    File,
    OffsetIndex,
    Piece,
    files_of,
    largest_timestamp,
    may_hold,
    offset_ranges,
    pack,
    read_index,
    split,
)
from quorumd.protocol.batch_header import HEADER_SIZE

INDEXED_BYTES = 1 << 20
"""Smaller parts of files are read in full, which is as cheap as reading the index."""
NO_SNAPSHOT = "the cluster has no snapshot yet; its log begins at offset 0 (level records)"
_LEAST_RANGE = 50_000
"""The smallest range of offsets of a live log that is worth its own connection."""


def plan_files(options: SourceOptions, wanted: Selection) -> list[tuple[Piece, ...]]:
    """Return the pieces of each task. Raises InputIncomplete for directories without a log."""
    directories = read_directories(options.directories)
    files = files_of(directories, options.level)
    if not files and options.level == "snapshot":
        paths = ", ".join(directory.path for directory in directories)
        raise InputIncomplete(
            f"there is no snapshot in {paths}: expected files such as {0:020d}-{0:010d}.checkpoint"
        )
    return plan_pieces(
        [file for file in files if may_hold(file, wanted, _newest(file, wanted))], options, wanted
    )


def plan_pieces(files: Iterable[File], options: SourceOptions, wanted: Selection) -> list[tuple[Piece, ...]]:
    """Divide the parts of files that can hold requested data into tasks."""
    return plan_parts([(file, *segment_bounds(file, wanted.offsets)) for file in files], options)


def plan_parts(parts: Sequence[tuple[File, int, int]], options: SourceOptions) -> list[tuple[Piece, ...]]:
    """Divide parts of files into tasks."""
    pack_bytes, split_bytes = options.sizes(sum(end - start for _, start, end in parts))
    return pack((piece for part in parts for piece in split(*part, split_bytes)), pack_bytes)


def plan_live(options: SourceOptions, wanted: Selection) -> list[tuple[int, int]]:
    """Return a range of offsets per task. Raises InputIncomplete, RequestFailed."""
    with options.observer(committed_only=options.committed_only) as observer:
        extent = observer.extent()
    requested = options.selection.offsets
    if 0 < requested.low < extent.start:
        raise InputIncomplete(
            f"startingOffset is {requested.low}, but the log of the cluster starts at {extent.start}; "
            "older records are in its snapshot (level snapshot)"
        )
    start, end = max(wanted.offsets.low, extent.start), min(wanted.offsets.high, extent.end)
    return live_ranges(start, end)


def live_ranges(start: int, end: int) -> list[tuple[int, int]]:
    return offset_ranges(start, end, 2 * (os.cpu_count() or 1), _LEAST_RANGE) if start < end else []


def require_snapshot(options: SourceOptions) -> None:
    """Raise InputIncomplete if a live cluster has no snapshot, RequestFailed if it does not respond."""
    with options.observer() as observer:
        if observer.newest_snapshot() is None:
            raise InputIncomplete(NO_SNAPSHOT)


def _newest(file: File, wanted: Selection) -> int | None:
    """Return the largest timestamp of a file; None if unknown or not needed."""
    if wanted.times.low == EVERY_TIME.low or file.snapshot is not None:
        return None
    path = Path(file.path).with_suffix(".timeindex")
    try:
        return largest_timestamp(path.read_bytes(), file.expected_offset, file.next_offset)
    except OSError:
        return None


def segment_bounds(file: File, offsets: Interval) -> tuple[int, int]:
    """Return positions that enclose all batches with some of `offsets`, from the index of a segment."""
    within = file.expected_offset < offsets.low or file.next_offset is None or offsets.high < file.next_offset
    if file.snapshot is not None or not within or file.size < INDEXED_BYTES:
        return 0, file.size
    path = Path(file.path).with_suffix(".index")
    try:
        index = read_index(path.read_bytes(), file.expected_offset, file.size)
    except OSError:
        index = OffsetIndex()
    start, end = index.bounds(offsets, file.size)
    # Use an entry of the index only if the batch at its position confirms it.
    if start and not -1 < _offset_at(file, start) < offsets.low:
        start = 0
    if end < file.size and _offset_at(file, end) < offsets.high:
        end = file.size
    return start, end


def _offset_at(file: File, position: int) -> int:
    """Return the base offset of the valid batch at a position; -1 if there is none."""
    try:
        with open(file.path, "rb") as stream:
            stream.seek(position)
            header = stream.read(HEADER_SIZE)
            size = announced_size(memoryview(header), 0)
            if not size:
                return -1
            data = header + stream.read(size - HEADER_SIZE)
    except OSError:
        return -1
    return int(COUNTS(data)[0]) if resync(data) == 0 else -1
