"""The start offset of each epoch in the log, and the file `leader-epoch-checkpoint` in Kafka's checkpoint format.

    0
    <number of epochs>
    <epoch> <offset of its first record>

A log that does not start at offset 0 has one more entry, the first: the epoch of the record before its start, with
the log start offset. The file omits it if the first record has another epoch, since Kafka expects ascending offsets.

The file is written for other readers of the directory; recovery rebuilds it from the batches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from quorumd.ids import OffsetAndEpoch

FILE_NAME = "leader-epoch-checkpoint"


class EpochCache:
    """Epochs and their start offsets, both ascending."""

    __slots__ = ("_epochs", "_kept", "_starts")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._kept = 0
        """Number of leading entries that truncation keeps: 1 for a log that does not start at 0."""

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, or of the snapshot at which an empty log starts; 0 if there is neither."""
        return self._epochs[-1] if self._epochs else 0

    def add(self, epoch: int, start_offset: int) -> None:
        """Add `epoch`, higher than all others, whose first record is at `start_offset`."""
        self._epochs.append(epoch)
        self._starts.append(start_offset)

    def end_of_epoch(self, epoch: int, end_offset: int) -> OffsetAndEpoch | None:
        """The largest epoch <= `epoch` and its end, in a log that ends at `end_offset`; None if there is none."""
        index = bisect_right(self._epochs, epoch)
        if index == 0:
            return None
        end = self._starts[index] if index < len(self._starts) else end_offset
        return OffsetAndEpoch(end, self._epochs[index - 1])

    def set_start(self, start: OffsetAndEpoch) -> None:
        """Set the log start to `start.offset`; the record before it has `start.epoch`."""
        later = [
            (epoch, offset)
            for epoch, offset in zip(self._epochs, self._starts, strict=True)
            if epoch > start.epoch and offset >= start.offset
        ]
        self._epochs = [start.epoch, *(epoch for epoch, _ in later)]
        self._starts = [start.offset, *(offset for _, offset in later)]
        self._kept = 1

    def truncate(self, end_offset: int) -> bool:
        """Remove the epochs that start at or above `end_offset`; return whether there were any."""
        keep = max(bisect_left(self._starts, end_offset), self._kept)
        changed = keep < len(self._starts)
        del self._epochs[keep:]
        del self._starts[keep:]
        return changed

    def encode(self) -> bytes:
        """The content of the file."""
        begins = {start: epoch for epoch, start in zip(self._epochs, self._starts, strict=True)}
        entries = [f"{epoch} {start}\n" for start, epoch in begins.items()]
        return "".join(["0\n", f"{len(entries)}\n", *entries]).encode()
