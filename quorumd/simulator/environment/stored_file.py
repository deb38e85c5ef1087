"""The content of a file: its durable part, and the writes since the last sync.

A crash applies a random subset of the unsynced changes, like a disk with a write cache: each written sector
survives or not independently of the order of writes; size changes survive in order, like in a journal.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

SECTOR_BYTES = 512
"""The largest unit that a disk writes atomically."""


@dataclass(slots=True)
class Write:
    position: int
    data: bytes


@dataclass(slots=True)
class Resize:
    """`truncate` cuts or extends; `allocate` only extends."""

    size: int
    only_extends: bool


@dataclass(slots=True)
class Loss:
    """The losses of a crash in one file or directory; counted in the report."""

    lost_sectors: int = 0
    torn_writes: int = 0
    overtaking_sectors: int = 0
    """Sectors that survived although an earlier write to the same file did not."""
    lost_resizes: int = 0
    lost_names: int = 0
    lost_renames: int = 0

    def add(self, other: Loss) -> None:
        self.lost_sectors += other.lost_sectors
        self.torn_writes += other.torn_writes
        self.overtaking_sectors += other.overtaking_sectors
        self.lost_resizes += other.lost_resizes
        self.lost_names += other.lost_names
        self.lost_renames += other.lost_renames


class StoredFile:
    """An inode: `content` is the view of processes, `durable` the state after the last sync."""

    __slots__ = ("content", "corrupt", "durable", "pending")

    def __init__(self) -> None:
        self.corrupt: dict[int, int] = {}
        """The inverted bits of corrupted bytes, by position."""
        self.content = bytearray()
        self.durable = bytearray()
        self.pending: list[Write | Resize] = []

    def copy(self) -> StoredFile:
        """Return a durable copy."""
        copy = StoredFile()
        copy.content = bytearray(self.content)
        copy.durable = bytearray(self.content)
        return copy

    def read(self, position: int, length: int) -> bytes:
        data = self.content[position : position + length]
        for at, bits in self.corrupt.items():
            if 0 <= at - position < len(data):
                data[at - position] ^= bits
        return bytes(data)

    def write(self, position: int, data: bytes) -> None:
        self._change(Write(position, data))

    def truncate(self, size: int) -> None:
        self._change(Resize(size, only_extends=False))

    def allocate(self, size: int) -> None:
        self._change(Resize(size, only_extends=True))

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def durable_bytes(self) -> int:
        """Return the length of the prefix of `durable` that survives every crash now."""
        certain = len(self.durable)
        if not self.pending:
            return certain
        for change in self.pending:
            if isinstance(change, Write):
                certain = min(certain, change.position)
            elif not change.only_extends:
                certain = min(certain, change.size)
        return certain

    def durable_prefix(self, length: int) -> bytes:
        """Return up to `length` bytes of the durable prefix."""
        return bytes(self.durable[: min(length, self.durable_bytes())])

    def holds(self, data: bytes, position: int) -> bool:
        """Whether `data` at this position survives every crash now."""
        return position + len(data) <= self.durable_bytes() and self.durable.startswith(data, position)

    def crash(self, random: Random) -> Loss:
        """Drop the page cache: synced data stays, and a random part of the other changes survives."""
        loss = Loss()
        # Crashes that lose everything, nothing or a part are all likely, since they find different bugs.
        survival = random.choice((0.0, 1.0, random.random(), random.random()))
        resizes = sum(isinstance(change, Resize) for change in self.pending)
        surviving_resizes = resizes if survival == 1.0 else int((resizes + 1) * random.random() * survival)
        loss.lost_resizes = resizes - surviving_resizes
        for change in self.pending:
            if isinstance(change, Resize):
                if surviving_resizes > 0:
                    _apply(self.durable, change)
                    surviving_resizes -= 1
                continue
            sectors = _sectors(change)
            survivors = 0
            for sector in sectors:
                if survival == 1.0 or random.random() < survival:
                    _apply(self.durable, sector)
                    survivors += 1
                    loss.overtaking_sectors += loss.lost_sectors > 0
                else:
                    loss.lost_sectors += 1
            loss.torn_writes += 0 < survivors < len(sectors)
        self.pending.clear()
        self.content = bytearray(self.durable)
        return loss

    def _change(self, change: Write | Resize) -> None:
        self.pending.append(change)
        _apply(self.content, change)


def _apply(target: bytearray, change: Write | Resize) -> None:
    if isinstance(change, Write):
        if len(target) < change.position:
            target.extend(bytes(change.position - len(target)))
        target[change.position : change.position + len(change.data)] = change.data
    elif change.size > len(target):
        target.extend(bytes(change.size - len(target)))
    elif not change.only_extends:
        del target[change.size :]


def _sectors(write: Write) -> list[Write]:
    """Split a write at the file's sector boundaries."""
    pieces = []
    start, end = write.position, write.position + len(write.data)
    while start < end:
        boundary = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
        pieces.append(Write(start, write.data[start - write.position : boundary - write.position]))
        start = boundary
    return pieces
