"""Reads single batches and buckets of a copy again from its files, where the rows of the audit require it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from quorumd.errors import InputIncomplete
from quorumd.pipeline.audit.copies import Copy, Mark
from quorumd.pipeline.copies.log_files import CopyDirectory
from quorumd.pipeline.scan.batches import Batches, Place, scan
from quorumd.pipeline.scan.digests import BUCKET_BITS


class DirectoryReader:
    """Reads from the copies in these directories, by node. Methods raise InputIncomplete if a file cannot be read."""

    def __init__(self, directories: Mapping[int, CopyDirectory]) -> None:
        self._paths = {
            (node, s.name): s.path for node, directory in directories.items() for s in directory.segments
        }

    def bucket(self, copy: Copy, bucket: int) -> list[Batches]:
        """Return the batches of a copy that begin in a bucket, including damaged ones."""
        found = []
        for segment, position, size in copy.stretches.get(bucket, ()):
            # A damaged stretch also has bytes that belong to no batch.
            broken = sum(d.bytes for d in copy.damages if d.segment == segment and d.position >= position)
            data = self.bytes_at(copy, segment, position, size + broken)
            batches = scan(data, Place(position)).batches
            found.append(batches.select(batches.base_offset >> BUCKET_BITS == bucket))
        return found

    def batch(self, copy: Copy, mark: Mark) -> bytes:
        """Return the bytes of a batch."""
        return self.bytes_at(copy, mark.segment, mark.position, mark.bytes)

    def bytes_at(self, copy: Copy, segment: str, position: int, size: int) -> bytes:
        """Return `size` bytes of a segment from `position`, fewer at its end."""
        path = self._paths[copy.node, segment]
        try:
            with Path(path).open("rb") as file:
                file.seek(position)
                return file.read(size)
        except OSError as error:
            raise InputIncomplete(f"{path} cannot be read at position {position}: {error.strerror}") from None
