"""One segment: a `.log` file of whole batches and its in-memory indexes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from quorumd.errors import CorruptLog, StorageError
from quorumd.log.atomic_file import is_disk_full, read_whole
from quorumd.log.batch_extents import locate_batch, whole_batches
from quorumd.log.indexes import SegmentIndexes
from quorumd.log.remedies import REFORMAT_REMEDY
from quorumd.ports import Disk, File
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.batch_scan import Gapless, scan

LOG_SUFFIX = ".log"
_INDEX_SUFFIXES = (".index", ".timeindex")
_NAME = re.compile(r"([0-9]{20})" + re.escape(LOG_SUFFIX))


def parse_base_offset(name: str) -> int | None:
    """The base offset in the name of a `.log` file; None for other files."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


class Segment:
    """A segment: the batches from `base_offset` to `end_offset`, in the first `size` bytes of a file.

    The file may be longer, with preallocated blocks that read as zeros. Methods raise the file's OSError. Timestamps
    are Unix milliseconds: the largest in the first and in the last batch, 0 without batches.
    """

    __slots__ = (
        "_allocated",
        "_disk",
        "_stem",
        "base_offset",
        "end_offset",
        "file",
        "first_timestamp_ms",
        "indexes",
        "last_timestamp_ms",
        "path",
        "size",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        self._disk = disk
        self._stem = f"{directory}/{base_offset:020d}"
        self.path = self._stem + LOG_SUFFIX
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        self.first_timestamp_ms = 0
        self.last_timestamp_ms = 0
        self.indexes = SegmentIndexes(base_offset, index_interval_bytes)
        self.file: File = disk.open(self.path, create=True)
        self._allocated = self.file.size()

    def add(self, headers: Sequence[BatchHeader], position: int, size: int) -> None:
        """Index batches that are in the file at `position`, `size` bytes in total."""
        if self.size == 0:
            self.first_timestamp_ms = headers[0].max_timestamp_ms
        for header in headers:
            self.indexes.add(
                header.end_offset - 1, position + header.position, header.size, header.max_timestamp_ms
            )
        self.end_offset = headers[-1].end_offset
        self.last_timestamp_ms = headers[-1].max_timestamp_ms
        self.size = position + size

    def append(self, data: bytes, headers: Sequence[BatchHeader], allocate_up_to: int) -> None:
        """Write whole batches after the last one. After an error the segment is unchanged once it is trimmed.

        `allocate_up_to`: preallocate to this position if the allocated blocks are used up.
        """
        end = self.size + len(data)
        if end > self._allocated:
            if allocate_up_to > end:
                self.file.allocate(allocate_up_to)
            self._allocated = max(end, allocate_up_to)
        self.file.write_at(self.size, data)
        self.add(headers, self.size, len(data))

    def trim(self) -> None:
        """Truncate the file after the last batch, which removes preallocated blocks and partial writes."""
        self.file.truncate(self.size)
        self._allocated = self.size

    @property
    def needs_trim(self) -> bool:
        """Whether the file is longer than its batches."""
        return self._allocated > self.size

    def read(self, offset: int, limit: int, max_offset: int) -> bytes:
        """Like `SegmentedLog.read`, for an offset in this segment. Raises CorruptLog for an invalid batch.

        Batches read from disk are verified again, since the disk may have lost or changed them.
        """
        try:
            position, base_offset, end_offset, size = self._locate(offset)
            if base_offset > offset:
                raise CorruptLog(f"the batch that follows begins at offset {base_offset}")
            data = self._read(position, max(limit, size))
            stop, _ = whole_batches(data, 0, limit, max_offset)
            found = scan(data[: stop or size], Gapless())
            if found.end < max(stop, size):
                raise CorruptLog(found.fault or "the batch goes beyond the end")
            return data[:stop] if end_offset <= max_offset else b""
        except CorruptLog as fault:
            raise self._changed_error(offset, fault) from None

    def truncate(self, offset: int) -> None:
        """Remove the batch that contains `offset`, an offset in this segment, and all after it.

        Raises CorruptLog if there is no such batch.
        """
        try:
            position, base_offset, _, _ = self._locate(offset)
        except CorruptLog as fault:
            raise self._changed_error(offset, fault) from None
        self.indexes.truncate(base_offset, position)
        self.end_offset = base_offset
        self.size = position
        self.trim()

    def write_indexes(self) -> None:
        """Write the index files that are missing, unreadable or out of date. A full disk is not an error: readers can
        rebuild them."""
        contents = (self.indexes.offset_index(), self.indexes.time_index())
        for suffix, content in zip(_INDEX_SUFFIXES, contents, strict=True):
            path = self._stem + suffix
            if self._has_content(path, content):
                continue
            try:
                file = self._disk.open(path, create=True)
                try:
                    file.truncate(0)
                    file.write_at(0, content)
                finally:
                    file.close()
            except OSError as cause:
                if not is_disk_full(cause):
                    raise

    def _has_content(self, path: str, content: bytes) -> bool:
        try:
            return read_whole(self._disk, path) == content
        except StorageError:
            return False

    def remove(self) -> None:
        """Remove the files. The open `.log` file can still be read and flushed until it is closed."""
        for suffix in (*_INDEX_SUFFIXES, LOG_SUFFIX):
            if self._disk.exists(self._stem + suffix):
                self._disk.remove(self._stem + suffix)

    def _locate(self, offset: int) -> tuple[int, int, int, int]:
        """(position, base offset, end offset, size) of the batch that contains `offset`."""
        found = locate_batch(self.file, self.indexes.position_before(offset), self.size, offset)
        if found is None:
            raise CorruptLog("the batches end before it")
        return found

    def _read(self, position: int, length: int) -> bytes:
        return self.file.read_at(position, min(length, self.size - position))

    def _changed_error(self, offset: int, fault: CorruptLog) -> CorruptLog:
        return CorruptLog(
            f"{self.path}, reading from offset {offset}: {fault}. The file was valid when it was opened: "
            f"check the disk; then, {REFORMAT_REMEDY}"
        )
