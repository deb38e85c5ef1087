"""Finds starts of batches by the content of their headers, where the chain of lengths is broken or unknown."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from quorumd.protocol.batch_header import HEADER_SIZE, MAGIC

Data: TypeAlias = bytes | bytearray | memoryview
LARGEST_BATCH: Final = 64 << 20
"""Eight times the largest batch that Kafka writes: a larger length is damage."""
BODY: Final = 21
"""The position of the first byte that the CRC covers."""
COUNTS: Final = Struct(">q15xi30xi").unpack_from
"""Base offset, last offset delta, count."""

LENGTH_END: Final = 12
LEAST_LENGTH: Final = HEADER_SIZE - LENGTH_END
LARGEST_LENGTH: Final = LARGEST_BATCH - LENGTH_END
LENGTH_AND_MAGIC: Final = Struct(">8xi4xb").unpack_from
_STORED_CRC: Final = Struct(">17xI").unpack_from
MAGIC_AT: Final = 16
PRODUCER: Final = 43
PRODUCER_SIZE: Final = 14
_NO_PRODUCER: Final = b"\xff" * PRODUCER_SIZE
_FIRST_LOOK: Final = 1 << 12
"""The number of bytes searched first."""
_GROWTH: Final = 4


def resync(data: Data, start: int = 0) -> int:
    """Return the first position at or after `start` of a batch with a matching CRC; -1 if there is none."""
    view = memoryview(data)
    return next((at for at, size in candidates(view, start) if is_sound(view, at, size)), -1)


def candidates(view: memoryview, start: int) -> Iterator[tuple[int, int]]:
    """Yield positions of possible headers from `start`, and the batch sizes, which may exceed the piece."""
    for at in _marked(np.frombuffer(view, np.uint8), start):
        size = announced_size(view, at)
        if size and view[at + PRODUCER : at + PRODUCER + len(_NO_PRODUCER)] == _NO_PRODUCER:
            base_offset, last_delta, count = COUNTS(view, at)
            if base_offset >= 0 and count == last_delta + 1 > 0:
                yield at, size


def _marked(array: npt.NDArray[np.uint8], start: int) -> Iterator[int]:
    """Yield positions of a magic byte 2 with 0xFF at the producer id: batches of this log have none, and few other
    bytes match."""
    width, end = _FIRST_LOOK, len(array) - HEADER_SIZE + 1
    while start < end:
        # The next batch is usually nearby.
        stop = min(start + width, end)
        magic = array[start + MAGIC_AT : stop + MAGIC_AT] == MAGIC
        producer = array[start + PRODUCER : stop + PRODUCER] == 0xFF
        yield from (np.flatnonzero(magic & producer) + start).tolist()
        start, width = stop, width * _GROWTH


def announced_size(view: memoryview, at: int) -> int:
    """Return the size in the header at `at`; 0 if it cannot be a batch."""
    if at + HEADER_SIZE > len(view):
        return 0
    length, magic = LENGTH_AND_MAGIC(view, at)
    return length + LENGTH_END if magic == MAGIC and LEAST_LENGTH <= length <= LARGEST_LENGTH else 0


def is_sound(view: memoryview, at: int, size: int) -> bool:
    (stored,) = _STORED_CRC(view, at)
    return at + size <= len(view) and bool(crc32c(view[at + BODY : at + size]) == stored)
