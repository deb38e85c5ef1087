"""Follows copies of a growing log in directories: their end offsets, and the positions of offsets in files.

The driver keeps this state between checks: the active segment has no index, and is scanned only once.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import BinaryIO, NamedTuple

import numpy as np

from quorumd.errors import InputIncomplete
from quorumd.pipeline.copies.log_files import read_directories
from quorumd.pipeline.scan.batches import Batches, Place, scan_stream
from quorumd.pipeline.source.options import Interval, Selection
from quorumd.pipeline.source.pieces import scan_piece
from quorumd.pipeline.source.planning import segment_bounds
from quorumd.pipeline.source.tasks import File, Piece, may_hold, segments_of
from quorumd.protocol.batch_header import HEADER_SIZE


class Reached(NamedTuple):
    """The end offset of a copy, and the epoch of its last batch, -1 if it has none."""

    node: int
    offset: int
    epoch: int


class FollowedSegment:
    """The scanned part of the last segment of a copy."""

    def __init__(self, file: File) -> None:
        self.file = file
        self._begin()

    def _begin(self) -> None:
        self.end_offset = self.file.expected_offset
        self.epoch = -1
        self._end = 0
        """The position of the end of the last sound batch."""
        self._last_at = 0
        """The position of its start."""
        self._last_header = b""
        self._offsets: list[int] = []
        self._positions: list[int] = []

    def look(self, file: File) -> None:
        """Continue at the last sound batch; start from the beginning if the file was replaced.

        Data after the last sound batch is read again, since it may have been half written. Raises InputIncomplete if
        the file cannot be read.
        """
        self.file = file
        try:
            with open(file.path, "rb", buffering=0) as stream:
                if self._end and os.pread(stream.fileno(), HEADER_SIZE, self._last_at) != self._last_header:
                    self._begin()
                self._walk(stream)
        except OSError as error:
            raise InputIncomplete(f"{file.path} cannot be read: {error.strerror}") from None

    def bounds(self, offsets: Interval) -> tuple[int, int]:
        """Return bounds as `tasks.OffsetIndex.bounds` does."""
        first = bisect_right(self._offsets, offsets.low) - 1
        last = bisect_left(self._offsets, offsets.high)
        start = self._positions[first] if first > 0 else 0
        return start, self._positions[last] if last < len(self._positions) else self.file.size

    def _walk(self, stream: BinaryIO) -> None:
        place = Place(self._end, self.end_offset, self.epoch)
        for data, position, scanned in scan_stream(stream, place, is_growing=True):
            sound = np.flatnonzero(scanned.batches.sound)
            if len(sound):
                self._note(data, position, scanned.batches, int(sound[0]), int(sound[-1]))

    def _note(self, data: bytes, position: int, batches: Batches, first: int, last: int) -> None:
        self._offsets.append(int(batches.base_offset[first]))
        self._positions.append(position + int(batches.position[first]))
        at = int(batches.position[last])
        self._last_at, self._last_header = position + at, data[at : at + HEADER_SIZE]
        self._end = self._last_at + int(batches.size[last])
        self.end_offset = int(batches.end_offset[last])
        self.epoch = int(batches.epoch[last])


class FollowedCopy:
    """One node's copy, as of the last check."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.files: list[File] = []
        self._followed: dict[str, FollowedSegment] = {}

    @property
    def start_offset(self) -> int:
        return self.files[0].expected_offset if self.files else 0

    def look(self, files: list[File]) -> Reached:
        """Update from `files`, its current segments, and return the end of the copy."""
        self.files = files
        before, self._followed = self._followed, {}
        for file in reversed(files):
            segment = before.get(file.path) or FollowedSegment(file)
            segment.look(file)
            self._followed[file.path] = segment
            if segment.epoch >= 0:
                # A new, empty segment begins where the previous one ends.
                return Reached(self.node, segment.end_offset, segment.epoch)
        return Reached(self.node, self.start_offset, -1)

    def bounds(self, file: File, offsets: Interval) -> tuple[int, int]:
        """Return positions in a segment that enclose all batches with some of `offsets`."""
        followed = self._followed.get(file.path)
        return followed.bounds(offsets) if followed is not None else segment_bounds(file, offsets)

    def epoch_before(self, offset: int) -> int:
        """Return the epoch of the record before `offset`; -1 if this copy does not have it.

        Raises InputIncomplete if a file cannot be read.
        """
        last = Interval(offset - 1, offset)
        for file in self.files:
            if may_hold(file, Selection(offsets=last), None):
                start, end = self.bounds(file, last)
                for _, _, scanned in scan_piece(Piece(file, start, end)):
                    batches = scanned.batches
                    found = np.flatnonzero((batches.base_offset < offset) & (batches.end_offset >= offset))
                    if len(found):
                        return int(batches.epoch[found[0]])
        return -1


class FollowedDirectories:
    """The copies of one log in the directories of its nodes."""

    def __init__(self, directories: Mapping[int, str]) -> None:
        self._directories = directories
        self.copies = {node: FollowedCopy(node) for node in sorted(directories)}

    def look(self) -> Reached:
        """Return the end of the most up-to-date copy.

        Raises InputIncomplete if a directory has no log or cannot be read.
        """
        return most_up_to_date(self.look_at_each())

    def look_at_each(self) -> list[Reached]:
        """Return the ends of all copies. Raises InputIncomplete."""
        return [
            self.copies[directory.node].look(segments_of(directory.segments))
            for directory in read_directories(self._directories)
        ]


def most_up_to_date(reached: Iterable[Reached]) -> Reached:
    """Return the most up-to-date end, by the last epoch, then the end offset (Raft paper 5.4.1)."""
    return max(reached, key=lambda each: (each.epoch, each.offset, -each.node))
