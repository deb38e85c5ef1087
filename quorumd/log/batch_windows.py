"""Read the batches of a file, one window of bytes at a time.

Recovery, snapshots, the builder of snapshots and `log dump` read their files with this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from quorumd.protocol.record_batch import HEADER_SIZE, BatchHeader, Scan, scan

_WINDOW_BYTES = 1024 * 1024
MAX_BATCH_BYTES = 128 * 1024 * 1024
"""More than the largest frame that can carry a batch: a larger length field is damage."""


class Readable(Protocol):
    """The part of `ports.File` that is needed."""

    def size(self) -> int: ...

    def read_at(self, position: int, length: int) -> bytes: ...


class Window(NamedTuple):
    """Batches that are whole in `data`, which is at `position` of the file; the positions of `headers` are in `data`.

    `fault` is set in the last window, if anything but zeros follows the batches.
    """

    position: int
    data: bytes
    headers: list[BatchHeader]
    end: int
    """The end of the last batch, as a position in the file."""
    fault: str = ""
    is_cut_off: bool = False
    """Whether the file ends inside a batch that is valid so far."""


def read_windows(
    file: Readable,
    position: int = 0,
    expected_offset: int | None = None,
    min_epoch: int = 0,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    only_structure: bool = False,
) -> Iterator[Window]:
    """Yield the batches from `position`, where one begins, up to the first invalid one (see `scan`), to zeros or to
    the end of the file."""
    file_size = file.size()
    window_bytes = _WINDOW_BYTES
    while position < file_size:
        data = file.read_at(position, window_bytes)
        found = scan(data, 0, expected_offset, min_epoch, only_structure)
        end = position + found.end
        needed = _needed_bytes(found, len(data) - found.end)
        # A file that another process has truncated in the meantime yields less than the window.
        may_grow = found.end > 0 or needed > window_bytes
        if needed == 0 or needed > max_batch_bytes or end + needed > file_size or not may_grow:
            # The text begins with a position in `data`.
            fault = found.fault.partition(": ")[2]
            yield Window(position, data, found.headers, end, fault, found.incomplete)
            return
        yield Window(position, data, found.headers, end)
        if found.headers:
            expected_offset, min_epoch = found.headers[-1].end_offset, found.headers[-1].epoch
        window_bytes = max(_WINDOW_BYTES, needed)
        position = end


def _needed_bytes(found: Scan, rest: int) -> int:
    """Return the size of the next window that continues a scan which left `rest` bytes; 0 if nothing continues it."""
    if found.incomplete:
        return found.needed_bytes
    if found.fault or rest >= HEADER_SIZE:
        return 0
    # Zeros that are shorter than a header may be the beginning of one.
    return HEADER_SIZE if rest else 1
