"""One segment of a data log: a `.log` file of batches, its sparse indexes and its transaction index.

The indexes of a sealed segment are loaded from their files on demand, or rebuilt from the batches. Index files are
written only when the segment is sealed and its batches are durable, or when the log is closed: recovery trusts a
segment with index files, and scans any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorumd.broker.log.producer_state import AbortedTransaction
from quorumd.broker.log.transaction_index import SUFFIX as TRANSACTION_SUFFIX
from quorumd.broker.log.transaction_index import decode_entries, encode_entries
from quorumd.errors import CorruptLog, MalformedMessage, StorageError
from quorumd.log.atomic_file import read_whole, write_atomically
from quorumd.log.batch_extents import EXTENT_SIZE, extent, find_batch, whole_batches
from quorumd.log.batch_windows import Window, read_windows
from quorumd.log.indexes import SegmentIndexes
from quorumd.log.segment import LOG_SUFFIX
from quorumd.ports import Disk, File
from quorumd.protocol.batch_header import HEADER_SIZE, NO_TIMESTAMP, BatchHeader, read_header
from quorumd.protocol.batch_scan import Ascending, BatchRules
from quorumd.protocol.output_buffer import LARGE_VALUE

INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
MAX_SEGMENT_OFFSETS = 2**31 - 1
"""Index entries store offsets relative to the base offset in 31 bits."""
ALL_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_SUFFIX)
TIME_ENTRY_SIZE = 12
_LOCATE_BYTES = 16 * 1024
_REMEMBERED_READS = 16


class StoredBatches:
    """Whole batches in a segment's file. Satisfies `ports.StoredBytes`: they are read when they are sent.

    They cannot be read once the segment is truncated or closed. Batches of another leader epoch may be there by then,
    and a peer that was sent those of before may receive a part of them: it verifies the CRC of what it appends.
    """

    __slots__ = ("_invalidations", "_position", "_segment", "_size", "end_offset")

    def __init__(self, segment: DataSegment, position: int, size: int, end_offset: int) -> None:
        self._segment = segment
        self._position = position
        self._size = size
        self._invalidations = segment.invalidations
        self.end_offset = end_offset
        """The offset at which the batches end, or that of the next batch."""

    def __len__(self) -> int:
        return self._size

    def read(self, position: int, length: int) -> bytes:
        """See `ports.StoredBytes`."""
        segment = self._segment
        file, begin = self.locate(position)
        try:
            data = file.read_at(begin, length)
        except OSError as cause:
            raise StorageError(f"{segment.path} cannot be read: {cause}; check the disk") from cause
        if len(data) < length:
            raise StorageError(f"{segment.path} ends at byte {begin + len(data)}; check the disk")
        return data

    def locate(self, position: int) -> tuple[File, int]:
        """See `ports.StoredBytes`."""
        segment = self._segment
        if segment.invalidations != self._invalidations:
            raise StorageError(f"{segment.path} was truncated or removed before its batches were sent")
        return segment.file, self._position + position


class DataSegment:
    """The batches in the first `size` bytes of a `.log` file. Methods raise OSError.

    `end_offset` is the end offset of the last batch, or `base_offset` if the segment is empty. In a compacted log the
    next segment may start above it.
    """

    __slots__ = (
        "_directory",
        "_disk",
        "_indexes",
        "_interval",
        "_largest_timestamp_ms",
        "_read_ends",
        "_stem",
        "_transaction_file",
        "aborted",
        "base_offset",
        "end_offset",
        "file",
        "first_timestamp_ms",
        "has_index_files",
        "invalidations",
        "path",
        "size",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        self._disk = disk
        self._directory = directory
        self._stem = f"{directory}/{base_offset:020d}"
        self._interval = index_interval_bytes
        self.path = self._stem + LOG_SUFFIX
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        self.invalidations = 0
        """Number of times that batches were removed or the files closed."""
        self.first_timestamp_ms = NO_TIMESTAMP
        """The maximum timestamp of the first batch, on which `segment.ms` is based."""
        self.aborted: list[AbortedTransaction] = []
        """The transaction index: transactions whose abort marker is in this segment, in order of the markers."""
        self.has_index_files = False
        self.file: File = disk.open(self.path, create=True)
        self._transaction_file: File | None = None
        self._indexes: SegmentIndexes | None = SegmentIndexes(base_offset, index_interval_bytes)
        self._largest_timestamp_ms: int | None = None
        """Cached while the indexes of a sealed segment are not loaded."""
        self._read_ends: dict[int, int] = {}
        """End offset of a recent read -> its position, where the reader is expected to continue."""

    def relocate(self, directory: str) -> None:
        """Use the new path of the renamed directory; open files stay open."""
        self._directory = directory
        self._stem = f"{directory}/{self.base_offset:020d}"
        self.path = self._stem + LOG_SUFFIX

    def __repr__(self) -> str:
        return f"<segment {self.base_offset}..{self.end_offset}, {self.size} bytes>"

    @property
    def indexes(self) -> SegmentIndexes:
        """The offset index and the time index, loaded or rebuilt on demand."""
        if self._indexes is None:
            self._indexes = self._loaded_indexes() or self._rebuilt_indexes()
        return self._indexes

    @property
    def largest_timestamp_ms(self) -> int:
        """The largest timestamp of all batches, NO_TIMESTAMP if there is none."""
        if self._indexes is None and self.has_index_files:
            if self._largest_timestamp_ms is None:
                self._largest_timestamp_ms = self._last_indexed_timestamp()
            return self._largest_timestamp_ms
        return self.indexes.largest_timestamp_ms

    def _last_indexed_timestamp(self) -> int:
        """The last timestamp in the time index file, which is the largest one of a sealed segment."""
        try:
            file = self._disk.open(self._stem + TIME_INDEX_SUFFIX)
        except FileNotFoundError:
            return self.indexes.largest_timestamp_ms
        try:
            entry = file.read_at(max(file.size() - TIME_ENTRY_SIZE, 0), TIME_ENTRY_SIZE)
        finally:
            file.close()
        if len(entry) < TIME_ENTRY_SIZE:
            return self.indexes.largest_timestamp_ms
        return int.from_bytes(entry[:8], "big", signed=True)

    def release_indexes(self) -> None:
        """Drop the indexes of a sealed segment from memory; they are loaded again on demand."""
        if self.has_index_files and self._indexes is not None:
            self._largest_timestamp_ms = self._indexes.largest_timestamp_ms
            self._indexes = None

    def files(self) -> list[tuple[str, File]]:
        """The files to sync, with their paths."""
        found = [(self.path, self.file)]
        if self._transaction_file is not None:
            found.append((self._stem + TRANSACTION_SUFFIX, self._transaction_file))
        return found

    # ---- loading

    def load(self) -> bool:
        """Load the segment without a scan: take its size from the file, and read the transaction index.

        Returns False if an index file is missing or the transaction index is invalid, so the segment must be scanned.
        """
        self.has_index_files = self.index_files_exist()
        self.size = self.file.size()
        self._indexes = None
        aborted = decode_entries(read_whole(self._disk, self._stem + TRANSACTION_SUFFIX) or b"")
        self.aborted = aborted or []
        if self.size:
            self.first_timestamp_ms = self._first_timestamp()
        return self.has_index_files and aborted is not None

    def find_end_offset(self) -> bool:
        """Find the end offset of a loaded segment; returns False if the file does not end with a valid batch."""
        position = self.indexes.last_position
        self.end_offset = self.base_offset
        for batch in self.batches_from(position):
            self.end_offset = batch.end_offset
            position += batch.size
            self.indexes.update_largest_timestamp(batch.end_offset - 1, batch.max_timestamp_ms)
        return position == self.size

    def index_files_exist(self) -> bool:
        """Whether the offset index and the time index both have a file."""
        exists = self._disk.exists
        return exists(self._stem + INDEX_SUFFIX) and exists(self._stem + TIME_INDEX_SUFFIX)

    def has_any_index_file(self) -> bool:
        """Whether an offset or time index file exists; `index_files_exist` requires both."""
        exists = self._disk.exists
        return exists(self._stem + INDEX_SUFFIX) or exists(self._stem + TIME_INDEX_SUFFIX)

    def clear_batches(self) -> None:
        """Drop all batches from memory, before a scan adds them again."""
        self.size = 0
        self.end_offset = self.base_offset
        self.first_timestamp_ms = NO_TIMESTAMP
        self._indexes = SegmentIndexes(self.base_offset, self._interval)
        self.has_index_files = False

    def _first_timestamp(self) -> int:
        try:
            return read_header(self.file.read_at(0, HEADER_SIZE)).max_timestamp_ms
        except MalformedMessage:
            return NO_TIMESTAMP

    def _loaded_indexes(self) -> SegmentIndexes | None:
        offset_index = read_whole(self._disk, self._stem + INDEX_SUFFIX)
        time_index = read_whole(self._disk, self._stem + TIME_INDEX_SUFFIX)
        indexes = SegmentIndexes(self.base_offset, self._interval)
        if (
            offset_index is None
            or time_index is None
            or not indexes.load(offset_index, time_index, self.size)
        ):
            return None
        return indexes

    def _rebuilt_indexes(self) -> SegmentIndexes:
        indexes = SegmentIndexes(self.base_offset, self._interval)
        position = 0
        for batch in self.batches_from(0):
            indexes.add(batch.end_offset - 1, position, batch.size, batch.max_timestamp_ms)
            position += batch.size
        self.has_index_files = False
        return indexes

    def batches_from(self, position: int) -> Iterator[BatchHeader]:
        """Yield the headers of the valid batches from `position`, a batch boundary, on; does not verify CRCs."""
        for window in self.windows(position, self.size):
            yield from window.headers

    def windows(
        self, position: int, end: int, rules: BatchRules | None = None, least_bytes: int | None = None
    ) -> Iterator[Window]:
        """Yield whole batches from `position`, a batch boundary, to `end` or the first fault; without rules, the CRCs
        are not verified."""
        return read_windows(
            self.file, rules or Ascending(with_crc=False), position, end, least_bytes=least_bytes
        )

    # ---- appending

    def add(self, batch: BatchHeader) -> None:
        """Add the next batch of the file to the segment and its indexes."""
        timestamp_ms = batch.max_timestamp_ms
        if self.size == 0:
            self.first_timestamp_ms = timestamp_ms
        indexes = self._indexes
        if indexes is None:
            indexes = self.indexes
        indexes.add(batch.end_offset - 1, self.size, batch.size, timestamp_ms)
        self.end_offset = batch.end_offset
        self.size += batch.size

    def append(self, data: bytes, batches: Sequence[BatchHeader]) -> None:
        """Append whole batches. After an error, `trim` restores the segment."""
        self.file.write_at(self.size, data)
        for batch in batches:
            self.add(batch)

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Append an aborted transaction to the transaction index."""
        entry = encode_entries((transaction,))
        file = self._open_transaction_file()
        file.write_at(len(self.aborted) * len(entry), entry)
        self.aborted.append(transaction)

    def _open_transaction_file(self) -> File:
        if self._transaction_file is None:
            self._transaction_file = self._disk.open(self._stem + TRANSACTION_SUFFIX, create=True)
        return self._transaction_file

    def trim(self) -> None:
        """Truncate the file at the end of the last batch."""
        self.file.truncate(self.size)

    # ---- reading

    def find(
        self, offset: int, limit: int, max_offset: int, at_least_one: bool
    ) -> bytes | StoredBatches | None:
        """Find whole batches from the one that contains or follows `offset`; many are not read yet.

        Returns at most `limit` bytes, except that `at_least_one` returns the first batch even if it is larger, and
        only batches that end at or below `max_offset`; None if every batch is below `offset`. Raises CorruptLog.
        """
        try:
            position = self._read_ends.pop(offset, -1)
            if position < 0:
                position = self.position_of(offset)
            if position >= self.size:
                return None
            available = min(limit, self.size - position)
            boundary = self.indexes.boundary(position + available, max_offset)
            if boundary > position + _LOCATE_BYTES:
                tail = self.file.read_at(boundary, max(position + available - boundary, EXTENT_SIZE))
                stop, end_offset = whole_batches(tail, 0, len(tail), max_offset)
                if stop == 0:
                    end_offset, _, _ = extent(tail, 0)
                self._remember(end_offset, boundary + stop)
                found = StoredBatches(self, position, boundary + stop - position, end_offset)
                return found if len(found) >= LARGE_VALUE else found.read(0, len(found))
            data = self.file.read_at(position, max(available, EXTENT_SIZE))
            stop, end_offset = whole_batches(data[:limit], 0, limit, max_offset)
            if stop == 0:
                _, end_offset, size = extent(data, 0)
                if end_offset > max_offset or not at_least_one:
                    return b""
                data = self.file.read_at(position, size)
                if len(data) < size:
                    raise CorruptLog(f"a batch of {size} bytes is cut off after {len(data)}")
                stop = size
        except CorruptLog as fault:
            raise CorruptLog(
                f"{self.path} cannot be read at offset {offset}: {fault}; check the disk"
            ) from None
        self._remember(end_offset, position + stop)
        return data if stop == len(data) else data[:stop]

    def _remember(self, end_offset: int, position: int) -> None:
        """Cache the position at which a sequential reader continues."""
        ends = self._read_ends
        if len(ends) >= _REMEMBERED_READS:
            del ends[next(iter(ends))]
        ends[end_offset] = position

    def position_of(self, offset: int) -> int:
        """The position of the batch that contains or follows `offset`; `size` if there is none.

        Raises CorruptLog.
        """
        position = self.indexes.position_before(offset)
        while position + EXTENT_SIZE <= self.size:
            data = self.file.read_at(position, min(_LOCATE_BYTES, self.size - position))
            found = find_batch(data, offset)
            if found + EXTENT_SIZE <= len(data):
                return position + found
            if found == 0:
                raise CorruptLog(f"the file ends at byte {position + len(data)} of {self.size}")
            position += found
        return self.size

    # ---- truncation and removal

    def truncate(self, offset: int) -> None:
        """Remove the batch that contains `offset` and all later batches. Index files become stale."""
        self.invalidations += 1
        position = self.position_of(offset)
        end_offset = self.base_offset
        indexes = self.indexes
        self._read_ends.clear()
        if position < self.size:
            base_offset, _, _ = extent(self.file.read_at(position, EXTENT_SIZE), 0)
            indexes.truncate(base_offset, position)
            self.size = position
        for batch in self.batches_from(indexes.last_position):
            end_offset = batch.end_offset
            indexes.update_largest_timestamp(end_offset - 1, batch.max_timestamp_ms)
        self.end_offset = end_offset
        if self.size == 0:
            self.first_timestamp_ms = NO_TIMESTAMP
        self.set_aborted([entry for entry in self.aborted if entry.last_offset < end_offset])
        self.trim()

    def set_aborted(self, aborted: list[AbortedTransaction]) -> None:
        """Replace the transaction index: by a prefix after truncation, or by the result of a scan."""
        self.aborted = aborted
        if aborted or self._transaction_file or self._disk.exists(self._stem + TRANSACTION_SUFFIX):
            content = encode_entries(aborted)
            file = self._open_transaction_file()
            file.write_at(0, content)
            file.truncate(len(content))

    def remove_index_files(self) -> None:
        """Remove the index files, so that recovery scans the segment; durable once the directory is synced."""
        if self._indexes is None:
            self._indexes = self.indexes
        self.has_index_files = False
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if self._disk.exists(self._stem + suffix):
                self._disk.remove(self._stem + suffix)

    def write_index_files(self, atomically: bool = True) -> None:
        """Write the index files durably. Blocks. Raises OSError, StorageError.

        The batches must be durable. The files of the active segment are used only after a clean shutdown, so they
        need not be replaced `atomically`; without that, the caller syncs the directory.
        """
        indexes = self.indexes
        for suffix, content in (
            (TIME_INDEX_SUFFIX, indexes.time_index()),
            (INDEX_SUFFIX, indexes.offset_index()),
        ):
            if atomically:
                write_atomically(self._disk, self._stem + suffix, content)
                continue
            file = self._disk.open(self._stem + suffix, create=True)
            try:
                file.truncate(0)
                file.write_at(0, content)
                file.sync()
            finally:
                file.close()

    def remove(self) -> None:
        """Remove the files, the `.log` file durably first; the open file can be read until it is closed."""
        remove_segment_files(self._disk, self._directory, self.base_offset)

    def close(self) -> None:
        """Close the files."""
        self.invalidations += 1
        self.file.close()
        if self._transaction_file is not None:
            self._transaction_file.close()


def remove_segment_files(disk: Disk, directory: str, base_offset: int) -> None:
    """Remove the files of a segment, the `.log` file durably first: a crash leaves no `.log` file without indexes."""
    stem = f"{directory}/{base_offset:020d}"
    disk.remove(stem + LOG_SUFFIX)
    disk.sync_directory(directory)
    for suffix in ALL_INDEX_SUFFIXES:
        if disk.exists(stem + suffix):
            disk.remove(stem + suffix)
