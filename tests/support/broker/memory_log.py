"""A log of records in memory, for replicas under test."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from quorumd.ids import OffsetAndEpoch

_RECORD = Struct(">qii")
"""Offset, leader epoch, value."""


class MemoryLog:
    """Satisfies `ReplicaLog`. `MemoryLog([1, 1, 2])` has three records, of leader epochs 1, 1 and 2."""

    def __init__(self, epochs: Iterable[int] = (), start_offset: int = 0) -> None:
        self.start_offset = start_offset
        self.records: list[tuple[int, int]] = []
        """(leader epoch, value)"""
        self._first = start_offset
        self._epochs: list[tuple[int, int]] = []
        for epoch in epochs:
            self.append(epoch, -len(self.records))

    @property
    def end_offset(self) -> int:
        return self._first + len(self.records)

    @property
    def last_epoch(self) -> int:
        return self._epochs[-1][0] if self._epochs else -1

    @property
    def epochs(self) -> list[int]:
        return [epoch for epoch, _ in self.records]

    def append(self, epoch: int, value: int = 0) -> None:
        """Append a record as the leader of an epoch."""
        if epoch != self.last_epoch:
            self.start_epoch(epoch)
        self.records.append((epoch, value))

    def start_epoch(self, epoch: int) -> None:
        while self._epochs and (self._epochs[-1][0] >= epoch or self._epochs[-1][1] >= self.end_offset):
            self._epochs.pop()
        self._epochs.append((epoch, self.end_offset))

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        if epoch < 0 or epoch > self.last_epoch:
            return None
        floor = epoch
        for known, start in self._epochs:
            if known > epoch:
                return OffsetAndEpoch(start, floor)
            floor = known
        return OffsetAndEpoch(self.end_offset, floor)

    def read(self, offset: int, end_offset: int) -> bytes:
        """Return the records from `offset` to `end_offset`, for a follower."""
        return b"".join(_RECORD.pack(at, *self.records[at - self._first]) for at in range(offset, end_offset))

    def append_as_follower(self, records: bytes, now_ms: float) -> int:
        for offset, epoch, value in _RECORD.iter_unpack(records):
            assert offset == self.end_offset, "a gap or a repeated record"
            self.append(epoch, value)
        return self.end_offset

    def truncate(self, end_offset: int) -> None:
        del self.records[max(0, end_offset - self._first) :]
        self._epochs = [(epoch, start) for epoch, start in self._epochs if start < end_offset]

    def reset(self, start_offset: int) -> None:
        self.records.clear()
        self._epochs.clear()
        self._first = self.start_offset = start_offset

    def delete_before(self, offset: int) -> None:
        self.start_offset = offset
