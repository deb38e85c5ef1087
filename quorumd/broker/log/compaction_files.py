"""Crash-safe replacement of segments by a compacted one, with Kafka's file suffixes.

    .cleaned    written by a compaction in progress; removed on the next start
    .swap       complete and durable; replaces the segments that it covers, at the latest on the next start

A replacement is written with its index files, so that recovery trusts it (see `.data_segment`). The `.log.swap` file
is the last one to get the `.swap` suffix and the last one to lose it: while it exists, recovery completes the
replacement.
"""

from __future__ import annotations

from quorumd.broker.log.data_segment import ALL_INDEX_SUFFIXES, remove_segment_files
from quorumd.log.batch_windows import read_windows
from quorumd.log.segment import LOG_SUFFIX, parse_base_offset
from quorumd.ports import Disk, File
from quorumd.protocol.batch_scan import Ascending

CLEANED = ".cleaned"
SWAP = ".swap"


def segment_stem(directory: str, base_offset: int) -> str:
    """The path of a segment's files, without the suffix."""
    return f"{directory}/{base_offset:020d}"


def replace_segments(disk: Disk, directory: str, base_offset: int, end_offset: int) -> None:
    """Replace the segments from `base_offset` to `end_offset` by the `.cleaned` files of `base_offset`. Blocks.

    The files must be durable. Raises OSError; the next start then completes or reverts the replacement.
    """
    stem = segment_stem(directory, base_offset)
    for suffix in (*ALL_INDEX_SUFFIXES, LOG_SUFFIX):
        disk.rename(stem + suffix + CLEANED, stem + suffix + SWAP)
        disk.sync_directory(directory)
    _complete(disk, directory, base_offset, end_offset)


def _complete(disk: Disk, directory: str, base_offset: int, end_offset: int) -> None:
    stem = segment_stem(directory, base_offset)
    for name in reversed(disk.list_directory(directory)):
        covered = parse_base_offset(name)
        if covered is not None and base_offset < covered < end_offset:
            remove_segment_files(disk, directory, covered)
    for suffix in ALL_INDEX_SUFFIXES:
        if disk.exists(stem + suffix + SWAP):
            disk.rename(stem + suffix + SWAP, stem + suffix)
    disk.sync_directory(directory)
    disk.rename(stem + LOG_SUFFIX + SWAP, stem + LOG_SUFFIX)
    disk.sync_directory(directory)


def remove_cleaned(disk: Disk, directory: str) -> None:
    """Remove the files of an unfinished compaction. Raises OSError."""
    for name in disk.list_directory(directory):
        if name.endswith(CLEANED):
            disk.remove(f"{directory}/{name}")


def complete_compaction(disk: Disk, directory: str) -> None:
    """Complete interrupted replacements, and remove the files of unfinished compactions. Blocks. Raises OSError."""
    names = disk.list_directory(directory)
    for name in names:
        base_offset = parse_base_offset(name.removesuffix(SWAP))
        if name.endswith(LOG_SUFFIX + SWAP) and base_offset is not None:
            file = disk.open(f"{directory}/{name}")
            try:
                end_offset = _end_offset(file, base_offset)
            finally:
                file.close()
            _complete(disk, directory, base_offset, end_offset)
    leftovers = [name for name in disk.list_directory(directory) if name.endswith((CLEANED, SWAP))]
    for name in leftovers:
        disk.remove(f"{directory}/{name}")
    if leftovers:
        disk.sync_directory(directory)


def _end_offset(file: File, base_offset: int) -> int:
    for window in read_windows(file, Ascending(with_crc=False)):
        if window.headers:
            base_offset = window.headers[-1].end_offset
    return base_offset
