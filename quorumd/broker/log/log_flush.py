"""One flush of a data log: makes everything appended before it durable, then writes what recovery relies on.

The order matters: recovery trusts segments with index files and segments below the recovery point, whose batches are
then durable, and their epochs in `leader-epoch-checkpoint`.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.broker.log.data_segment import DataSegment
from quorumd.errors import FlushFailed
from quorumd.log.flush import Flush
from quorumd.ports import Disk, File


class LogFlush(Flush):
    """A flush that also gives index files to sealed segments."""

    __slots__ = ("_sealed",)

    def __init__(
        self,
        disk: Disk,
        end_offset: int,
        files: Sequence[tuple[str, File]],
        folder: str | None,
        sealed: Sequence[DataSegment],
        epochs: tuple[str, bytes] | None,
        failure: FlushFailed | None,
    ) -> None:
        """`sealed`: segments that get index files; `epochs`: the epoch checkpoint if it changed."""
        super().__init__(disk, end_offset, files, folder, epochs, failure)
        self._sealed = sealed

    @property
    def is_done(self) -> bool:
        """Whether the call has succeeded, and recovery may start at `end_offset`."""
        return not self.is_running and self.failure is None and self.wrote_checkpoints

    def _write_checkpoints(self) -> None:
        """Write the epochs, then the index files, with which recovery trusts the batches of a segment."""
        super()._write_checkpoints()
        for segment in self._sealed:
            if not segment.has_index_files:
                segment.write_index_files()
                segment.has_index_files = True
