"""Read the batches of a file, one window of bytes at a time.

Recovery, compaction, the readers of logs and snapshots, and `log dump` use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from quorumd.protocol.batch_header import HEADER_SIZE, BatchHeader
from quorumd.protocol.batch_scan import BatchRules, Scan, scan

_WINDOW_BYTES = 1024 * 1024
MAX_BATCH_BYTES = 128 * 1024 * 1024
"""More than the largest frame that can carry a batch: a larger length field is damage."""


class Readable(Protocol):
    """The part of `ports.File` that reading batches needs."""

    def size(self) -> int: ...

    def read_at(self, position: int, length: int) -> bytes: ...


class Window(NamedTuple):
    """Part of a file: `data` at `position`, and the headers of the batches that are whole in it.

    The positions of `headers` are relative to `data`. `fault` is set in the last window if anything but zeros follows
    the batches.
    """

    position: int
    data: bytes
    headers: list[BatchHeader]
    end: int
    """Position in the file at which the last batch ends."""
    fault: str = ""
    is_cut_off: bool = False
    """Whether the file ends inside a batch that is valid so far."""


def read_windows(
    file: Readable,
    rules: BatchRules,
    position: int = 0,
    end: int | None = None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    least_bytes: int | None = None,
) -> Iterator[Window]:
    """Yield the batches from `position`, where one begins, up to the first invalid one, to zeros or to `end`, that of
    the file if it is None. A batch that breaks the rules, or has more than `max_batch_bytes`, is invalid. Windows
    have `least_bytes`, or more if a batch has; a megabyte if it is None."""
    stop = file.size() if end is None else end
    window_bytes = least_bytes = _WINDOW_BYTES if least_bytes is None else least_bytes
    while position < stop:
        data = file.read_at(position, min(window_bytes, stop - position))
        found = scan(data, rules)
        found_end = position + found.end
        needed = _needed_bytes(found, len(data) - found.end)
        # A file that another process has truncated in the meantime yields less than the window.
        may_grow = found.end > 0 or needed > window_bytes
        if needed == 0 or needed > max_batch_bytes or not may_grow:
            # The fault begins with a position in `data`, which means nothing to the caller.
            fault = found.fault.partition(": ")[2]
            yield Window(position, data, found.headers, found_end, fault, found.incomplete)
            return
        yield Window(position, data, found.headers, found_end)
        window_bytes = max(least_bytes, needed)
        position = found_end


def _needed_bytes(found: Scan, rest: int) -> int:
    """Return the size of the next window that continues a scan which left `rest` bytes; 0 if nothing continues it."""
    if found.incomplete:
        return found.needed_bytes
    if found.fault or rest >= HEADER_SIZE:
        return 0
    # Zeros that are shorter than a header may be the beginning of one.
    return HEADER_SIZE if rest else 1
