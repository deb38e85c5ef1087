"""Configures glibc's allocator to return large blocks to the system as soon as they are freed (mallopt)."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
LARGE_BLOCK: Final = 1024 * 1024
KEPT_FREE: Final = 8 * 1024 * 1024
"""Free memory that the process keeps at the end of its heap, so that normal work makes no system calls."""


def return_large_blocks() -> None:
    """Allocate every block of at least `LARGE_BLOCK` bytes in pages of its own.

    By default glibc allocates blocks of up to 32 MiB in its heap once one of that size was freed. Frames that grow
    there are copied each time and leave gaps, so that a few clients could make a node occupy twice the memory that it
    uses. No effect with other C libraries.
    """
    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
        library.mallopt(M_TRIM_THRESHOLD, KEPT_FREE)
