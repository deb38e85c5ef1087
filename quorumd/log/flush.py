"""One flush: everything appended before it began becomes durable."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.errors import DiskFull, FlushFailed, StorageError
from quorumd.log.atomic_file import parent_folder, write_atomically
from quorumd.ports import Disk, File


class Flush:
    """Made on the event thread, called once, perhaps on another thread; touches only what it was given.

    `end_offset` is what is durable once the call has returned, and what it returns. A truncation on the event
    thread lowers it meanwhile: look at it, rather than at the result, when the result has arrived.
    """

    __slots__ = ("_checkpoint", "_disk", "_files", "_folder", "end_offset", "failure", "is_running")

    def __init__(
        self,
        disk: Disk,
        end_offset: int,
        files: Sequence[tuple[str, File]],
        folder: str | None,
        checkpoint: tuple[str, bytes] | None,
        failure: FlushFailed | None,
    ) -> None:
        """`files` with their paths in the order to sync, `folder` if names in it changed, `checkpoint` as
        (path, content) if it is to be replaced; `failure` of an earlier flush, which stands for this one."""
        self._disk = disk
        self._files = files
        self._folder = folder
        self._checkpoint = checkpoint
        self.end_offset = end_offset
        self.failure = failure
        self.is_running = True

    def __call__(self) -> int:
        """Returns the durable end offset. Blocks. Raises FlushFailed, then and in all flushes after it."""
        if self.failure is not None:
            self.is_running = False
            raise self.failure
        try:
            self._sync()
            self._replace_checkpoint()
        except FlushFailed as failure:
            self.failure = failure
            raise
        except Exception as fault:
            # Whatever it was, what this flush was to make durable is not taken up again.
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
        if self._folder is not None:
            try:
                self._disk.sync_directory(self._folder)
            except OSError as cause:
                raise flush_failed(self._folder, cause) from cause

    def _replace_checkpoint(self) -> None:
        if self._checkpoint is not None:
            try:
                write_atomically(self._disk, *self._checkpoint)
            except DiskFull:
                # Nobody depends on it: recovery builds the epochs from the batches, as a stock reader does.
                return
            except StorageError as fault:
                raise FlushFailed(str(fault)) from fault


def flush_failed(path: str, cause: OSError) -> FlushFailed:
    """The error for a file or folder that could not be made durable."""
    return FlushFailed(
        f"{path} could not be flushed: {cause}. What of it is on the disk is not known; check the disk "
        f"that holds {parent_folder(path)}, then start the node again: it recovers what can be read back"
    )
