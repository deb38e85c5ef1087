"""Find batches and boundaries by three fields of each header, without reading the others.

Serving a fetch visits every batch in it, so this creates no `BatchHeader` and verifies nothing else: the bytes come
from the local log. `quorumd.protocol.batch_scan` walks over bytes from elsewhere.
"""

from __future__ import annotations

from quorumd.errors import CorruptLog
from quorumd.log.batch_windows import Readable
from quorumd.protocol.batch_header import EXTENT, HEADER_SIZE, LENGTH_END

EXTENT_SIZE = EXTENT.size
"""Number of leading bytes of a batch that `extent` reads."""
_SEARCH_BYTES = 16 * 1024
_ANY_OFFSET = (1 << 63) - 1


def extent(data: bytes, position: int) -> tuple[int, int, int]:
    """(base offset, end offset, size in bytes) of the batch at `position`, of which EXTENT_SIZE bytes are in `data`.

    Raises CorruptLog for an invalid header.
    """
    base_offset, length, last_offset_delta = EXTENT.unpack_from(data, position)
    size = length + LENGTH_END
    if size < HEADER_SIZE or base_offset < 0 or last_offset_delta < 0:
        raise CorruptLog(
            f"invalid batch header: size {size}, base offset {base_offset}, last offset delta {last_offset_delta}"
        )
    return base_offset, base_offset + last_offset_delta + 1, size


def find_batch(data: bytes, offset: int) -> int:
    """The position of the first batch that ends above `offset`; `data` starts with a batch.

    If the first EXTENT_SIZE bytes of that batch are not in `data`, the position from which to continue.
    """
    position = 0
    last = len(data) - EXTENT_SIZE
    while position <= last:
        _, end_offset, size = extent(data, position)
        if end_offset > offset:
            return position
        position += size
    return position


def locate_batch(file: Readable, position: int, end: int, offset: int) -> tuple[int, int, int, int] | None:
    """Return (position, base offset, end offset, size) of the first batch of a file that ends above `offset`.

    Searches from `position`, where a batch begins, to `end`; None if there is no such batch, or if the file ends
    before `end`. Raises CorruptLog for an invalid header.
    """
    while position + EXTENT_SIZE <= end:
        data = file.read_at(position, min(_SEARCH_BYTES, end - position))
        found = find_batch(data, offset)
        if found + EXTENT_SIZE <= len(data):
            return position + found, *extent(data, found)
        if not found:
            break
        position += found
    return None


def whole_batches(data: bytes, start: int, limit: int, max_offset: int) -> tuple[int, int]:
    """(position, offset) at which the whole batches from position `start` end; `start` and offset 0 if there is none.

    Only batches that end at or below `max_offset`, of at most `limit` bytes together unless the first one is larger.
    Raises CorruptLog for an invalid header.
    """
    position = start
    last_end_offset = 0
    last = len(data) - EXTENT_SIZE
    while position <= last:
        _, end_offset, size = extent(data, position)
        stop = position + size
        if end_offset > max_offset or stop > len(data) or (stop - start > limit and position > start):
            break
        position = stop
        last_end_offset = end_offset
    return position, last_end_offset


def end_offset_of(data: bytes) -> int:
    """The offset after the last whole batch; 0 if there is none. Raises CorruptLog for an invalid header."""
    return whole_batches(data, 0, len(data), _ANY_OFFSET)[1]
