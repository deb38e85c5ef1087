"""Small files that are replaced atomically: a crash leaves either the old or the new content."""

from __future__ import annotations

from errno import EDQUOT, ENOSPC

from quorumd.errors import CorruptLog, DiskFull, FlushFailed, StorageError
from quorumd.ports import Disk, File

SPARE_BYTES = 4096
MAX_SMALL_FILE_BYTES = 64 * 1024
_TEMPORARY = ".tmp"


def is_disk_full(error: OSError) -> bool:
    """Whether an operation failed because the disk or the quota is full."""
    return error.errno in (ENOSPC, EDQUOT)


def parent_directory(path: str) -> str:
    """The parent directory of a path."""
    directory, slash, _ = path.rpartition("/")
    return directory or (slash or ".")


def write_atomically(disk: Disk, path: str, data: bytes) -> None:
    """Durably replace the file's content: write a temporary file, sync, rename, sync the directory. Blocks.

    Raises DiskFull or StorageError with the old content in place. Raises FlushFailed if a sync failed; its message
    says whether the old content is in place or a crash could leave either.
    """
    temporary = path + _TEMPORARY
    try:
        file = disk.open(temporary, create=True)
        try:
            # Truncate after writing, so that the blocks from `reserve_spare` are used, not freed.
            file.write_at(0, data)
            file.truncate(len(data))
            _sync(file, path)
        finally:
            file.close()
        disk.rename(temporary, path)
    except OSError as cause:
        if is_disk_full(cause):
            raise DiskFull(f"{path} was not written: {cause}; free space on the disk") from cause
        raise StorageError(f"{path} was not written: {cause}; its old content is in place") from cause
    try:
        disk.sync_directory(parent_directory(path))
    except OSError as cause:
        raise FlushFailed(
            f"{path} was replaced, but not durably: {cause}; check the disk, then start again"
        ) from cause


def _sync(file: File, path: str) -> None:
    try:
        file.sync()
    except OSError as cause:
        if is_disk_full(cause):
            raise
        text = f"{path} could not be flushed: {cause}; its old content is in place"
        raise FlushFailed(text) from cause


def reserve_spare(disk: Disk, path: str) -> None:
    """Reserve blocks, so that the next `write_atomically` of up to SPARE_BYTES works on a full disk. Best effort."""
    try:
        file = disk.open(path + _TEMPORARY, create=True)
        try:
            file.allocate(SPARE_BYTES)
        finally:
            file.close()
    except OSError:
        return


def read_small_file(disk: Disk, path: str) -> bytes | None:
    """Like `read_whole`, but raises CorruptLog for a file of more than MAX_SMALL_FILE_BYTES."""
    data = read_whole(disk, path, MAX_SMALL_FILE_BYTES + 1)
    if data is not None and len(data) > MAX_SMALL_FILE_BYTES:
        raise CorruptLog(
            f"{path} has more than {MAX_SMALL_FILE_BYTES} bytes, the limit for such a file; restore the file"
        )
    return data


def read_whole(disk: Disk, path: str, limit: int | None = None) -> bytes | None:
    """The content of a file, or its first `limit` bytes; None if it does not exist.

    Raises StorageError if it cannot be read.
    """
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    except OSError as cause:
        raise StorageError(f"{path} cannot be opened: {cause}") from cause
    try:
        return file.read_at(0, file.size() if limit is None else limit)
    except OSError as cause:
        raise StorageError(f"{path} cannot be read: {cause}") from cause
    finally:
        file.close()
