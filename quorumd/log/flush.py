"""One flush, which makes everything appended before it durable."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.errors import DiskFull, FlushFailed, StorageError
from quorumd.log.atomic_file import parent_directory, write_atomically
from quorumd.ports import Disk, File


class Flush:
    """A flush, created on the event thread and called once, possibly on another thread; it uses only its arguments.

    After the call, everything below `end_offset` is durable. The call returns that offset, but a truncation on the
    event thread may lower it in the meantime, so read the attribute rather than the result. `wrote_checkpoints`:
    False if the disk was too full for the checkpoint.
    """

    __slots__ = (
        "_checkpoint",
        "_directory",
        "_disk",
        "_files",
        "end_offset",
        "failure",
        "has_succeeded",
        "is_running",
        "wrote_checkpoints",
    )

    def __init__(
        self,
        disk: Disk,
        end_offset: int,
        files: Sequence[tuple[str, File]],
        directory: str | None,
        checkpoint: tuple[str, bytes] | None,
        failure: FlushFailed | None,
    ) -> None:
        """`files`: (path, file) in the order to sync; `directory`: set if its entries changed; `checkpoint`: (path,
        content) of a file to replace; `failure`: the error of an earlier flush, which this one raises again."""
        self._disk = disk
        self._files = files
        self._directory = directory
        self._checkpoint = checkpoint
        self.end_offset = end_offset
        self.failure = failure
        self.is_running = True
        self.has_succeeded = False
        self.wrote_checkpoints = True

    def __call__(self) -> int:
        """Sync, and return the durable end offset. Blocks. Raises FlushFailed, after which all later flushes do."""
        if self.failure is not None:
            self.is_running = False
            raise self.failure
        try:
            self._sync()
            self._save()
            self.has_succeeded = True
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

    def _sync(self) -> None:
        for path, file in self._files:
            try:
                file.sync()
            except OSError as cause:
                raise flush_failed(path, cause) from cause
        if self._directory is not None:
            try:
                self._disk.sync_directory(self._directory)
            except OSError as cause:
                raise flush_failed(self._directory, cause) from cause

    def _save(self) -> None:
        try:
            self._write_checkpoints()
        except DiskFull:
            # The batches are durable; without these files, recovery reads the batches.
            self.wrote_checkpoints = False
        except StorageError as fault:
            raise FlushFailed(str(fault)) from fault

    def _write_checkpoints(self) -> None:
        """Write the files that can also be rebuilt from the batches. Raises StorageError."""
        if self._checkpoint is not None:
            write_atomically(self._disk, *self._checkpoint)


def flush_failed(path: str, cause: OSError) -> FlushFailed:
    """The error for a file or directory that could not be synced."""
    return FlushFailed(
        f"{path} could not be flushed: {cause}. Its content on the disk is unknown; check the disk of "
        f"{parent_directory(path)}, then restart the node, which recovers what is readable"
    )
