"""The log of a replica in the model, with an epoch and a value per offset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from quorumd.broker.log.leader_epochs import LeaderEpochs
from quorumd.ids import OffsetAndEpoch

_RECORD = Struct(">iq")


class Record(NamedTuple):
    """One record."""

    epoch: int
    """The epoch of the leader that appended it."""
    value: int
    """A unique number."""


class DataLog:
    """Records from offset 0 on, with their leader epochs. Satisfies `ReplicaLog`."""

    __slots__ = ("_epochs", "flushed", "records")

    start_offset: Final = 0

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records: list[Record] = []
        self.flushed = 0
        """Records below this offset survive everything except the loss of the disk."""
        self._epochs = LeaderEpochs()
        self.append(records)

    @property
    def end_offset(self) -> int:
        return len(self.records)

    @property
    def epochs(self) -> Sequence[tuple[int, int]]:
        """Leader epochs with their start offsets, both increasing."""
        return self._epochs.entries()

    @property
    def last_epoch(self) -> int:
        return self._epochs.last_epoch

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        return self._epochs.end_of_epoch(epoch, self.end_offset)

    def start_epoch(self, epoch: int) -> None:
        self._epochs.assign(epoch, self.end_offset)

    def append(self, records: Iterable[Record]) -> None:
        for record in records:
            self._epochs.assign(record.epoch, self.end_offset)
            self.records.append(record)

    def append_as_follower(self, records: bytes, now_ms: float) -> int:
        self.append(decode(records))
        return self.end_offset

    def truncate(self, end_offset: int) -> None:
        del self.records[end_offset:]
        # A leader that appended nothing has an epoch at the end of its log.
        self._epochs.truncate(end_offset)
        self.flushed = min(self.flushed, end_offset)

    def flush(self) -> None:
        self.flushed = self.end_offset

    def reset(self, start_offset: int) -> None:
        raise AssertionError(f"a leader's log starts at {start_offset}")

    def delete_before(self, offset: int) -> None:
        raise AssertionError(f"a leader's log starts at {offset}")


def encode(records: Sequence[Record]) -> bytes:
    return b"".join(_RECORD.pack(*record) for record in records)


def decode(data: bytes) -> list[Record]:
    return [Record(*fields) for fields in _RECORD.iter_unpack(data)]
