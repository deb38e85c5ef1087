"""Reads pieces of files, or fetched data, as requested batches and relevant faults.

A fault is reported if its offsets are requested, by the task with the first of them: the result for a range does not
depend on how much is read around it, nor on the number of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quorumd.errors import InputIncomplete, MalformedMessage
from quorumd.pipeline.scan.batches import START, Batches, Fault, Place, Scanned, read_pieces, scan
from quorumd.pipeline.source.options import EVERY_OFFSET, Interval, Selection
from quorumd.pipeline.source.tasks import File, Piece
from quorumd.protocol.batch_header import read_header
from quorumd.protocol.control_record import ControlType, control_type
from quorumd.protocol.record_batch import records


class Origin(NamedTuple):
    """The source of bytes. `segment` is None if they were fetched from a live node."""

    node: int
    segment: str | None
    path: str
    """The file or address, for messages."""
    snapshot: tuple[int, int] | None = None


class Read(NamedTuple):
    """Some megabytes of `origin`, with their requested batches and faults."""

    origin: Origin
    data: bytes
    position: int
    """The position of `data` in the file; relative to the start of the fetch for fetched data."""
    batches: Batches
    faults: list[Fault]


class Wanted(NamedTuple):
    """The data that a task returns.

    `requested` is exact. `pushed` only prunes, since Spark filters the result again. `part` is the task's part of the
    offsets if several tasks divide them.
    """

    requested: Selection = Selection()
    pushed: Selection = Selection()
    part: Interval = EVERY_OFFSET
    by_base_offset: bool = False
    """A batch belongs only to the range that has its base offset; otherwise to every range that it overlaps."""
    with_torn_tail: bool = False
    """Report data after the last complete batch of a copy as a fault."""

    def mask(self, batches: Batches) -> npt.NDArray[np.bool_]:
        requested, pushed = self.requested, self.pushed
        low, high = self.offsets.low, self.offsets.high
        # Treat each batch as its first offset only.
        ends = batches.base_offset + 1 if self.by_base_offset else batches.end_offset
        mask = (ends > low) & (batches.base_offset < high)
        mask &= within(batches.epoch, requested.epochs & pushed.epochs)
        mask &= within(batches.max_timestamp, requested.times)
        mask &= batches.max_timestamp >= pushed.times.low
        mask &= batches.base_timestamp < pushed.times.high
        return mask

    @property
    def offsets(self) -> Interval:
        return self.requested.offsets & self.pushed.offsets & self.part

    def matters(self, fault: Fault) -> bool:
        """Return True if this task has the first requested offset of a fault."""
        first = fault.offset
        if first < 0:
            return True
        low = max(self.requested.offsets.low, self.pushed.offsets.low)
        if fault.end_offset > low:
            first = max(first, low)
        return self.offsets.low <= first < self.offsets.high


def within(values: npt.NDArray[np.int64 | np.int32], interval: Interval) -> npt.NDArray[np.bool_]:
    result: npt.NDArray[np.bool_] = (values >= interval.low) & (values < interval.high)
    return result


def scan_piece(piece: Piece) -> Iterator[tuple[bytes, int, Scanned]]:
    """Scan as `scan.read_pieces` does. Raises InputIncomplete if the file cannot be read."""
    file = piece.file
    stop = piece.end if piece.end < file.size else None
    base_offset = file.expected_offset if piece.start == 0 else -1
    try:
        yield from read_pieces(file.path, piece.start, stop, base_offset)
    except OSError as error:
        raise InputIncomplete(f"{file.path} of node {file.node} cannot be read: {error.strerror}") from None


def read_piece(piece: Piece, wanted: Wanted) -> Iterator[Read]:
    """Read the batches of a piece of a file. Raises InputIncomplete if it cannot be read."""
    file = piece.file
    origin = Origin(file.node, file.name, file.path, file.snapshot)
    place = Place(piece.start, file.expected_offset if piece.start == 0 else -1)
    is_finished = False
    for data, position, scanned in scan_piece(piece):
        place = scanned.next
        if file.snapshot is not None and len(scanned.batches):
            is_finished = is_footer(data, int(scanned.batches.position[-1]))
        is_reported = not file.may_be_torn or wanted.with_torn_tail
        faults = [fault for fault in scanned.faults if is_reported or fault.code != "TORN_TAIL"]
        yield _selected(origin, data, position, scanned.batches, faults, wanted)
    wrong = _boundary_fault(file, place) if file.snapshot is None else lacking_footer(place, is_finished)
    if wrong is not None:
        yield _selected(origin, b"", place.position, scan(b"").batches, [wrong], wanted)


def is_footer(data: bytes, position: int) -> bool:
    """Return True if a batch is the footer of a snapshot (KIP-630)."""
    header = read_header(data, position)
    if not header.is_control:
        return False
    try:
        types = [control_type(record.key or b"") for record in records(data, header)]
    except MalformedMessage:
        return False
    return types[-1:] == [ControlType.SNAPSHOT_FOOTER]


def lacking_footer(place: Place, is_finished: bool) -> Fault | None:
    """Return a fault for a snapshot without a footer: it was truncated between batches."""
    if is_finished or place.expected_offset < 0:
        return None
    return Fault("TORN_TAIL", place.position, place.expected_offset, "the snapshot ends without its footer")


def _boundary_fault(file: File, place: Place) -> Fault | None:
    """Return the gap or overlap between a segment and the next one, if any."""
    expected, following = place.expected_offset, file.next_offset
    if following is None or expected < 0 or expected == following:
        return None
    text = f"the segment ends at offset {expected}, but the next one begins at {following}"
    code, first, end = "GAP", expected, following
    if following < expected:
        code, first, end = "OVERLAP", following, expected
    return Fault(code, place.position, first, text, end_offset=end)


def read_fetched(
    fetched: Iterable[tuple[Origin, bytes]], wanted: Wanted, place: Place = START
) -> Iterator[Read]:
    """Read fetched pieces of one log or snapshot from `place` on; a piece may end within a batch."""
    rest = b""
    origin: Origin | None = None
    for origin, content in fetched:
        data = rest + content if rest else content
        scanned = scan(data, place, is_last=False)
        yield _selected(origin, data, place.position, scanned.batches, scanned.faults, wanted)
        rest, place = data[scanned.end :], scanned.next
    if origin is not None and rest:
        scanned = scan(rest, place)
        yield _selected(origin, rest, place.position, scanned.batches, scanned.faults, wanted)


def _selected(
    origin: Origin, data: bytes, position: int, batches: Batches, faults: Sequence[Fault], wanted: Wanted
) -> Read:
    mask = wanted.mask(batches)
    kept = batches if mask.all() else batches.select(mask)
    return Read(origin, data, position, kept, [fault for fault in faults if wanted.matters(fault)])


def describe(origin: Origin, fault: Fault) -> str:
    """Describe a fault, its place and the remedy in one line."""
    return (
        f"{code_and_place(origin, fault)} (name the directory of another copy, which may be sound; the data source's "
        "option onCorrupt=skip continues after the damage)"
    )


def code_and_place(origin: Origin, fault: Fault) -> str:
    """Describe a fault with its file, position and offset; fetched data has no position."""
    places = [f"position {fault.position}"] if origin.segment is not None else []
    places += [f"offset {fault.offset}"] if fault.offset >= 0 else []
    return f"{', '.join([origin.path, *places])}: {fault}"
