"""Steps from batch to batch by the few header fields that finding and cutting needs, and nothing else.

Serving a fetch walks over every batch in it, so no `BatchHeader` is made here. The bytes are the log's own.
"""

from __future__ import annotations

from struct import Struct

from quorumd.errors import CorruptLog
from quorumd.protocol.record_batch import HEADER_SIZE

_EXTENT = Struct(">qi11xi")
"""Base offset, length of what follows the length, (epoch, magic, CRC, attributes), last offset delta."""
_LENGTH_PREFIX_BYTES = 12
EXTENT_SIZE = _EXTENT.size
"""Bytes of a batch that must be there for `extent`."""


def extent(data: bytes, position: int) -> tuple[int, int, int]:
    """(base offset, end offset, size in bytes) of the batch at `position`; EXTENT_SIZE bytes of it are there.

    Raises CorruptLog if no batch can have such a header.
    """
    base_offset, length, last_offset_delta = _EXTENT.unpack_from(data, position)
    size = length + _LENGTH_PREFIX_BYTES
    if size < HEADER_SIZE or base_offset < 0 or last_offset_delta < 0:
        raise CorruptLog(f"no batch has {size} bytes, base offset {base_offset} and {last_offset_delta} more")
    return base_offset, base_offset + last_offset_delta + 1, size


def find_batch(data: bytes, offset: int) -> int:
    """The position of the first batch that ends after `offset`; `data` begins with a batch.

    If its first EXTENT_SIZE bytes are not in `data`: a position from which to go on looking.
    """
    position = 0
    last = len(data) - EXTENT_SIZE
    while position <= last:
        _, end_offset, size = extent(data, position)
        if end_offset > offset:
            return position
        position += size
    return position


def whole_batches(data: bytes, start: int, limit: int, max_offset: int) -> int:
    """The end of the whole batches from `start`: those that end at or below offset `below` and together have
    at most `limit` bytes, or the first one alone, whatever its size."""
    position = start
    last = len(data) - EXTENT_SIZE
    while position <= last:
        _, end_offset, size = extent(data, position)
        stop = position + size
        if end_offset > max_offset or stop > len(data) or (stop - start > limit and position > start):
            break
        position = stop
    return position
