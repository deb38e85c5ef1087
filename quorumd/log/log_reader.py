"""Read the batches of a log from its files while another process may be writing it.

Only committed offsets may be read: the log may be truncated above them at any time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from quorumd.errors import CorruptLog, StorageError
from quorumd.log.batch_extents import EXTENT_SIZE, locate_batch
from quorumd.log.batch_windows import read_windows
from quorumd.log.remedies import REFORMAT_REMEDY
from quorumd.log.segment import LOG_SUFFIX, parse_base_offset
from quorumd.ports import Disk, File
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.batch_scan import Gapless


def read_log(
    disk: Disk, directory: str, start: int, end: int, seek_hint: tuple[int, int] | None = None
) -> Iterator[tuple[bytes, BatchHeader]]:
    """Yield the batches from offset `start`, a batch boundary, to the last that ends at or below `end`.

    `seek_hint`: the result of `SegmentedLog.seek_hint` for `start`, which saves a search.

    Yields (data that contains the whole batch, header), with CRC, offsets and epochs verified. Raises CorruptLog for
    an invalid batch before `end`, StorageError if the files do not reach from `start` to `end` or cannot be read.
    """
    if start >= end:
        return
    bases = _base_offsets(disk, directory)
    first = bisect_right(bases, start) - 1
    if first < 0:
        begin = f"starts at offset {bases[0]}" if bases else "is empty"
        raise StorageError(
            f"the log in {directory} {begin}, but offset {start} is needed; restore its files, or, {REFORMAT_REMEDY}"
        )
    offset, epoch = start, 0
    for base in bases[first:]:
        if base > offset:
            break
        path = f"{directory}/{base:020d}{LOG_SUFFIX}"
        try:
            file = disk.open(path)
        except OSError as cause:
            raise StorageError(f"{path} cannot be opened: {cause}") from cause
        try:
            hint = seek_hint[1] if seek_hint and seek_hint[0] == base else 0
            position = 0 if base == offset else _position_of(file, path, offset, hint)
            for data, header in _batches(file, path, position, offset, epoch):
                if header.end_offset > end:
                    return
                yield data, header
                offset, epoch = header.end_offset, header.epoch
                if offset == end:
                    return
        except OSError as cause:
            raise StorageError(f"{path} cannot be read: {cause}; check the disk") from cause
        finally:
            file.close()
    if offset < end:
        raise StorageError(
            f"the log in {directory} ends at offset {offset}, although records up to offset {end} are committed; "
            "start the node, which reports the damage"
        )


def _base_offsets(disk: Disk, directory: str) -> list[int]:
    try:
        names = disk.list_directory(directory)
    except OSError as cause:
        raise StorageError(f"{directory} cannot be listed: {cause}") from cause
    return [base for name in names if (base := parse_base_offset(name)) is not None]


def _position_of(file: File, path: str, offset: int, seek_hint: int) -> int:
    """The position of the batch with base offset `offset`, or the end of the file. The search starts at `seek_hint`
    unless that is after the batch."""
    size = file.size()
    position = seek_hint if seek_hint + EXTENT_SIZE <= size and _offset_at(file, seek_hint) <= offset else 0
    try:
        found = locate_batch(file, position, size, offset)
        if found is None:
            return size
        position, base_offset, _, _ = found
        if base_offset != offset:
            raise CorruptLog("no batch starts there")
    except CorruptLog as fault:
        raise CorruptLog(f"{path}, looking for offset {offset}: {fault}") from None
    return position


def _offset_at(file: File, position: int) -> int:
    return int.from_bytes(file.read_at(position, 8), "big")


def _batches(
    file: File, path: str, position: int, offset: int, epoch: int
) -> Iterator[tuple[bytes, BatchHeader]]:
    for window in read_windows(file, Gapless(offset, epoch), position):
        for header in window.headers:
            yield window.data, header
            offset = header.end_offset
        if window.fault:
            raise CorruptLog(f"{path}, position {window.end} (offset {offset}): {window.fault}")
