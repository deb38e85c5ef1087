"""Single batches and buckets of a copy, read again from its files: what the rows of the audit point at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from quorumd.errors import InputIncomplete
from quorumd.pipeline.audit.copies import Copy, Mark
from quorumd.pipeline.copies.log_files import LogFolder
from quorumd.pipeline.scan.batches import Batches, Place, scan
from quorumd.pipeline.scan.digests import BUCKET_BITS


class FolderReader:
    """Reads what was found in these folders, by node. Its functions raise InputIncomplete for what cannot be read."""

    def __init__(self, folders: Mapping[int, LogFolder]) -> None:
        self._paths = {(node, s.name): s.path for node, folder in folders.items() for s in folder.segments}

    def bucket(self, copy: Copy, bucket: int) -> list[Batches]:
        """The batches of a copy that begin in a bucket, damaged ones as they are."""
        found = []
        for segment, position, size in copy.stretches.get(bucket, ()):
            # Among the batches of a damaged stretch lie bytes that are none.
            broken = sum(d.bytes for d in copy.damages if d.segment == segment and d.position >= position)
            data = self.bytes_at(copy, segment, position, size + broken)
            batches = scan(data, Place(position)).batches
            found.append(batches.select(batches.base_offset >> BUCKET_BITS == bucket))
        return found

    def batch(self, copy: Copy, mark: Mark) -> bytes:
        """The bytes of a batch."""
        return self.bytes_at(copy, mark.segment, mark.position, mark.bytes)

    def bytes_at(self, copy: Copy, segment: str, position: int, size: int) -> bytes:
        """Bytes of a segment, fewer at its end."""
        path = self._paths[copy.node, segment]
        try:
            with Path(path).open("rb") as file:
                file.seek(position)
                return file.read(size)
        except OSError as error:
            raise InputIncomplete(f"{path} cannot be read at position {position}: {error.strerror}") from None
