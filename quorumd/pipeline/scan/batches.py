"""Finds batches in a piece of a file as arrays: positions, headers and CRCs.

    scan(data, START) -> Scanned            a piece: batches, faults, and the place where the next piece begins
    read_pieces(path) -> (data, its position, Scanned), ...
                                            a whole file or a range of it, some megabytes at a time
    resync(data, start) -> position         the next batch, whatever precedes it

A piece is part of a segment or snapshot, or data fetched from a node. Batches have no marker: after damage, a
position counts as a batch only if magic, length, counts and CRC are consistent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from quorumd.pipeline.scan.chain import Positions, chain
from quorumd.pipeline.scan.crcs import computed_crcs
from quorumd.pipeline.scan.search import (
    COUNTS,
    announced_size,
    candidates,
    is_sound,
)
from quorumd.pipeline.scan.search import Data as Data
from quorumd.pipeline.scan.search import resync as resync
from quorumd.protocol.batch_header import HEADER_SIZE

_Scalar = TypeVar("_Scalar", bound=np.generic)

NO_END: Final = 2**63 - 1
"""Above any offset."""
PIECE_BYTES: Final = 4 << 20
"""Larger pieces do not fit the CPU caches during decoding."""

_FIRST_WALK: Final = 16
"""The number of batches walked at once after a damaged place."""
_GROWTH: Final = 4
_FIELDS: Final = {
    "base_offset": (0, ">i8"),
    "epoch": (12, ">i4"),
    "crc": (17, ">u4"),
    "attributes": (21, ">i2"),
    "last_offset_delta": (23, ">i4"),
    "base_timestamp": (27, ">i8"),
    "max_timestamp": (35, ">i8"),
    "count": (57, ">i4"),
}
_HEADER: Final = np.dtype(
    {
        "names": list(_FIELDS),
        "offsets": [offset for offset, _ in _FIELDS.values()],
        "formats": [kind for _, kind in _FIELDS.values()],
        "itemsize": HEADER_SIZE,
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at a position of a file.

    Codes: BAD_CRC, BAD_HEADER (impossible magic, counts or offsets), BROKEN_CHAIN (no batch at the expected
    position, but one later), TORN_TAIL (no batch later either), GAP, OVERLAP and EPOCH_REGRESSION (between
    batches), BAD_RECORD (records that cannot be delimited or decoded).
    """

    code: str
    position: int
    """The position of the batch in the file, in bytes."""
    offset: int
    """The offset of the record, or the expected base offset; -1 if unknown."""
    text: str
    size: int = 0
    """The number of unreadable bytes."""
    end_offset: int = NO_END
    """The end of the affected offsets; NO_END if unknown."""

    def __str__(self) -> str:
        """Format as in columns named `fault`."""
        return f"{self.code}: {self.text}"


@dataclass(frozen=True, slots=True)
class Batches:
    """Complete batches of a piece in order, as arrays of equal length.

    Batches with a wrong CRC are included if their headers lead to the next batch, see `sound`. Batches with
    negative offsets or counts are not.
    """

    position: npt.NDArray[np.int64]
    """The position in the piece, in bytes."""
    size: npt.NDArray[np.int32]
    base_offset: npt.NDArray[np.int64]
    end_offset: npt.NDArray[np.int64]
    epoch: npt.NDArray[np.int32]
    attributes: npt.NDArray[np.int16]
    base_timestamp: npt.NDArray[np.int64]
    max_timestamp: npt.NDArray[np.int64]
    count: npt.NDArray[np.int32]
    stored_crc: npt.NDArray[np.uint32]
    crc: npt.NDArray[np.uint32]
    """Computed over the actual bytes."""

    def __len__(self) -> int:
        return len(self.position)

    @property
    def sound(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the batches whose CRC matches."""
        sound: npt.NDArray[np.bool_] = self.crc == self.stored_crc
        return sound

    def select(self, which: npt.NDArray[np.bool_ | np.int64] | slice) -> Batches:
        """Select batches by a mask, indexes or a slice."""
        return Batches(*(getattr(self, field.name)[which] for field in fields(self)))


class Lost(NamedTuple):
    """A break in the chain of batches, after which no later batch is found yet; positions are file positions."""

    since: int
    """The position of the break."""
    announced_end: int = -1
    """The end of the broken batch if its length is correct; -1 for an impossible length."""
    is_blank: bool = False
    """Only zeros follow so far: preallocated space is a fault only if something follows it."""


class Place(NamedTuple):
    """The position in the file at which reading continues, and the batch expected there."""

    position: int = 0
    expected_offset: int = -1
    """The end offset of the previous batch; -1 if unknown."""
    epoch: int = -1
    """The epoch of the previous batch; -1 if unknown."""
    lost: Lost | None = None
    is_aligned: bool = True
    """False before the first batch of a range that begins anywhere: data before it belongs to the previous range."""


START: Final = Place()


class Scanned(NamedTuple):
    """The complete batches and faults of a piece, and the start of the next piece."""

    batches: Batches
    faults: list[Fault]
    end: int
    """The start of the next piece within this piece; 0 if a batch is larger than the piece: read a larger piece."""
    next: Place


def scan(data: Data, place: Place = START, is_last: bool = True, with_crc: bool = True) -> Scanned:
    """Find the batches of a piece that begins at `place` of its file; never raises for malformed bytes.

    With `is_last`, the file ends with the piece; otherwise, an incomplete batch at its end is left to the next piece.
    Without `with_crc`, CRCs are not computed and count as matching, which takes half the time.
    """
    piece = _Piece(data, place, is_last, with_crc)
    while piece.continues():
        pass
    return piece.scanned()


def read_pieces(
    path: str | Path,
    start: int = 0,
    stop: int | None = None,
    base_offset: int = -1,
    with_crc: bool = True,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[tuple[bytes, int, Scanned]]:
    """Yield (data, its position, its content) of a file in pieces that end between batches.

    `base_offset` is the expected offset of the first batch; -1 for any. A range [start, stop) in bytes has the
    batches from the first sound one at or after `start` up to the first sound one at or after `stop`: adjacent
    ranges have each batch once. Raises OSError.
    """
    place = Place(start, base_offset) if start == 0 else Place(start, is_aligned=False)
    with open(path, "rb", buffering=0) as stream:
        for data, position, scanned in scan_stream(stream, place, with_crc=with_crc, piece_bytes=piece_bytes):
            if stop is not None and (cut := _cut_at(scanned, stop - position)) is not None:
                yield data, position, cut
                return
            if len(scanned.batches) or scanned.faults:
                yield data, position, scanned


def scan_stream(
    stream: BinaryIO,
    place: Place,
    is_growing: bool = False,
    with_crc: bool = True,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[tuple[bytes, int, Scanned]]:
    """Yield (data, its position, its content) of an unbuffered stream from `place` to its end.

    If `is_growing`, an incomplete batch at the end is not a fault.
    """
    wanted = piece_bytes
    while True:
        stream.seek(place.position)
        data = _read(stream, wanted)
        is_end = len(data) < wanted
        scanned = scan(data, place, is_end and not is_growing, with_crc)
        yield data, place.position, scanned
        if is_end:
            return
        wanted = piece_bytes if scanned.end else 2 * wanted
        place = scanned.next


def _read(stream: BinaryIO, size: int) -> bytes:
    """Read `size` bytes unless the file ends: an unbuffered stream may return fewer at a time."""
    data: bytes = stream.read(size)
    while len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data


def _cut_at(scanned: Scanned, stop: int) -> Scanned | None:
    """Drop the data of the range that begins at `stop` of the piece; None if the piece ends before it."""
    batches = scanned.batches
    behind = np.flatnonzero((batches.position >= stop) & batches.sound)
    if not len(behind):
        return None
    first = int(behind[0])
    end = int(batches.position[first])
    place = scanned.next
    position = place.position - scanned.end + end
    # The continuity between this range and the next one is only checked here.
    continuity = ("GAP", "OVERLAP", "EPOCH_REGRESSION")
    faults = [
        fault
        for fault in scanned.faults
        if fault.position < position or (fault.position == position and fault.code in continuity)
    ]
    return Scanned(batches.select(slice(first)), faults, end, Place(position))


class _Piece:
    """The state of one scan: it follows the chain of batches, or searches for a batch after the chain broke."""

    def __init__(self, data: Data, place: Place, is_last: bool, with_crc: bool) -> None:
        self._view = memoryview(data)
        self._size = len(self._view)
        self._origin = place.position
        self._at = 0
        self._expected = place.expected_offset
        self._epoch = place.epoch
        self._lost = place.lost
        self._is_aligned = place.is_aligned
        self._is_last = is_last
        self._with_crc = with_crc
        self._most = max(1, self._size)
        self._parts: list[Batches] = []
        self._faults: list[Fault] = []

    def scanned(self) -> Scanned:
        place = Place(self._origin + self._at, self._expected, self._epoch, self._lost, self._is_aligned)
        return Scanned(_joined(self._parts), self._faults, self._at, place)

    def continues(self) -> bool:
        """Take one step; return False if the rest is left to the next piece."""
        if self._lost is not None:
            return self._find(self._lost)
        if not self._is_aligned:
            return self._find(Lost(self._origin))
        return self._follow()

    def _follow(self) -> bool:
        bounds = chain(self._view, self._at, self._size, self._most)
        batches = _headers(self._view, bounds, self._with_crc)
        trusted = self._trusted(batches, bounds)
        self._accept(batches if trusted == len(batches) else batches.select(slice(trusted)))
        self._at = int(bounds[trusted])
        if trusted == len(batches) == self._most:
            self._most *= _GROWTH
            return True
        rest = self._size - self._at
        if rest == 0:
            return False
        if not self._is_last and (rest < HEADER_SIZE or self._may_continue(bounds[trusted:])):
            return False
        if trusted == len(batches) and not any(self._view[self._at : self._at + HEADER_SIZE]):
            self._lost = Lost(self._origin + self._at, is_blank=True)
            return True
        size = announced_size(self._view, self._at)
        self._lost = Lost(self._origin + self._at, self._origin + self._at + size if size else -1)
        # After damage, walk few batches first: with much damage, they would otherwise be walked many times.
        self._most = _FIRST_WALK
        return True

    def _trusted(self, batches: Batches, bounds: Positions) -> int:
        """Return the number of batches whose positions are confirmed by their neighbours.

        A batch with a wrong CRC may have a wrong length: it is accepted if no sound batch is inside it and a
        matching one follows.
        """
        for index in np.flatnonzero(~batches.sound).tolist():
            start, end = bounds[index : index + 2].tolist()
            if resync(self._view[start + 1 : end]) >= 0 or not self._fits(
                end, int(batches.end_offset[index])
            ):
                return int(index)
        return len(batches)

    def _fits(self, at: int, offset: int) -> bool:
        """Return True if the batch at `at` can follow a damaged batch with end offset `offset`."""
        if self._size - at < HEADER_SIZE:
            return self._is_last and not any(self._view[at:])
        if not any(self._view[at : at + HEADER_SIZE]):
            return True
        size = announced_size(self._view, at)
        base_offset, _, _ = COUNTS(self._view, at)
        return size > 0 and (base_offset == offset or is_sound(self._view, at, size))

    def _may_continue(self, bounds: Positions) -> bool:
        """Return True if a larger piece could resolve the batch after the trusted ones."""
        if len(bounds) == 1:
            return announced_size(self._view, self._at) > 0
        # The batch is complete and its CRC is wrong: whether it is trusted depends on the next complete batch.
        start, end = int(bounds[0]), int(bounds[1])
        if resync(self._view[start + 1 : end]) >= 0:
            return False
        return self._size - end < HEADER_SIZE or end + announced_size(self._view, end) > self._size

    def _find(self, lost: Lost) -> bool:
        if lost.is_blank:
            if not _has_any(self._view[self._at :]):
                # A header that begins within these zeros must not be split.
                self._at = self._size if self._is_last else max(self._at, self._size - HEADER_SIZE + 1)
                return False
            lost = lost._replace(is_blank=False)
        for position, size in candidates(self._view, self._at):
            if position + size > self._size:
                if not self._is_last:
                    self._lost, self._at = self._kept(lost), position
                    return False
            elif is_sound(self._view, position, size):
                self._found(lost, position)
                return True
        if self._is_last:
            self._found(lost, -1)
            self._at = self._size
        else:
            self._lost = self._kept(lost)
            self._at = max(self._at, self._size - HEADER_SIZE + 1)
        return False

    def _kept(self, lost: Lost) -> Lost | None:
        return lost if self._is_aligned else None

    def _found(self, lost: Lost, at: int) -> None:
        """Report a lost range and continue at the batch found; -1 if there is none up to the end of the file."""
        if self._is_aligned:
            end = self._origin + (at if at >= 0 else self._size)
            following = COUNTS(self._view, at)[0] if at >= 0 else NO_END
            self._faults.append(_broken(lost, end, self._expected, following))
            self._expected = -1
        self._lost = None
        if at >= 0:
            self._is_aligned = True
            self._at = at

    def _accept(self, batches: Batches) -> None:
        """Add batches, and report faults in and between them."""
        if not len(batches):
            return
        expected = np.concatenate(([self._expected], batches.end_offset[:-1]))
        # The end offset of a damaged batch says nothing about the next one.
        expected[1:][~batches.sound[:-1]] = -1
        epochs = np.concatenate(([self._epoch], batches.epoch[:-1]))
        is_known = expected >= 0
        wrong = (is_known & (batches.base_offset != expected)) | (batches.epoch < epochs)
        wrong |= batches.count != batches.end_offset - batches.base_offset
        wrong |= _is_impossible(batches)
        for index in np.flatnonzero(wrong | ~batches.sound).tolist():
            position = self._origin + int(batches.position[index])
            self._faults += _faults_of(batches, index, position, int(expected[index]), int(epochs[index]))
        self._expected = int(batches.end_offset[-1]) if batches.sound[-1] else -1
        self._epoch = int(batches.epoch[-1])
        impossible = _is_impossible(batches)
        self._parts.append(batches.select(~impossible) if impossible.any() else batches)


def _headers(view: memoryview, bounds: Positions, with_crc: bool) -> Batches:
    positions = bounds[:-1]
    headers = np.empty(0, _HEADER)
    if len(positions):
        # Batches begin at any byte: view every byte as the start of a header and select.
        whole = np.dtype((np.void, HEADER_SIZE))
        every = np.ndarray((len(view) - HEADER_SIZE + 1,), whole, view, 0, (1,))
        headers = every[positions].view(_HEADER)

    def column(name: str, dtype: type[_Scalar]) -> npt.NDArray[_Scalar]:
        values: npt.NDArray[_Scalar] = headers[name].astype(dtype)
        return values

    base_offset = column("base_offset", np.int64)
    stored_crc = column("crc", np.uint32)
    return Batches(
        positions,
        np.diff(bounds).astype(np.int32),
        base_offset,
        base_offset + column("last_offset_delta", np.int64) + 1,
        column("epoch", np.int32),
        column("attributes", np.int16),
        column("base_timestamp", np.int64),
        column("max_timestamp", np.int64),
        column("count", np.int32),
        stored_crc,
        computed_crcs(view, bounds, stored_crc) if with_crc else stored_crc,
    )


def _is_impossible(batches: Batches) -> npt.NDArray[np.bool_]:
    return (batches.base_offset < 0) | (batches.end_offset <= batches.base_offset) | (batches.count <= 0)


def _joined(parts: list[Batches]) -> Batches:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return _headers(memoryview(b""), np.zeros(1, np.int64), with_crc=True)
    return Batches(
        *(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Batches))
    )


def _has_any(view: memoryview) -> bool:
    """Return True if any byte is not zero."""
    return bool(np.frombuffer(view, np.uint8).any())


def _broken(lost: Lost, end: int, expected_offset: int, following: int) -> Fault:
    """Describe a broken chain; `following` is the offset of the batch found at `end`, NO_END if none was found."""
    size = end - lost.since
    if following == NO_END:
        code, text = "TORN_TAIL", f"no complete batch in the last {size} bytes"
    elif end == lost.announced_end:
        code, text = "BAD_HEADER", f"{size} bytes are not a batch"
    else:
        code, text = "BROKEN_CHAIN", f"no batch for {size} bytes"
    return Fault(code, lost.since, expected_offset, text, size, following)


def _faults_of(batches: Batches, index: int, position: int, expected: int, epoch: int) -> Iterator[Fault]:
    """Yield the faults of a batch, after a batch with end offset `expected` (-1 for any offset) and this `epoch`."""
    base_offset, end_offset = int(batches.base_offset[index]), int(batches.end_offset[index])
    stored, computed = int(batches.stored_crc[index]), int(batches.crc[index])
    end = max(end_offset, base_offset + 1)
    if stored != computed:
        text = f"the computed CRC is {computed:#010x}, but {stored:#010x} is stored"
        yield Fault("BAD_CRC", position, base_offset, text, int(batches.size[index]), end)
    elif _is_impossible(batches)[index] or batches.count[index] != end_offset - base_offset:
        text = f"{batches.count[index]} records for offsets from {base_offset} to {end_offset}, exclusive"
        lost = int(batches.size[index]) if _is_impossible(batches)[index] else 0
        yield Fault("BAD_HEADER", position, base_offset, text, lost, end)
    if 0 <= expected < base_offset:
        text = f"offsets {expected} to {base_offset - 1} are missing"
        yield Fault("GAP", position, expected, text, end_offset=base_offset)
    elif base_offset < expected:
        text = f"offset {base_offset} where {expected} was expected"
        yield Fault("OVERLAP", position, base_offset, text, end_offset=expected)
    if batches.epoch[index] < epoch:
        text = f"epoch {batches.epoch[index]} after epoch {epoch}"
        yield Fault("EPOCH_REGRESSION", position, base_offset, text, end_offset=end)
