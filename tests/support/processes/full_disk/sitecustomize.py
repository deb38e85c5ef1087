"""A full disk for a process that has this directory on PYTHONPATH: Python imports this module at start.

The disk is full while the file named by FULL_DISK_WHILE_EXISTS exists. It behaves like a full ext4: allocated blocks
can be overwritten, a file that would grow fails with ENOSPC, and statvfs reports no free block.
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
    actual = _statvfs(path)
    if not os.path.exists(_flag):
        return actual
    fields = list(actual)
    fields[3] = fields[4] = 0
    return os.statvfs_result(fields)


os.posix_fallocate, os.pwrite, os.ftruncate = _full_allocate, _full_pwrite, _full_truncate
os.statvfs = _full_statvfs
