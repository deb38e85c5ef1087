"""Passes the committed part of the metadata log to the broker, in slices of a few milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import CorruptLog, MalformedMessage, StorageError, UnsupportedVersion
from quorumd.ids import OffsetAndEpoch
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.state.snapshot_loader import load_steps
from quorumd.ports import Clock, Disk
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.batch_scan import headers

SLICE_MS = 5.0
"""A slice ends with the first batch or step of a snapshot that completes after this time."""
SLICE_RECORDS = 10
READ_BYTES = 1024 * 1024


class MetadataReader(Protocol):
    """Receives the metadata log in the broker."""

    def apply(self, data: bytes, header: BatchHeader) -> None: ...

    def load(self, image: ClusterImage, end_offset: int) -> None: ...


class MetadataFeed:
    """Passes on each committed batch once and in order, or the newest snapshot if the log no longer has the next one.

    `schedule(callback)` calls back in a later iteration of the event loop and handles StorageError.
    """

    def __init__(
        self,
        log: SegmentedLog,
        clock: Clock,
        disk: Disk,
        schedule: Callable[[Callable[[], None]], None],
        reader: MetadataReader,
    ) -> None:
        self.next_offset = 0
        """All records below it have been passed on."""
        self._log = log
        self._clock = clock
        self._disk = disk
        self._schedule = schedule
        self._reader = reader
        self._target = 0
        self._loading: OffsetAndEpoch | None = None
        self._image = ClusterImage()
        self._steps: Iterator[int] = iter(())
        self._batches: Iterator[tuple[bytes, BatchHeader]] = iter(())
        self._is_scheduled = False

    def start(self, snapshot: OffsetAndEpoch | None, committed_offset: int) -> None:
        """Begin with a snapshot if there is one, otherwise at the start of the log."""
        if snapshot is not None:
            self._begin_loading(snapshot)
        self.committed(committed_offset)

    def committed(self, high_watermark: int) -> None:
        """Schedule the records below the new high watermark to be passed on."""
        self._target = max(self._target, high_watermark)
        self._schedule_slice()

    @property
    def _has_work(self) -> bool:
        return self._loading is not None or self.next_offset < self._target

    def _schedule_slice(self) -> None:
        if self._has_work and not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self._run_slice)

    def _run_slice(self) -> None:
        self._is_scheduled = False
        deadline_ms = self._clock.now_ms() + SLICE_MS
        while self._has_work:
            if not (self._load_step() if self._loading is not None else self._apply_next()):
                return
            if self._clock.now_ms() >= deadline_ms:
                self._schedule_slice()
                return

    def _apply_next(self) -> bool:
        """Pass on the next batch; returns False if the log has none yet."""
        next_batch = next(self._batches, None)
        if next_batch is None:
            if self.next_offset < self._log.start_offset:
                return self._load_newest_snapshot()
            data = self._log.read(self.next_offset, READ_BYTES, max_offset=self._target)
            self._batches = iter([(data, header) for header in headers(data)])
            next_batch = next(self._batches, None)
            if next_batch is None:
                return False
        data, header = next_batch
        if header.end_offset <= self.next_offset:
            return True
        try:
            self._reader.apply(data, header)
        except (MalformedMessage, UnsupportedVersion) as error:
            raise CorruptLog(
                f"the log cannot be applied {error}; if a newer version wrote it, upgrade this node"
            ) from None
        self._clock.charge(header.end_offset - header.base_offset)
        self.next_offset = header.end_offset
        return True

    def _load_newest_snapshot(self) -> bool:
        snapshot = self._log.latest_snapshot
        if snapshot is None or snapshot.offset < self._log.start_offset:
            raise StorageError(
                f"the log begins at offset {self._log.start_offset} and no snapshot covers the offsets before it; "
                "restart the node"
            )
        self._begin_loading(snapshot)
        return True

    def _begin_loading(self, snapshot: OffsetAndEpoch) -> None:
        self._loading = snapshot
        self._image = ClusterImage()
        self._batches = iter(())
        path = self._log.snapshots.path(snapshot)
        self._steps = load_steps(self._disk, path, snapshot, self._image, SLICE_RECORDS)

    def _load_step(self) -> bool:
        count = next(self._steps, -1)
        if count < 0:
            assert self._loading is not None
            snapshot, self._loading = self._loading, None
            self._reader.load(self._image, snapshot.offset)
            self.next_offset = snapshot.offset
        else:
            self._clock.charge(count)
        return True
