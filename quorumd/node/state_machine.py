"""The image of the cluster as a function of the log.

A follower applies what is committed a moment later, much at once but only a slice a turn: its image tells clients of
topics, which are used to hear of them a little late, and its fetches are what the quorum waits for. A leader applies
all that its log holds when it becomes leader, and then its own records as it proposes them (`Proposals` keeps
how to take them back).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from quorumd.controller.assignment import Change, undo
from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import CorruptLog, MalformedMessage, UnsupportedVersion
from quorumd.ids import OffsetAndEpoch
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.snapshot_loading import load_steps
from quorumd.ports import Disk
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import BatchHeader, headers, values

LOAD_RECORDS = 200
"""How much of a snapshot is loaded in one turn: no more than that takes."""
SLICE_BYTES = 16 * 1024
"""How much of the log is applied in one turn of a follower: well under a millisecond."""
READ_BYTES = 1024 * 1024


class Loading(NamedTuple):
    """A snapshot that takes the place of the image once it is loaded."""

    snapshot: OffsetAndEpoch
    image: ClusterImage
    steps: Iterator[int]


class StateMachine:
    """Applies records of the log to the image, in order, each once.

    `applied_offset`: the image holds everything below it. `committed_offset`: what is committed; of what the
    image holds, that is never undone. `linger(callback)` calls back a moment later, when more may have come;
    `schedule(callback)` in a later turn of the loop.
    Whatever applies may raise StorageError: a log that cannot be read, or not be understood.
    """

    def __init__(
        self,
        log: SegmentedLog,
        linger: Callable[[Callable[[], None]], None],
        schedule: Callable[[Callable[[], None]], None],
    ) -> None:
        self.image = ClusterImage()
        self.applied_offset = log.start_offset
        self.committed_offset = log.start_offset
        self._log = log
        self._linger = linger
        self._schedule = schedule
        self._is_scheduled = False
        self._uncommitted: deque[tuple[int, list[Change]]] = deque()
        self._loading: Loading | None = None

    def begin_with(self, image: ClusterImage, offset: int) -> None:
        """Take over the image of all below `offset`, which is committed."""
        self.image = image
        self.applied_offset = self.committed_offset = offset

    def committed(self, high_watermark: int) -> None:
        """Everything below the high watermark is committed: apply what is not applied yet, a moment later."""
        if high_watermark > self.committed_offset:
            self.committed_offset = high_watermark
        while self._uncommitted and self._uncommitted[0][0] <= high_watermark:
            self._uncommitted.popleft()
        self._apply_later(self._linger)

    def load(self, snapshot: OffsetAndEpoch, disk: Disk) -> None:
        """The log begins at the end of this snapshot now: load it in slices. Until then the image is the old one:
        whoever fetches snapshots does not lead."""
        image = ClusterImage()
        path = self._log.snapshots.path(snapshot)
        self._uncommitted.clear()
        self._loading = Loading(snapshot, image, load_steps(disk, path, snapshot, image, LOAD_RECORDS))
        self.committed_offset = max(self.committed_offset, snapshot.offset)
        self._schedule(partial(self._load_slice, self._loading))

    def _load_slice(self, loading: Loading) -> None:
        if loading is not self._loading:
            return
        if next(loading.steps, None) is not None:
            self._schedule(partial(self._load_slice, loading))
        else:
            self._loaded(loading)

    def _loaded(self, loading: Loading) -> None:
        self._loading = None
        self.image = loading.image
        self.applied_offset = loading.snapshot.offset
        self._apply_later(self._schedule)

    def lead(self) -> None:
        """This node became leader: its image is that of its whole log, committed or not."""
        if self._loading is not None:
            for _ in self._loading.steps:
                pass
            self._loaded(self._loading)
        while self.applied_offset < self._log.end_offset:
            self._apply(self._log.end_offset, READ_BYTES)

    def appended(self, end_offset: int) -> None:
        """The leader appended records that its image holds already."""
        self.applied_offset = end_offset

    def lost_leadership(self) -> None:
        """Take back what was read from the log but not committed; proposals are taken back before this."""
        while self._uncommitted:
            undo(reversed(self._uncommitted.pop()[1]))
        self.applied_offset = min(self.applied_offset, self.committed_offset)
        self._apply_later(self._linger)

    def _apply_later(self, schedule: Callable[[Callable[[], None]], None]) -> None:
        if self.applied_offset < self.committed_offset and not self._is_scheduled and self._loading is None:
            self._is_scheduled = True
            schedule(self._apply_slice)

    def _apply_slice(self) -> None:
        self._is_scheduled = False
        if self.applied_offset < self.committed_offset and self._loading is None:
            self._apply(self.committed_offset, SLICE_BYTES)
            self._apply_later(self._schedule)

    def _apply(self, end_offset: int, limit_bytes: int) -> None:
        data = self._log.read(self.applied_offset, limit_bytes, below=end_offset)
        for header in headers(data):
            if not header.is_control:
                self._apply_batch(data, header)
            self.applied_offset = header.end_offset

    def _apply_batch(self, data: bytes, header: BatchHeader) -> None:
        apply = self.image.apply
        changes: list[Change] = []
        try:
            for value in values(data, header):
                apply(decode_record(value), changes)
        except (MalformedMessage, UnsupportedVersion) as error:
            raise CorruptLog(
                f"the log cannot be applied at offset {header.base_offset}: {error}; "
                "if a newer version wrote it, run that version here too"
            ) from None
        if changes and header.end_offset > self.committed_offset:
            self._uncommitted.append((header.end_offset, changes))
