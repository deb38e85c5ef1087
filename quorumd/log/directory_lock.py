"""`.lock`: the lock file that lets only one process at a time use a data directory."""

from __future__ import annotations

from quorumd.errors import DirectoryInUse, StorageError
from quorumd.ports import Disk, File

FILE_NAME = ".lock"


def lock_directory(disk: Disk, data_directory: str) -> File:
    """Lock the directory until the returned file is closed.

    Raises DirectoryInUse if another process has locked it, StorageError if it cannot be locked.
    """
    path = f"{data_directory}/{FILE_NAME}"
    try:
        return disk.lock(path)
    except BlockingIOError:
        raise DirectoryInUse(
            f"{data_directory} is in use by another process{_holder(disk, path)}, which holds {path}; stop that "
            "process, or use another log directory for this node"
        ) from None
    except OSError as cause:
        raise StorageError(f"{path} cannot be locked: {cause}") from cause


def _holder(disk: Disk, path: str) -> str:
    """The process id in the lock file, as text for an error message; "" if there is none."""
    try:
        file = disk.open(path)
        try:
            pid = file.read_at(0, 20).strip()
        finally:
            file.close()
    except OSError:
        return ""
    return f" (pid {pid.decode()})" if pid.isdigit() else ""
