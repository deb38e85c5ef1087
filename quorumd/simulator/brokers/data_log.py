"""The log of one replica: an epoch and a value at each offset, and what epochs tell of how two logs differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple

_RECORD = Struct(">iq")


class Record(NamedTuple):
    """`epoch`: of the leader that appended it. `value`: no two records have the same."""

    epoch: int
    value: int


class EpochEnd(NamedTuple):
    """The offset at which the records of an epoch end."""

    epoch: int
    end_offset: int


class DataLog:
    """Records from offset 0 on. `flushed`: what is below survives whatever happens but the loss of the disk.

    `epochs`: (epoch, start offset), both increasing; the leader epoch cache (KIP-101).
    """

    __slots__ = ("epochs", "flushed", "records")

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records: list[Record] = []
        self.epochs: list[tuple[int, int]] = []
        self.flushed = 0
        self.append(records)

    @property
    def end_offset(self) -> int:
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        """Of the last record, -1 without one."""
        return self.records[-1].epoch if self.records else -1

    def begin_epoch(self, epoch: int) -> None:
        """An epoch begins at the end of the log. One that began without a record and that the leader of now does not
        know is forgotten: its records would have come before these."""
        while self.epochs and (self.epochs[-1][1] >= self.end_offset or self.epochs[-1][0] >= epoch):
            self.epochs.pop()
        self.epochs.append((epoch, self.end_offset))

    def append(self, records: Iterable[Record]) -> None:
        for record in records:
            if not self.epochs or record.epoch != self.epochs[-1][0]:
                self.begin_epoch(record.epoch)
            self.records.append(record)

    def truncate(self, end_offset: int) -> None:
        """Cut the log where it is longer."""
        if end_offset < self.end_offset:
            del self.records[end_offset:]
            while self.epochs and self.epochs[-1][1] >= end_offset:
                self.epochs.pop()
            self.flushed = min(self.flushed, end_offset)

    def flush(self) -> None:
        self.flushed = self.end_offset

    def end_of(self, epoch: int) -> EpochEnd | None:
        """Where the records up to this epoch end, with the newest epoch up to it; None if nothing is known of it."""
        if not self.epochs or epoch > self.epochs[-1][0]:
            return None
        if epoch == self.epochs[-1][0]:
            return EpochEnd(epoch, self.end_offset)
        floor = epoch
        for known, start in self.epochs:
            if known > epoch:
                return EpochEnd(floor, start)
            floor = known
        return None

    def divergence(self, last_epoch: int, end_offset: int) -> EpochEnd | None:
        """Where a log with that end leaves this one, None if it is a prefix of it (KIP-595, "Truncation")."""
        end = self.end_of(last_epoch)
        if end is not None and (end.epoch < last_epoch or end.end_offset < end_offset):
            return end
        return None

    def truncation_offset(self, diverging: EpochEnd) -> int:
        """Where to truncate to after a leader told that the logs diverge; the next fetch may tell it again."""
        own = self.end_of(diverging.epoch)
        if own is None:
            return min(diverging.end_offset, self.end_offset)
        if own.epoch == diverging.epoch:
            return min(own.end_offset, diverging.end_offset)
        return own.end_offset


def encode(records: Sequence[Record]) -> bytes:
    return b"".join(_RECORD.pack(*record) for record in records)


def decode(data: bytes) -> list[Record]:
    return [Record(*fields) for fields in _RECORD.iter_unpack(data)]
