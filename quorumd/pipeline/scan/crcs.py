"""Verifies the CRCs of many small batches in a few calls.

A CRC-32C call costs more than the CRC of a hundred bytes. CRCs of adjacent batches can be verified in one call,
though: in a copy, each header is overwritten by bytes that take the CRC register from its value at the end of the
previous batch, according to the stored CRC, to its initial value. If the register is right at the end of the last
batch, all stored CRCs match. A single mismatch always shows, because every step is a bijection; several mismatches
cancel out with probability 2^-32, as often as damage escapes a CRC anyway. If the register is wrong, batches are
verified one by one.
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
"""In bytes. Computing the CRC of a larger batch is faster than copying it."""
_TOGETHER: Final = 1 << 19
"""In bytes, per call: the copy stays within the CPU caches."""
_ZERO_REGISTER: Final = 0xFFFFFFFF
"""The CRC whose register is zero: CRC-32C is inverted."""
_BEGIN: Final = 0x641F6454
"""Four bytes that take the register from zero to its initial value."""
_BRIDGE: Final = np.dtype(
    {"names": ["end", "begin"], "formats": ["<u4", "<u4"], "offsets": [0, BODY - 4], "itemsize": BODY}
)
"""As long as the part of a header before the bytes that the CRC covers. A register XORed with itself is zero, and
zeros leave it unchanged."""


def computed_crcs(view: memoryview, bounds: Positions, stored: Crcs) -> Crcs:
    """Compute the CRC of each batch between these positions."""
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
    """Return True if all batches between these positions match the stored CRCs."""
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
