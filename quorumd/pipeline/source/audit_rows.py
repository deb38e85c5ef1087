"""The rows of level `audit`. Records are not decoded, so the decoder is not imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from quorumd.pipeline.scan.digests import SegmentDigests
from quorumd.pipeline.source.pieces import scan_piece
from quorumd.pipeline.source.tasks import Piece
from quorumd.pipeline.tables.schemas import Table

if TYPE_CHECKING:
    import pyarrow as pa


def audit_rows(pieces: Iterable[Piece], table: Table) -> Iterator[pa.RecordBatch]:
    """Yield summaries and faults of pieces of files. Raises InputIncomplete if a file cannot be read."""
    for piece in pieces:
        file = piece.file
        base_offset = file.expected_offset if piece.start == 0 else -1
        digests = SegmentDigests(file.node, file.name, base_offset, piece.start)
        for _, position, scanned in scan_piece(piece):
            digests.add(scanned.batches, position, scanned.faults)
        yield digests.arrow().select(list(table.names))
