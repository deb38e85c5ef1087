"""The streaming reader of the source, over growing directories or a live cluster.

A stream reads one log, not several copies of it. Over a live cluster it ends at the high watermark unless
committedOnly is false. Over directories it follows the most up-to-date copy. Only complete batches with a matching
CRC count: data after the last of them is still being written. A node may truncate the uncommitted end of its copy.
Over directories, each offset of the stream therefore has the epoch of the record before it: if a copy has another
epoch there, streamed records were lost and the stream fails. Equal epochs at equal offsets mean equal logs up to
there (Raft paper, section 5.3).

Offsets are JSON objects of integers with a fixed order of keys, because Spark compares them as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from quorumd.errors import InputIncomplete
from quorumd.pipeline.source.followed import FollowedCopy, FollowedDirectories, Reached
from quorumd.pipeline.source.options import Interval, Selection, SourceOptions
from quorumd.pipeline.source.planning import live_ranges, plan_parts
from quorumd.pipeline.source.reader import LiveTask, PieceTask, TaskReader
from quorumd.pipeline.source.tasks import may_hold
from quorumd.pipeline.tables.schemas import Table

if TYPE_CHECKING:
    import pyarrow as pa

Offset = dict[str, int]
"""The keys node (the owner of the copy, -1 for a live cluster), offset (exclusive) and epoch (of the record before
the offset, -1 if unknown)."""


class StreamedLog(Protocol):
    """The log that a stream follows. All methods raise InputIncomplete and RequestFailed."""

    def look(self) -> Reached:
        """Return the current end of the log."""

    def start_offset(self) -> int:
        """Return the first offset of the log."""

    def epoch_before(self, offset: int) -> int:
        """Return the epoch of the record before `offset`; -1 if unknown."""

    def tasks(self, start: Reached, end: Reached) -> list[InputPartition]:
        """Return tasks for the offsets [start, end), both returned earlier by this log."""

    def close(self) -> None:
        """Close connections."""


class StreamReader(TaskReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Rows of the levels `records` and `batches` as the log grows."""

    def __init__(self, options: SourceOptions, table: Table) -> None:
        super().__init__(options, table)
        self._log: StreamedLog | None = None
        self._target: int | None = None

    @property
    def log(self) -> StreamedLog:
        """The log, opened on first use so that connections stay in the planning process."""
        if self._log is None:
            self._log = LiveLog(self.options) if self.options.is_live else DirectoryLog(self.options)
        return self._log

    def initialOffset(self) -> Offset:
        reached = self.log.look()
        start = max(self.options.selection.offsets.low, 0) or self.log.start_offset()
        return as_offset(Reached(reached.node, start, -1))

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.log.look().offset

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self.options.max_offsets_per_trigger
        return ReadMaxRows(rows) if rows else ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        reached = self.log.look()
        began = as_reached(start)
        self._check(began, reached)
        end = min(reached.offset, self.options.selection.offsets.high)
        if self._target is not None:
            end = min(end, self._target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, began.offset + limit.max_rows)
        if end <= began.offset:
            return start
        epoch = reached.epoch if end == reached.offset else self.log.epoch_before(end)
        return as_offset(Reached(reached.node, end, epoch))

    def reportLatestOffset(self) -> Offset:
        return as_offset(self.log.look())

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return self.log.tasks(as_reached(start), as_reached(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.rows(partition)

    def stop(self) -> None:
        if self._log is not None:
            self._log.close()

    def _check(self, began: Reached, reached: Reached) -> None:
        """Raise InputIncomplete if the log no longer has the records streamed up to `began`."""
        first = self.log.start_offset()
        if began.offset < first:
            raise InputIncomplete(
                f"the stream is at offset {began.offset}, but the log starts at {first}: older records are only in "
                "the snapshot (level snapshot); start a new stream"
            )
        if began.epoch < 0 or began.offset > reached.offset:
            return
        epoch = self.log.epoch_before(began.offset)
        if epoch not in (-1, began.epoch):
            raise InputIncomplete(
                f"the record before offset {began.offset} was of epoch {began.epoch} when it was streamed, and is of "
                f"epoch {epoch} in the copy of node {reached.node}: it was not committed and is lost; start a "
                "new stream, or build the history again in another directory; from a live cluster (bootstrap), only "
                "committed records are streamed by default"
            )


class DirectoryLog:
    """Copies of a log in directories."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._directories = FollowedDirectories(options.directories)
        self._copy: FollowedCopy | None = None

    def look(self) -> Reached:
        reached = self._directories.look()
        self._copy = self._directories.copies[reached.node]
        return reached

    def start_offset(self) -> int:
        return self._looked_at().start_offset

    def epoch_before(self, offset: int) -> int:
        return self._looked_at().epoch_before(offset)

    def tasks(self, start: Reached, end: Reached) -> list[InputPartition]:
        if start.offset >= end.offset:
            return []
        self.look()
        copy = self._copy_with(end)
        offsets = Interval(start.offset, end.offset)
        files = [file for file in copy.files if may_hold(file, Selection(offsets=offsets), None)]
        parts = [(file, *copy.bounds(file, offsets)) for file in files]
        return [PieceTask(pieces, offsets) for pieces in plan_parts(parts, self._options)]

    def close(self) -> None:
        """Do nothing: no file stays open between calls."""

    def _looked_at(self) -> FollowedCopy:
        if self._copy is None:
            self.look()
        assert self._copy is not None
        return self._copy

    def _copy_with(self, end: Reached) -> FollowedCopy:
        """Return a copy that still has the record before `end`, preferably of the same node."""
        copies = self._directories.copies
        for copy in sorted(copies.values(), key=lambda copy: copy.node != end.node):
            if copy.epoch_before(end.offset) == end.epoch:
                return copy
        raise InputIncomplete(
            f"no directory still has the record before offset {end.offset} in epoch {end.epoch}: the log was "
            "truncated, or a directory is missing; start a new stream"
        )


class LiveLog:
    """The log of a live cluster."""

    def __init__(self, options: SourceOptions) -> None:
        self._observer = options.observer(committed_only=options.committed_only)
        self._start = 0

    def look(self) -> Reached:
        extent = self._observer.extent()
        self._start = extent.start
        return Reached(-1, extent.end, -1)

    def start_offset(self) -> int:
        return self._start

    def epoch_before(self, offset: int) -> int:
        """Return -1: committed records are never truncated, and with committedOnly=false the caller accepts it."""
        return -1

    def tasks(self, start: Reached, end: Reached) -> list[InputPartition]:
        ranges = live_ranges(start.offset, end.offset)
        return [LiveTask(Interval(low, high), self._observer.addresses) for low, high in ranges]

    def close(self) -> None:
        self._observer.close()


def as_offset(reached: Reached) -> Offset:
    return {"node": reached.node, "offset": reached.offset, "epoch": reached.epoch}


def as_reached(offset: Mapping[str, int]) -> Reached:
    return Reached(offset["node"], offset["offset"], offset["epoch"])
