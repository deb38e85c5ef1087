"""The rows of level `audit`: nothing is decoded, and what decodes need not be imported."""

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
    """What pieces of files are, and what is wrong with them. Raises InputIncomplete for an unreadable
    file."""
    for piece in pieces:
        file = piece.file
        base_offset = file.expected_offset if piece.start == 0 else -1
        digests = SegmentDigests(file.node, file.name, base_offset, piece.start)
        for _, position, scanned in scan_piece(piece):
            digests.add(scanned.batches, position, scanned.faults)
        yield digests.arrow().select(list(table.names))
