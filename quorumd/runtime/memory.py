"""Configures the C library's allocator to return large blocks to the system as soon as they are freed."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
LARGE_BLOCK: Final = 1024 * 1024
KEPT_FREE: Final = 8 * 1024 * 1024
"""Free memory at the end of the heap that the process keeps, so that normal work makes no system calls."""


def return_large_blocks() -> None:
    """Allocate every block of at least `LARGE_BLOCK` bytes in pages of its own.

    By default glibc keeps blocks of up to 32 MiB in its heap once one of that size was freed. Frames that grow there
    are copied each time and leave gaps: a few clients could make a node occupy twice the memory that it uses.
    Other C libraries have no such option.
    """
    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
        library.mallopt(M_TRIM_THRESHOLD, KEPT_FREE)
