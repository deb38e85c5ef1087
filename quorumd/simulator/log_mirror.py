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
        batches = self.batches
        removed: list[Batch] = []
        # One read shows that the last batch is still there and what came behind it.
        data = b""
        while batches:
            last = batches[-1]
            data = read(last.base_offset, READ_BYTES)
            if data.startswith(last.data):
                data = data[len(last.data) :]
                break
            removed.append(batches.pop())
            data = b""
        removed.reverse()
        appended: list[Batch] = []
        while data or (data := read(self.end_offset, READ_BYTES)):
            found = batches_in(data)
            batches += found
            appended += found
            data = b""
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
        while found and not self._is_at(*found[-1]):
            found.pop()
        if batches and len(found) >= len(batches) and found[len(batches) - 1][0] == batches[-1]:
            return len(batches)
        while found and (len(found) > len(batches) or found[-1][0] != batches[len(found) - 1]):
            found.pop()
        if len(found) < len(batches):
            self._find(batches)
        return len(found)

    def _find(self, batches: Sequence[Batch]) -> None:
        """Look for the batches behind those that were found: in the same segment, or at the start of the next."""
        found = self._found
        segment, position, file = "", 0, None
        if found:
            last, segment, start = found[-1]
            position, file = start + len(last.data), self._disk.certain_file(segment)
        for index in range(len(found), len(batches)):
            batch = batches[index]
            if file is None or not file.holds(batch.data, position):
                segment, position = f"{self._folder}/{batch.base_offset:020d}.log", 0
                file = self._disk.certain_file(segment)
                if file is None or not file.holds(batch.data, position):
                    return
            found.append((batch, segment, position))
            position += len(batch.data)

    def _is_at(self, batch: Batch, segment: str, position: int) -> bool:
        file = self._disk.certain_file(segment)
        return file is not None and file.holds(batch.data, position)
