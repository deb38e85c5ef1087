"""Python imports this at start when its folder is on PYTHONPATH: a disk that is full while a file says so.

As on a full ext4: blocks that a file has may be written, a file that would grow fails with ENOSPC, and
statvfs counts no free block. The file is named by the environment variable FULL_DISK_WHILE_EXISTS.
"""

from __future__ import annotations

import os
from errno import ENOSPC
from typing import Any

_flag = os.environ["FULL_DISK_WHILE_EXISTS"]
_allocate, _pwrite, _truncate, _statvfs = os.posix_fallocate, os.pwrite, os.ftruncate, os.statvfs


def _check_growth(descriptor: int, end: int) -> None:
    if os.path.exists(_flag) and end > os.fstat(descriptor).st_size:
        raise OSError(ENOSPC, os.strerror(ENOSPC))


def _full_allocate(descriptor: int, offset: int, length: int) -> None:
    _check_growth(descriptor, offset + length)
    _allocate(descriptor, offset, length)


def _full_pwrite(descriptor: int, data: bytes, offset: int) -> int:
    _check_growth(descriptor, offset + len(data))
    return _pwrite(descriptor, data, offset)


def _full_truncate(descriptor: int, length: int) -> None:
    _check_growth(descriptor, length)
    _truncate(descriptor, length)


def _full_statvfs(path: str) -> Any:
    told = _statvfs(path)
    if not os.path.exists(_flag):
        return told
    fields = list(told)
    fields[3] = fields[4] = 0
    return os.statvfs_result(fields)


os.posix_fallocate, os.pwrite, os.ftruncate = _full_allocate, _full_pwrite, _full_truncate
os.statvfs = _full_statvfs
