"""The CRCs of many batches, computed a few calls at a time instead of one by one.

A call of CRC-32C costs more than a hundred bytes do. CRCs of neighbours can be computed in one go, though: in a copy
of them, each header is overwritten by bytes that take the register of the CRC from where it has to be at the end of
the batch before, as the CRC that is stored says, to where it begins. If the register is right at the end of the last
one, all stored CRCs are those of the bytes. One that is not always shows, as each step from there to the end is one
to one. Several hide each other by chance once in 2^32 times, which is how often damage hides from a CRC anyway.
Where it is not right, the batches are computed one by one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from quorumd.pipeline.scan.chain import Positions
from quorumd.pipeline.scan.search import BODY

Crcs = npt.NDArray[np.uint32]

_LARGEST_SMALL: Final = 4096
"""Bytes: a larger batch is computed sooner than it is copied."""
_TOGETHER: Final = 1 << 19
"""Bytes of batches: their copy stays within the caches."""
_ZERO_REGISTER: Final = 0xFFFFFFFF
"""The CRC so far where the register is zero: CRC-32C shows it inverted."""
_BEGIN: Final = 0x641F6454
"""Four bytes that take the register from zero to where a CRC begins."""
_BRIDGE: Final = np.dtype(
    {"names": ["end", "begin"], "formats": ["<u4", "<u4"], "offsets": [0, BODY - 4], "itemsize": BODY}
)
"""As long as what a header has before the bytes that the CRC covers. A register that meets its own bytes is zero, and
stays so over the zeros between."""


def computed_crcs(view: memoryview, bounds: Positions, stored: Crcs) -> Crcs:
    """Of each batch between these positions, over the bytes that are there, whatever is `stored`."""
    if bounds[-1] - bounds[0] > _LARGEST_SMALL * len(stored):
        return _one_by_one(view, bounds)
    found = stored.copy()
    first = 0
    while first < len(stored):
        last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + _TOGETHER, side="right")) - 1)
        if not all_match(view, bounds[first : last + 1], stored[first:last]):
            found[first:last] = _one_by_one(view, bounds[first : last + 1])
        first = last
    return found


def all_match(view: memoryview, bounds: Positions, stored: Crcs) -> bool:
    """Whether the CRCs of the batches between these positions are those that are stored."""
    start, end = int(bounds[0]), int(bounds[-1])
    copy = bytearray(view[start:end])
    bridges = np.zeros(len(stored), _BRIDGE)
    bridges["begin"] = _BEGIN
    bridges["end"][1:] = ~stored[:-1]
    whole = np.dtype((np.void, BODY))
    every = np.ndarray((len(copy) - BODY + 1,), whole, copy, 0, (1,))
    every[bounds[:-1] - start] = bridges.view(whole)
    return bool(crc32c(copy, _ZERO_REGISTER) == stored[-1])


def _one_by_one(view: memoryview, bounds: Positions) -> Crcs:
    covered = map(slice, (bounds[:-1] + BODY).tolist(), bounds[1:].tolist())
    return np.array(list(map(crc32c, map(view.__getitem__, covered))), np.uint32)
