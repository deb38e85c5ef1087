"""The log of a replica in the model, with an epoch and a value per offset; two logs are compared by their epochs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple

_RECORD = Struct(">iq")


class Record(NamedTuple):
    """One record."""

    epoch: int
    """The epoch of the leader that appended it."""
    value: int
    """A unique number."""


class EpochEnd(NamedTuple):
    """The offset at which the records of an epoch end."""

    epoch: int
    end_offset: int


class DataLog:
    """Records from offset 0 on, with their leader epochs."""

    __slots__ = ("epochs", "flushed", "records")

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records: list[Record] = []
        self.epochs: list[tuple[int, int]] = []
        """The leader epoch cache (KIP-101): epochs with their start offsets, both increasing."""
        self.flushed = 0
        """Records below this offset survive everything except the loss of the disk."""
        self.append(records)

    @property
    def end_offset(self) -> int:
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, -1 without one."""
        return self.records[-1].epoch if self.records else -1

    def begin_epoch(self, epoch: int) -> None:
        """Start an epoch at the end of the log. Epochs without records, and epochs that are not lower, are dropped:
        the current leader does not know them."""
        while self.epochs and (self.epochs[-1][1] >= self.end_offset or self.epochs[-1][0] >= epoch):
            self.epochs.pop()
        self.epochs.append((epoch, self.end_offset))

    def append(self, records: Iterable[Record]) -> None:
        for record in records:
            if not self.epochs or record.epoch != self.epochs[-1][0]:
                self.begin_epoch(record.epoch)
            self.records.append(record)

    def truncate(self, end_offset: int) -> None:
        """Truncate the log to `end_offset` if it is longer."""
        if end_offset < self.end_offset:
            del self.records[end_offset:]
            while self.epochs and self.epochs[-1][1] >= end_offset:
                self.epochs.pop()
            self.flushed = min(self.flushed, end_offset)

    def flush(self) -> None:
        self.flushed = self.end_offset

    def end_of(self, epoch: int) -> EpochEnd | None:
        """Return the newest known epoch that is at most `epoch`, by default `epoch` itself, and the end offset of its
        records. None if the log is empty or its last epoch is lower."""
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
        """Return where a log that ends at `end_offset` with `last_epoch` diverges from this one, None if it is a
        prefix (KIP-595, "Truncation")."""
        end = self.end_of(last_epoch)
        if end is not None and (end.epoch < last_epoch or end.end_offset < end_offset):
            return end
        return None

    def truncation_offset(self, diverging: EpochEnd) -> int:
        """Return the offset to truncate to after a leader reported a divergence. The next fetch may report another
        one."""
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
