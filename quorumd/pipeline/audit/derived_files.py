"""Checks the files that are derived from a log against it: leader-epoch-checkpoint, partition.metadata and indexes.

quorumd rebuilds them from the segments, but stock Kafka trusts them: it truncates by the epochs in the checkpoint,
and reads from the positions in an index. The checkpoint and the indexes may end before the log does, since they are
not flushed with every append; the entries that they have must be correct.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from quorumd.errors import CorruptLog, InputIncomplete
from quorumd.ids import METADATA_TOPIC_ID
from quorumd.log.epoch_cache import FILE_NAME as EPOCHS
from quorumd.log.partition_metadata import FILE_NAME as PARTITION
from quorumd.log.partition_metadata import read_topic_id
from quorumd.pipeline.audit.findings import Finding, Severity
from quorumd.pipeline.copies.read_only_disk import ReadOnlyDisk
from quorumd.pipeline.scan.search import COUNTS, announced_size
from quorumd.protocol.batch_header import HEADER_SIZE

if TYPE_CHECKING:
    from quorumd.pipeline.audit.copies import Copy
    from quorumd.pipeline.copies.log_files import CopyDirectory, SegmentFile

_OFFSET_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qI")


class _Place(NamedTuple):
    """The offset where a file contradicts the log, and the text of the contradiction."""

    offset: int
    text: str


def findings_of_derived_files(directory: CopyDirectory, copy: Copy) -> Iterator[Finding]:
    """Return the contradictions in a directory, at most one per file. Raises InputIncomplete for unreadable files."""
    try:
        yield from _partition_metadata(directory)
        yield from _leader_epochs(directory, copy)
        for segment, following in zip(directory.segments, (*directory.segments[1:], None), strict=True):
            end = copy.end_offset if following is None else following.base_offset
            yield from _indexes(segment, end, copy)
    except OSError as error:
        raise InputIncomplete(f"{error.filename} cannot be read: {error.strerror}") from None


def _partition_metadata(directory: CopyDirectory) -> Iterator[Finding]:
    try:
        topic_id = read_topic_id(ReadOnlyDisk(), directory.path)
    except CorruptLog as error:
        yield Finding(Severity.WARNING, "PARTITION_METADATA_CONTRADICTS", str(error), directory.node)
        return
    if topic_id not in (None, METADATA_TOPIC_ID):
        detail = f"{PARTITION} has topic id {topic_id}, but the metadata log has {METADATA_TOPIC_ID}"
        yield Finding(Severity.WARNING, "PARTITION_METADATA_CONTRADICTS", detail, directory.node)


def _leader_epochs(directory: CopyDirectory, copy: Copy) -> Iterator[Finding]:
    path = Path(directory.path) / EPOCHS
    if not path.exists():
        return
    found = _wrong_epoch(path.read_text("utf-8", "replace"), copy)
    if found is not None:
        detail = f"{EPOCHS}: {found.text}; remove the file, which is rebuilt at startup"
        yield Finding(
            Severity.WARNING, "EPOCHS_CONTRADICT_LOG", detail, directory.node, segment=EPOCHS,
            offset_lo=found.offset, offset_hi=found.offset,
        )  # fmt: skip


def _wrong_epoch(text: str, copy: Copy) -> _Place | None:
    """Return the first entry that the log contradicts."""
    try:
        version, count, *rows = text.split("\n")
        entries = [tuple(map(int, row.split())) for row in rows if row]
        epochs: dict[int, int] = dict(entries)  # type: ignore[arg-type] # a row of another length raises ValueError
        is_valid = int(version) == 0 and int(count) == len(entries) == len(epochs)
    except ValueError:
        is_valid = False
    if not is_valid:
        return _Place(
            copy.start_offset, "it is not a checkpoint of version 0 with the stated number of entries"
        )
    starts = {mark.epoch: mark.offset for mark in reversed(copy.epoch_starts)}
    for number, (epoch, start) in enumerate(epochs.items()):
        if not copy.start_offset < start < copy.end_offset or copy.damage_at(start):
            # The first epoch may begin before the log does; entries beyond its end are of a truncated end.
            continue
        if number == 0 and epoch in (_epoch_at(copy, start - 1), _epoch_at(copy, start)):
            # The log starts at this offset, within its first segment.
            continue
        if epoch not in starts:
            return _Place(start, f"epoch {epoch} begins at offset {start}, but the log has no such epoch")
        if starts[epoch] != start and not copy.damage_at(starts[epoch]):
            return _Place(start, f"epoch {epoch} begins at offset {start}, but in the log at {starts[epoch]}")
    return None


def _epoch_at(copy: Copy, offset: int) -> int:
    return max((mark.epoch for mark in copy.epoch_starts if mark.offset <= offset), default=-1)


def _indexes(segment: SegmentFile, end: int, copy: Copy) -> Iterator[Finding]:
    checks = {".index": _wrong_position, ".timeindex": _wrong_timestamp}
    for suffix, wrong in checks.items():
        path = Path(segment.path).with_suffix(suffix)
        if not path.exists() or any(damage.segment == segment.name for damage in copy.damages):
            continue
        found = wrong(path.read_bytes(), segment, end)
        if found is not None:
            detail = f"{found.text}; remove the file, which is rebuilt at startup"
            yield Finding(
                Severity.WARNING, "INDEX_CONTRADICTS_LOG", detail, segment.node, segment=path.name,
                offset_lo=found.offset, offset_hi=found.offset,
            )  # fmt: skip


def _wrong_position(data: bytes, segment: SegmentFile, end: int) -> _Place | None:
    """Return the first entry at whose position no batch begins, or one above the offset of the entry."""
    with open(segment.path, "rb") as log:
        for relative, position in _OFFSET_ENTRY.iter_unpack(data[: len(data) // 8 * 8]):
            if relative == position == 0:
                # Index files are preallocated.
                return None
            offset = segment.base_offset + relative
            if offset >= end:
                # The entry is of a truncated end of the log: indexes are not flushed with the log.
                return None
            log.seek(position)
            header = log.read(HEADER_SIZE)
            if not announced_size(memoryview(header), 0):
                return _Place(
                    offset,
                    f"no batch begins at position {position}, where the index looks for offset {offset}",
                )
            if COUNTS(header)[0] > offset:
                return _Place(offset, f"the batch at position {position} begins at offset {COUNTS(header)[0]}, "
                              f"above offset {offset} of the entry")  # fmt: skip
    return None


def _wrong_timestamp(data: bytes, segment: SegmentFile, end: int) -> _Place | None:
    """Return the first entry that is not later than the previous entry."""
    before = (-1, -1)
    for timestamp, relative in _TIME_ENTRY.iter_unpack(data[: len(data) // 12 * 12]):
        offset = segment.base_offset + relative
        if timestamp == relative == 0 or offset >= end:
            return None
        if timestamp <= before[0] or relative < before[1]:
            return _Place(offset, f"the entry of offset {offset} is not later than the previous entry")
        before = (timestamp, relative)
    return None
