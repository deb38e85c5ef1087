"""Files of a local cluster that only their owner may read, in directories that others may write to, such as /tmp.

No symlink is followed: another user may have planted one that leads to a file of this user.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from quorumd.errors import ConfigError
from quorumd.output_files import open_for_appending, replacing

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
UMASK: Final = 0o077


def make_directory(directory: Path) -> None:
    """Create the directory, with its parents, unless it exists. Raises ConfigError if it is a symlink, or not a
    directory of this user."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        directory.mkdir(DIRECTORY_MODE)
    except FileExistsError:
        found = directory.lstat()
        if directory.is_symlink() or not directory.is_dir() or found.st_uid != os.getuid():
            raise ConfigError(
                f"{directory}: exists and is not a directory of this user; choose another --dir"
            ) from None


def write(path: Path, content: str | bytes) -> None:
    """Write a whole file. An existing file or symlink at this path is replaced; a symlink is not followed."""
    with replacing(path, FILE_MODE) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def append(path: Path) -> BinaryIO:
    """Open a file for appending. Raises ConfigError for a symlink."""
    try:
        return os.fdopen(open_for_appending(path, FILE_MODE), "ab")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}; remove it") from None


@contextmanager
def private_umask() -> Iterator[None]:
    """Give access to the files that are created in the block to their owner only."""
    before = os.umask(UMASK)
    try:
        yield
    finally:
        os.umask(before)
