"""The batch reader of the source: plans on the driver, reads in workers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from quorumd.client.leader_discovery import Address
from quorumd.errors import InputIncomplete
from quorumd.pipeline.live.observer import FETCH_BYTES
from quorumd.pipeline.scan.batches import Place
from quorumd.pipeline.source.filters import selection_of
from quorumd.pipeline.source.options import EVERY_OFFSET, REPORT, Interval, Selection, SourceOptions
from quorumd.pipeline.source.pieces import Origin, Read, Wanted, read_fetched, read_piece
from quorumd.pipeline.source.planning import NO_SNAPSHOT, plan_files, plan_live, require_snapshot
from quorumd.pipeline.source.tasks import Piece
from quorumd.pipeline.tables.schemas import Table

if TYPE_CHECKING:
    import pyarrow as pa


class PieceTask(InputPartition):
    """Pieces of files to read."""

    def __init__(self, pieces: tuple[Piece, ...], offsets: Interval = EVERY_OFFSET) -> None:
        self.pieces = pieces
        self.offsets = offsets


class LiveTask(InputPartition):
    """A range of offsets of a live log, and the addresses of its nodes."""

    def __init__(self, offsets: Interval, addresses: tuple[Address, ...]) -> None:
        self.offsets = offsets
        self.addresses = addresses


class SnapshotTask(InputPartition):
    """The newest snapshot of a live cluster."""

    def __init__(self) -> None:
        super().__init__(None)


class TaskReader:
    """Reads tasks in workers, for batches and streams, as rows of the requested columns."""

    def __init__(self, options: SourceOptions, table: Table) -> None:
        self.options = options
        self.table = table
        self.pushed = Selection()

    def rows(self, task: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task. Raises RequestFailed, and InputIncomplete for damage if onCorrupt is fail."""
        options = self.options
        reads: Iterator[Read]
        # Imported here: planning does not need Arrow and numpy, which take 0.5 s to import.
        if isinstance(task, PieceTask) and options.level == "audit":
            from quorumd.pipeline.source.audit_rows import audit_rows

            yield from audit_rows(task.pieces, self.table)
            return
        from quorumd.pipeline.source.rows import RowShape, batch_rows, record_rows

        if isinstance(task, PieceTask):
            is_whole = task.offsets == EVERY_OFFSET and options.on_corrupt == REPORT
            wanted = self.wanted(task.offsets)._replace(with_torn_tail=is_whole)
            reads = (read for piece in task.pieces for read in read_piece(piece, wanted))
        elif isinstance(task, LiveTask):
            wanted = self.wanted(task.offsets)
            reads = _read_live(options, task, wanted)
        elif isinstance(task, SnapshotTask):
            wanted = self.wanted(EVERY_OFFSET)
            reads = _read_live_snapshot(options, wanted)
        else:
            # Spark creates an empty task if there are none.
            return
        exact = wanted.requested.offsets & wanted.part
        shape = RowShape(self.table, options.packed, options.on_corrupt, exact)
        make = batch_rows if options.level == "batches" else record_rows
        yield from make(reads, shape)

    def wanted(self, part: Interval) -> Wanted:
        """Return the requested data within a part of the offsets."""
        return Wanted(self.options.selection, self.pushed, part, self.options.level == "batches")


class Reader(TaskReader, DataSourceReader):
    """A reader with push-down of filters, which prune files and batches."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use filters to prune, and return all of them: Spark evaluates them again on the rows."""
        self.pushed = selection_of(filters, self.options.level == "batches")
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        options = self.options
        wanted = options.selection & self.pushed
        if not options.is_live:
            return [PieceTask(pieces) for pieces in plan_files(options, wanted)]
        if options.level == "snapshot":
            require_snapshot(options)
            return [SnapshotTask()]
        return [
            LiveTask(Interval(start, end), options.bootstrap) for start, end in plan_live(options, wanted)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.rows(partition)


class PlainReader(Reader):
    """A reader for push-down switched off, when Spark rejects readers that support it."""

    pushFilters = DataSourceReader.pushFilters


def _read_live(options: SourceOptions, task: LiveTask, wanted: Wanted) -> Iterator[Read]:
    with options.observer(task.addresses, committed_only=options.committed_only) as observer:
        pieces = (
            (Origin(fetched.node, None, f"the log of node {fetched.node}"), fetched.data)
            for fetched in observer.read(task.offsets.low, task.offsets.high)
        )
        yield from read_fetched(pieces, wanted)


def _read_live_snapshot(options: SourceOptions, wanted: Wanted) -> Iterator[Read]:
    # Copied before the first row is yielded: until then, a snapshot that is deleted can be replaced by a newer one.
    with (
        tempfile.TemporaryFile() as file,
        options.observer() as observer,
    ):
        snapshot = observer.copy_snapshot(file)
        if snapshot is None:
            raise InputIncomplete(NO_SNAPSHOT)
        file.seek(0)
        origin = Origin(
            -1, None, f"snapshot {snapshot.offset}-{snapshot.epoch}", (snapshot.offset, snapshot.epoch)
        )
        pieces = ((origin, piece) for piece in iter(lambda: file.read(FETCH_BYTES), b""))
        yield from read_fetched(pieces, wanted, Place(expected_offset=0))
