"""Files that commands write at paths chosen by their user, perhaps in a directory that others can write, such as
/tmp.

A symlink at such a path is not followed, since another user may have created it to overwrite a file of this user.
Devices and pipes, such as /dev/stdout or that of `>(gzip)`, are written to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

DEFAULT_MODE: Final = 0o666
"""Permissions of a new file, limited by the umask."""
_STREAMS: Final = (Path("/dev"), Path("/proc"))
_SHARED_MEMORY: Final = Path("/dev/shm")


@contextmanager
def replacing(path: Path, mode: int = DEFAULT_MODE) -> Iterator[BinaryIO]:
    """Open a new file, which atomically replaces the one at the path if the block ends without an error. Raises
    OSError."""
    pending = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(pending, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        pending.replace(path)
    except BaseException:
        pending.unlink(missing_ok=True)
        raise


def write_output(path: Path, content: str | bytes) -> None:
    """Replace a file, or write to a device or pipe. Raises OSError."""
    encoded = content.encode() if isinstance(content, str) else content
    if _is_stream(path):
        with os.fdopen(open_for_appending(path), "wb") as stream:
            stream.write(encoded)
        return
    with replacing(path) as file:
        file.write(encoded)


def open_for_appending(path: Path, mode: int = DEFAULT_MODE) -> int:
    """Open an existing or new file for appending, and return its descriptor. Raises OSError, also for a symlink."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.open(path, flags if _is_of_the_system(path) else flags | os.O_NOFOLLOW, mode)


def _is_stream(path: Path) -> bool:
    if _is_of_the_system(path):
        return True
    try:
        found = path.lstat()
    except OSError:
        return False
    is_own = found.st_uid in (0, os.getuid())
    return is_own and (stat.S_ISFIFO(found.st_mode) or stat.S_ISCHR(found.st_mode))


def _is_of_the_system(path: Path) -> bool:
    """Whether symlinks in this directory, such as /dev/stdout, are created by the system."""
    parents = Path(os.path.normpath(path.absolute())).parents
    return any(each in parents for each in _STREAMS) and _SHARED_MEMORY not in parents
