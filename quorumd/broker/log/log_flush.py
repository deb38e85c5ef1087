"""One flush of a data log: syncs everything appended before it, then writes epochs and index files.

The order matters: recovery trusts segments with index files, segments below the recovery point, and their epochs in
`leader-epoch-checkpoint`, so their batches must be durable first.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.broker.log.data_segment import DataSegment
from quorumd.errors import FlushFailed
from quorumd.log.flush import Flush
from quorumd.ports import Disk, File


class LogFlush(Flush):
    """A flush that also writes the index files of sealed segments."""

    __slots__ = ("_sealed",)

    def __init__(
        self,
        disk: Disk,
        end_offset: int,
        files: Sequence[tuple[str, File]],
        directory: str | None,
        sealed: Sequence[DataSegment],
        epochs: tuple[str, bytes] | None,
        failure: FlushFailed | None,
    ) -> None:
        """`sealed` are segments without index files; `epochs` is the path and content of the checkpoint to write."""
        super().__init__(disk, end_offset, files, directory, epochs, failure)
        self._sealed = sealed

    @property
    def is_done(self) -> bool:
        """Whether the flush has succeeded: the recovery point may advance to `end_offset`."""
        return not self.is_running and self.has_succeeded and self.wrote_checkpoints

    def _write_checkpoints(self) -> None:
        """Write the epochs, then the index files, which make recovery trust a segment."""
        super()._write_checkpoints()
        for segment in self._sealed:
            if not segment.has_index_files:
                segment.write_index_files()
                segment.has_index_files = True
