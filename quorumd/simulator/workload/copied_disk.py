"""A copy of the files of a running node, with a model of what recovery must find in it."""

from __future__ import annotations

from bisect import bisect_right
from random import Random

from quorumd.ids import OffsetAndEpoch
from quorumd.log.high_watermark_checkpoint import HighWatermarkCheckpoint
from quorumd.log.meta_properties import partition_directory
from quorumd.log.segment import LOG_SUFFIX, parse_base_offset
from quorumd.log.snapshot_file import file_name, parse_snapshot_name
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import DATA_DIRECTORY
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import Process

PARTITION = partition_directory(DATA_DIRECTORY)


class CopiedDisk:
    """A copy of the files of a running node, and a model of its log and snapshots.

    Damage is done with the methods, which update files and model, or to `disk` if it must not matter.
    """

    def __init__(self, cluster: Cluster, machine: Machine) -> None:
        self.disk = SimulatedDisk(cluster.heap, Random(0))
        self.disk.exchange(machine.disk.copy())
        self.disk.mount(Process("copy"))
        self.settings = cluster.settings(machine)
        names = self.disk.list_directory(PARTITION)
        self.bases = [base for base in map(parse_base_offset, names) if base is not None]
        """The base offsets of the segments, ascending."""
        found = [snapshot for snapshot in map(parse_snapshot_name, names) if snapshot is not None]
        self.snapshots = [snapshot for snapshot in found if snapshot.offset > 0]
        """The undamaged snapshots, ascending."""
        batches = machine.mirror.batches
        self.batches = [batch for batch in batches if batch.base_offset >= self.bases[0]]
        """The batches in the segments."""
        self.known = HighWatermarkCheckpoint(self.disk, DATA_DIRECTORY).load()
        """The offset below which records are known to be committed."""
        self.end = self.batches[-1].end_offset if self.batches else self.bases[0]
        """Where the undamaged part of the segments ends."""
        self.empty = set(self.bases) - {self.segment_of(batch.base_offset) for batch in self.batches}
        """The base offsets of the segments without any data."""

    def segment_of(self, offset: int) -> int:
        """Return the base offset of the segment that has, or would have, the record at `offset`."""
        return self.bases[bisect_right(self.bases, offset) - 1]

    def size_below(self, end: int) -> int:
        """Return the size of the batches below `end` in the segment of the batch that begins there."""
        base = self.segment_of(end)
        return sum(len(batch.data) for batch in self.batches if base <= batch.base_offset < end)

    @property
    def boundaries(self) -> list[int]:
        """The offsets at which the log could end, ascending."""
        return [self.bases[0], *(batch.end_offset for batch in self.batches)]

    def cut(self, end: int, surplus: int = 0) -> None:
        """Let the log end at a batch boundary, or `surplus` bytes after it."""
        base, size = self.segment_of(end), self.size_below(end)
        for other in [other for other in self.bases if other > base]:
            self.lose_segment(other)
        file = self.disk.open(segment_path(base))
        file.truncate(size + surplus)
        self.end = end
        if not any(file.read_at(0, size + surplus)):
            self.empty.add(base)
        file.close()

    def lose_segment(self, base: int) -> None:
        """Remove a segment that is not the first one."""
        self.disk.remove(segment_path(base))
        self.bases.remove(base)
        self.empty.discard(base)
        self.end = min(self.end, base)

    def add_empty_segment(self, base: int) -> None:
        """Create a segment, as the installation of a snapshot does first."""
        self.write(segment_path(base), 0, b"")
        self.empty.add(base)

    def write(self, path: str, position: int, data: bytes) -> None:
        """Write to a file, which is created if it does not exist."""
        file = self.disk.open(path, create=True)
        if data:
            file.write_at(position, data)
        file.close()

    def replace(self, path: str, data: bytes) -> None:
        """Replace the content of a file."""
        file = self.disk.open(path, create=True)
        file.truncate(0)
        file.close()
        self.write(path, 0, data)

    def recovered_end(self) -> int | None:
        """Return the log end offset after recovery; None if the files must be refused."""
        end, snapshots = self.end, self.snapshots
        epoch = max((batch.epoch for batch in self.batches if batch.end_offset <= end), default=0)
        newest = snapshots[-1] if snapshots else OffsetAndEpoch(0, 0)
        is_ahead = (newest.epoch, newest.offset) > (epoch, end) and (newest.offset, 0) != (end, epoch)
        if is_ahead and (end >= self.known or newest.offset in self.empty):
            return newest.offset if newest.offset >= self.known else None
        first = self.bases[0]
        is_covered = first == 0 or any(first <= snapshot.offset <= end for snapshot in snapshots)
        return end if is_covered and end >= self.known else None


def segment_path(base: int) -> str:
    return f"{PARTITION}/{base:020d}{LOG_SUFFIX}"


def snapshot_path(snapshot: OffsetAndEpoch) -> str:
    return f"{PARTITION}/{file_name(snapshot)}"
