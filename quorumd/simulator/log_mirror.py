"""The checkers' own copies of logs: what a node reads of its log, and what its disk would keep in a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from quorumd.protocol.record_batch import headers
from quorumd.simulator.disk import SimulatedDisk


class Batch(NamedTuple):
    """One RecordBatch as it is in a log: offsets as in its header, `data` all of its bytes."""

    base_offset: int
    end_offset: int
    epoch: int
    is_control: bool
    data: bytes


class LogChange(NamedTuple):
    """What happened to a log since the last look: first a cut, then appends."""

    removed: Sequence[Batch]
    """The batches that are gone, oldest first."""
    appended: Sequence[Batch]


READ_BYTES = 1 << 20


class LogMirror:
    """A node's log in memory, brought up to date by reading only what is new."""

    def __init__(self, start_offset: int = 0) -> None:
        self.batches: list[Batch] = []
        self._start_offset = start_offset

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else self._start_offset

    def refresh(self, read: Callable[[int, int], bytes]) -> LogChange:
        """Look at the log through `read(offset, limit)`, `SegmentedLog.read`."""
        removed: list[Batch] = []
        while self.batches and not read(self.batches[-1].base_offset, 1).startswith(self.batches[-1].data):
            removed.append(self.batches.pop())
        removed.reverse()
        appended: list[Batch] = []
        while data := read(self.end_offset, READ_BYTES):
            found = batches_in(data)
            self.batches += found
            appended += found
        return LogChange(removed, appended)


def batches_in(data: bytes) -> list[Batch]:
    """The batches that `data` is made of."""
    return [
        Batch(
            header.base_offset,
            header.end_offset,
            header.epoch,
            header.is_control,
            data[header.position : header.position + header.size],
        )
        for header in headers(data)
    ]


class DurableLog:
    """How far a disk is certain to hold the batches of a given log, whatever crash comes next."""

    def __init__(self, disk: SimulatedDisk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._found: list[tuple[Batch, str, int]] = []
        """Batch, segment file and position, as last seen."""
        self._cuts = 0

    def holds(self, batches: Sequence[Batch]) -> int:
        """How many of these batches, the first of a log, are durable without a gap."""
        found = self._found
        if self._disk.cuts != self._cuts:
            self._cuts = self._disk.cuts
            found.clear()
        while found and (len(found) > len(batches) or not self._is_at(*found[-1])):
            found.pop()
        while (
            found and found[-1][0] is not batches[len(found) - 1] and found[-1][0] != batches[len(found) - 1]
        ):
            found.pop()
        while len(found) < len(batches):
            batch = batches[len(found)]
            segment, position = self._next_place(batch)
            if not self._is_at(batch, segment, position):
                break
            found.append((batch, segment, position))
        return len(found)

    def _next_place(self, batch: Batch) -> tuple[str, int]:
        if self._found:
            before, segment, position = self._found[-1]
            if self._is_at(batch, segment, position + len(before.data)):
                return segment, position + len(before.data)
        return f"{self._folder}/{batch.base_offset:020d}.log", 0

    def _is_at(self, batch: Batch, segment: str, position: int) -> bool:
        return self._disk.certain_bytes(segment, position, len(batch.data)) == batch.data
