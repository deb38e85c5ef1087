"""The leader epoch cache of a data log and its file, `leader-epoch-checkpoint` (KIP-101).

    0
    <number of epochs>
    <epoch> <offset of its first record>

Epochs and start offsets ascend. Below the recovery point, recovery trusts the file and does not read the batches.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right

from quorumd.ids import OffsetAndEpoch

FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1
_ENTRY = re.compile(r"([0-9]{1,10}) ([0-9]{1,19})")


class LeaderEpochs:
    """Leader epochs and their start offsets, both ascending.

    A new leader starts its epoch at the log end offset before it appends the first record.
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    @property
    def last_epoch(self) -> int:
        """The newest epoch, NO_EPOCH if there is none."""
        return self._epochs[-1] if self._epochs else NO_EPOCH

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) pairs, ascending."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Start `epoch` at `start_offset`, removing conflicting entries; returns whether the cache changed."""
        epochs, starts = self._epochs, self._starts
        if epochs and epoch == epochs[-1] and start_offset >= starts[-1]:
            return False
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        return True

    def end_of_epoch(self, epoch: int, end_offset: int) -> OffsetAndEpoch | None:
        """The largest known epoch <= `epoch` and its end offset; `end_offset` is the log end offset.

        For an epoch below all known epochs, the epoch itself and the start offset of the first known epoch. None for
        an epoch above the last one, and for NO_EPOCH.
        """
        epochs = self._epochs
        if epoch == NO_EPOCH or not epochs or epoch > epochs[-1]:
            return None
        if epoch == epochs[-1]:
            return OffsetAndEpoch(end_offset, epoch)
        index = bisect_right(epochs, epoch)
        return OffsetAndEpoch(self._starts[index], epochs[index - 1] if index else epoch)

    def epoch_of(self, offset: int) -> int:
        """The epoch of the record at `offset`, NO_EPOCH if unknown."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else NO_EPOCH

    def truncate(self, end_offset: int) -> bool:
        """Remove the epochs that start at or above `end_offset`; returns whether the cache changed."""
        keep = bisect_left(self._starts, end_offset)
        changed = keep < len(self._starts)
        del self._epochs[keep:]
        del self._starts[keep:]
        return changed

    def set_start(self, start_offset: int) -> bool:
        """Start the first epoch at the raised log start offset; returns whether the cache changed."""
        index = bisect_right(self._starts, start_offset) - 1
        if index < 0 or (index == 0 and self._starts[0] == start_offset):
            return False
        del self._epochs[:index]
        del self._starts[:index]
        self._starts[0] = start_offset
        return True

    def encode(self) -> bytes:
        """Encode the content of the file."""
        lines = [f"{epoch} {start}\n" for epoch, start in self.entries()]
        return "".join(["0\n", f"{len(lines)}\n", *lines]).encode()

    def decode(self, content: bytes) -> bool:
        """Load the content of the file; returns False, without a change, if it is invalid."""
        lines = content.decode("utf-8", "replace").splitlines()
        if lines[:1] != ["0"] or len(lines) < 2 or lines[1] != str(len(lines) - 2):
            return False
        found = [(int(match[1]), int(match[2])) for line in lines[2:] if (match := _ENTRY.fullmatch(line))]
        epochs, starts = [epoch for epoch, _ in found], [start for _, start in found]
        if len(found) != len(lines) - 2 or epochs != sorted(set(epochs)) or starts != sorted(set(starts)):
            return False
        self._epochs, self._starts = epochs, starts
        return True
