"""One flush of a data log: makes everything appended before it durable, then writes what recovery relies on.

The order matters: recovery trusts segments with index files and segments below the recovery point, whose batches are
then durable, and their epochs in `leader-epoch-checkpoint`.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.broker.log.data_segment import DataSegment
from quorumd.errors import DiskFull, FlushFailed, StorageError
from quorumd.log.atomic_file import write_atomically
from quorumd.log.flush import flush_failed
from quorumd.ports import Disk, File


class LogFlush:
    """Created on the event thread and called once, possibly on another thread.

    Everything below `end_offset` is durable afterwards. A truncation on the event thread may lower it during the
    call, so read the attribute rather than the result. `failure` is set if the call failed, and raised by later ones.
    """

    __slots__ = (
        "_disk",
        "_epochs",
        "_files",
        "_folder",
        "_sealed",
        "end_offset",
        "failure",
        "is_running",
        "moves_recovery_point",
    )

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
        """`files`: (path, file) in the order to sync; `folder`: set if its entries changed; `sealed`: segments that
        get index files; `epochs`: (path, content) of the epoch checkpoint if it changed; `failure`: the error of an
        earlier flush."""
        self._disk = disk
        self._files = files
        self._folder = folder
        self._sealed = sealed
        self._epochs = epochs
        self.end_offset = end_offset
        self.failure = failure
        self.is_running = True
        self.moves_recovery_point = True

    def __call__(self) -> int:
        """Sync, and return the durable end offset. Blocks. Raises FlushFailed, as do all later flushes."""
        if self.failure is not None:
            self.is_running = False
            raise self.failure
        try:
            self._sync()
            self._write_checkpoints()
        except FlushFailed as failure:
            self.failure = failure
            raise
        except Exception as fault:
            # No later flush covers what this one should have made durable.
            self.failure = FlushFailed(f"a flush failed: {fault!r}")
            raise self.failure from fault
        finally:
            self.is_running = False
        return self.end_offset

    @property
    def is_done(self) -> bool:
        """Whether the call has succeeded, and recovery may start at `end_offset`."""
        return not self.is_running and self.failure is None and self.moves_recovery_point

    def _sync(self) -> None:
        for path, file in self._files:
            try:
                file.sync()
            except OSError as cause:
                raise flush_failed(path, cause) from cause
        if self._folder is not None:
            try:
                self._disk.sync_directory(self._folder)
            except OSError as cause:
                raise flush_failed(self._folder, cause) from cause

    def _write_checkpoints(self) -> None:
        """Write the epochs, then the index files, with which recovery trusts the batches of a segment."""
        try:
            if self._epochs is not None:
                write_atomically(self._disk, *self._epochs)
            for segment in self._sealed:
                if not segment.has_index_files:
                    segment.write_index_files()
                    segment.has_index_files = True
        except DiskFull:
            # The batches are durable, but the next start has to read them.
            self.moves_recovery_point = False
        except StorageError as fault:
            raise FlushFailed(str(fault)) from fault
