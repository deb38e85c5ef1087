"""The producer snapshots of a log: one per segment, and one from the last clean shutdown."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from quorumd.broker.log.producer_snapshot import decode_snapshot, encode_snapshot, snapshot_path
from quorumd.broker.log.producer_state import ProducerStates
from quorumd.errors import MalformedMessage
from quorumd.log.atomic_file import read_whole
from quorumd.ports import Disk

logger = logging.getLogger("quorumd.broker.log")


class ProducerSnapshots:
    """The snapshot files of a log, by ascending `end_offsets`. Methods raise OSError."""

    __slots__ = ("_disk", "directory", "end_offsets")

    def __init__(self, disk: Disk, directory: str, end_offsets: Iterable[int]) -> None:
        self._disk = disk
        self.directory = directory
        self.end_offsets = sorted(end_offsets)

    def write(self, end_offset: int, states: ProducerStates, synced: bool = False) -> None:
        """Save the producer state at the log end offset.

        A crash may lose or damage the file unless it and the directory are synced; the CRC detects damage.
        """
        content = encode_snapshot(states.entries.values())
        file = self._disk.open(snapshot_path(self.directory, end_offset), create=True)
        try:
            file.truncate(0)
            file.write_at(0, content)
            if synced:
                file.sync()
        finally:
            file.close()
        if end_offset not in self.end_offsets[-1:]:
            self.end_offsets.append(end_offset)

    def load_newest(self, max_offset: int, states: ProducerStates) -> int:
        """Load the newest valid snapshot at or below `max_offset`, and return its end offset.

        Returns -1 and clears `states` if there is none.
        """
        states.load(())
        for end_offset in reversed(self.end_offsets):
            if end_offset > max_offset:
                continue
            path = snapshot_path(self.directory, end_offset)
            try:
                states.load(decode_snapshot(read_whole(self._disk, path) or b""))
            except MalformedMessage as fault:
                logger.info("ignoring producer snapshot %s: %s", path, fault)
                continue
            return end_offset
        return -1

    def remove_above(self, end_offset: int) -> None:
        """Remove the snapshots above the log end offset; durable once the directory is synced."""
        while self.end_offsets and self.end_offsets[-1] > end_offset:
            self._remove(self.end_offsets.pop())

    def remove_below(self, offset: int) -> None:
        """Remove the snapshots below the first segment."""
        while self.end_offsets and self.end_offsets[0] < offset:
            self._remove(self.end_offsets.pop(0))

    def _remove(self, end_offset: int) -> None:
        path = snapshot_path(self.directory, end_offset)
        if self._disk.exists(path):
            self._disk.remove(path)
