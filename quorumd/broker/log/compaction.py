"""`cleanup.policy=compact`: keep the last record of each key, and remove aborted transactions.

    job = plan_compaction(log, wall_ms, high_watermark)     None if no compaction is due
    result = compact(disk, job)                             blocks; runs in `Disk.run_in_subprocess`
    freed = install_compaction(disk, log, job, result)      on the event thread

Sealed and flushed segments below the last stable offset are compacted. Offsets do not change: a compacted batch keeps
its offset range, sequence numbers and leader epoch, and has fewer records. Tombstones, and markers of transactions
without records, get a delete horizon when they are first compacted, and are removed once it has passed. The last
batch of each active producer is kept, if necessary without records, because recovery after an unclean shutdown reads
the last sequence number from it. Batches of a codec without an encoder are rewritten with gzip. Batches that cannot
be read (see `.records`) are kept unchanged, and so are tombstones after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from quorumd.broker.log.compaction_files import CLEANED, remove_cleaned, segment_stem
from quorumd.broker.log.compaction_filter import BatchFilter, TransactionFilter, map_key
from quorumd.broker.log.data_segment import (
    INDEX_SUFFIX,
    MAX_SEGMENT_OFFSETS,
    TIME_INDEX_SUFFIX,
)
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log.producer_state import AbortedTransaction
from quorumd.broker.log.records import all_records
from quorumd.broker.log.transaction_index import SUFFIX as TRANSACTION_SUFFIX
from quorumd.broker.log.transaction_index import encode_entries
from quorumd.broker.log.validation import COMPACT
from quorumd.errors import CorruptLog, MalformedMessage
from quorumd.log.batch_windows import read_windows
from quorumd.log.indexes import SegmentIndexes
from quorumd.log.segment import LOG_SUFFIX
from quorumd.ports import Disk, File
from quorumd.protocol.batch_header import BatchHeader, read_header
from quorumd.protocol.batch_scan import Ascending

MAX_KEYS = 2_000_000
"""Once the offset map has this many keys, no further batch is read; the next compaction continues there."""
_WRITE_BYTES = 1024 * 1024


class Source(NamedTuple):
    """A segment to compact; `end_offset` is the base offset of the next segment."""

    base_offset: int
    end_offset: int
    size: int


class CompactionJob(NamedTuple):
    """The input of `compact`. Can be pickled."""

    directory: str
    sources: tuple[Source, ...]
    first_dirty_offset: int
    """Records below it are compacted already; later records may still replace them."""
    segment_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    wall_ms: int
    high_watermark: int
    aborted: tuple[AbortedTransaction, ...]
    last_records: dict[int, tuple[int, int]]
    """See `LastRecords`."""


class Replacement(NamedTuple):
    """A compacted segment, durable as `.cleaned` files, for the sources from `base_offset` to `end_offset`."""

    base_offset: int
    end_offset: int


class CompactionResult(NamedTuple):
    """The replacements, and the first dirty offset once they are installed."""

    replacements: tuple[Replacement, ...]
    end_offset: int
    unread: int = 0
    """See `BatchFilter.unread`."""


def dirty_ratio(log: PartitionLog) -> float:
    """The fraction of bytes in sealed segments that are not yet compacted."""
    sealed = log.segments()[:-1]
    total = sum([segment.size for segment in sealed])
    dirty = sum([segment.size for segment in sealed if segment.end_offset > log.first_dirty_offset])
    return dirty / total if total else 0.0


def plan_compaction(log: PartitionLog, wall_ms: int, high_watermark: int) -> CompactionJob | None:
    """The compaction that is due by `min.cleanable.dirty.ratio` or `max.compaction.lag.ms`, or None."""
    settings = log.settings
    if COMPACT not in settings.cleanup_policy:
        return None
    sources = _cleanable(log, wall_ms, high_watermark)
    dirty = [source for source in sources if source.end_offset > log.first_dirty_offset]
    total = sum([source.size for source in sources])
    if not dirty or not total:
        return None
    ratio = sum([source.size for source in dirty]) / total
    first = next(segment for segment in log.segments() if segment.base_offset == dirty[0].base_offset)
    is_late = wall_ms - first.first_timestamp_ms > settings.max_compaction_lag_ms
    if ratio <= settings.min_cleanable_dirty_ratio and not is_late:
        return None
    end_offset = sources[-1].end_offset
    return CompactionJob(
        log.directory,
        tuple(sources),
        log.first_dirty_offset,
        settings.segment_bytes,
        settings.index_interval_bytes,
        settings.delete_retention_ms,
        wall_ms,
        high_watermark,
        tuple(log.aborted_transactions(sources[0].base_offset, end_offset)),
        {
            entry.producer_id: (entry.batches[-1].last_offset if entry.batches else -1, entry.epoch)
            for entry in log.producers.entries.values()
        },
    )


def _cleanable(log: PartitionLog, wall_ms: int, high_watermark: int) -> list[Source]:
    """The sealed, flushed segments below the last stable offset that are older than `min.compaction.lag.ms`."""
    limit = min(log.recovery_point, log.last_stable_offset(high_watermark))
    youngest_ms = wall_ms - log.settings.min_compaction_lag_ms
    found = []
    segments = log.segments()
    for segment, following in pairwise(segments):
        is_too_recent = log.settings.min_compaction_lag_ms > 0 and segment.largest_timestamp_ms > youngest_ms
        if following.base_offset > limit or is_too_recent or not segment.has_index_files:
            break
        found.append(Source(segment.base_offset, following.base_offset, segment.size))
    return found


def compact(disk: Disk, job: CompactionJob) -> CompactionResult:
    """Write the compacted segments. Blocks, possibly for minutes. Raises CorruptLog, OSError."""
    offsets, end_offset = _build_offset_map(disk, job)
    sources = [source for source in job.sources if source.base_offset < end_offset]
    transactions = TransactionFilter(job.aborted)
    batches = BatchFilter(
        offsets, end_offset, job.last_records, job.high_watermark, job.wall_ms, job.delete_retention_ms
    )
    replacements = []
    while sources:
        group = [sources.pop(0)]
        size = group[0].size
        while (
            sources
            and size + sources[0].size <= job.segment_bytes
            and sources[0].end_offset - group[0].base_offset <= MAX_SEGMENT_OFFSETS
        ):
            size += sources[0].size
            group.append(sources.pop(0))
        if _Writer(disk, job, group).write(batches, transactions):
            replacements.append(Replacement(group[0].base_offset, group[-1].end_offset))
    return CompactionResult(tuple(replacements), end_offset, batches.unread)


def _build_offset_map(disk: Disk, job: CompactionJob) -> tuple[dict[bytes, int], int]:
    """The offset map, from each key of the dirty batches to its last offset, and the end of the batches read."""
    offsets: dict[bytes, int] = {}
    transactions = TransactionFilter(
        [entry for entry in job.aborted if entry.last_offset >= job.first_dirty_offset]
    )
    end_offset = job.sources[0].base_offset
    for source in job.sources:
        if source.end_offset > job.first_dirty_offset:
            for data, batch in _batches(disk, job.directory, source):
                if len(offsets) >= MAX_KEYS:
                    return offsets, end_offset
                is_obsolete = transactions.is_obsolete(data, batch)
                if not (is_obsolete or batch.is_control) and batch.end_offset > job.first_dirty_offset:
                    _add_keys(offsets, data, batch)
                end_offset = batch.end_offset
        end_offset = source.end_offset
    return offsets, end_offset


def _add_keys(offsets: dict[bytes, int], data: bytes, batch: BatchHeader) -> None:
    found = all_records(data, batch)
    if found is not None:
        payload, spans = found
        for span in spans:
            if span.key_start >= 0:
                key = map_key(payload[span.key_start : span.key_end])
                offsets[key] = batch.base_offset + span.offset_delta


def _batches(disk: Disk, directory: str, source: Source) -> Iterator[tuple[bytes, BatchHeader]]:
    """Yield (data, header) for each verified batch of a segment. Raises CorruptLog, OSError."""
    path = segment_stem(directory, source.base_offset) + LOG_SUFFIX
    file = disk.open(path)
    position = 0
    try:
        for window in read_windows(file, Ascending(source.base_offset), end=source.size):
            for batch in window.headers:
                yield window.data, batch
            position = window.end
    finally:
        file.close()
    if position != source.size:
        raise CorruptLog(f"{path}: invalid batch at position {position}; check the disk")


class _Writer:
    """Writes the compacted segment that replaces a group of segments."""

    def __init__(self, disk: Disk, job: CompactionJob, group: list[Source]) -> None:
        self._disk = disk
        self._job = job
        self._group = group
        self._stem = segment_stem(job.directory, group[0].base_offset)
        self._indexes = SegmentIndexes(group[0].base_offset, job.index_interval_bytes)
        self._position = 0
        self._buffer: list[bytes] = []
        self._written = 0

    def write(self, batches: BatchFilter, transactions: TransactionFilter) -> bool:
        """Write the files durably. Returns False and leaves no file if a single segment would not change."""
        has_changed = len(self._group) > 1
        transactions.kept.clear()
        file = self._disk.open(self._stem + LOG_SUFFIX + CLEANED, create=True)
        try:
            file.truncate(0)
            for source in self._group:
                for data, batch in _batches(self._disk, self._job.directory, source):
                    try:
                        found = batches.compacted(data, batch, transactions.is_obsolete(data, batch))
                    except MalformedMessage as fault:
                        raise CorruptLog(f"batch at offset {batch.base_offset}: {fault}") from None
                    if found:
                        kept = read_header(found)
                        has_changed |= kept.crc != batch.crc
                        self._add(file, kept, found)
                    else:
                        has_changed = True
            self._flush(file)
            file.sync()
        finally:
            file.close()
        if not has_changed:
            self._disk.remove(self._stem + LOG_SUFFIX + CLEANED)
            return False
        self._write_file(INDEX_SUFFIX, self._indexes.offset_index())
        self._write_file(TIME_INDEX_SUFFIX, self._indexes.time_index())
        self._write_file(TRANSACTION_SUFFIX, encode_entries(transactions.kept))
        return True

    def _add(self, file: File, batch: BatchHeader, data: bytes) -> None:
        self._indexes.add(batch.end_offset - 1, self._position, batch.size, batch.max_timestamp_ms)
        self._position += batch.size
        self._buffer.append(data)
        if self._position - self._written >= _WRITE_BYTES:
            self._flush(file)

    def _flush(self, file: File) -> None:
        file.write_at(self._written, b"".join(self._buffer))
        self._written = self._position
        self._buffer = []

    def _write_file(self, suffix: str, content: bytes) -> None:
        file = self._disk.open(self._stem + suffix + CLEANED, create=True)
        try:
            file.truncate(0)
            file.write_at(0, content)
            file.sync()
        finally:
            file.close()


def install_compaction(disk: Disk, log: PartitionLog, job: CompactionJob, result: CompactionResult) -> int:
    """Replace the sources by the compacted segments; returns the bytes freed. Blocks.

    Does nothing if a source was truncated or removed since the job was planned. After a failed job, call
    `remove_cleaned` instead. Raises FlushFailed, OSError.
    """
    known = {segment.base_offset: segment.size for segment in log.segments()[:-1]}
    if any(known.get(source.base_offset) != source.size for source in job.sources):
        remove_cleaned(disk, job.directory)
        return 0
    freed = sum([log.replace_segments(each.base_offset, each.end_offset) for each in result.replacements])
    log.first_dirty_offset = max(log.first_dirty_offset, result.end_offset)
    return freed
