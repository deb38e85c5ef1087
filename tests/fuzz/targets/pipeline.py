"""The data pipeline's decoders of logs to arrays and Arrow, compared with the node's codec."""

from __future__ import annotations

import pyarrow as pa

from quorumd.pipeline.decode import decode_records, plain_rows, with_faults
from quorumd.pipeline.scan.batches import START, Fault, scan
from quorumd.pipeline.tables.row_text import csv_lines, json_lines
from tests.fuzz.target import Target
from tests.fuzz.targets.wire import batches, mend_batches

PIECE = 700


def _decode(data: bytes) -> None:
    """The decoded records equal the records that the codec decodes, and every row is formatted as one line."""
    scanned = scan(data)
    rows = decode_records(data, scanned.batches, 1, "fuzz", 0)
    expected = pa.RecordBatch.from_pylist(plain_rows(data, scanned.batches, 1, "fuzz", 0), rows.schema)
    assert rows.equals(expected), "the codec decodes other records"
    shown = with_faults(rows, scanned.faults, 1, "fuzz")
    assert shown.num_rows == rows.num_rows + len(scanned.faults)
    assert len(json_lines(shown)) == len(csv_lines(shown)) == shown.num_rows


def _scan_in_pieces(data: bytes) -> None:
    """A scan in pieces finds the same batches and faults as a scan of the whole log."""
    whole = scan(data)
    positions: list[int] = []
    faults: list[Fault] = []
    place, size = START, PIECE
    while True:
        piece = data[place.position : place.position + size]
        scanned = scan(piece, place, len(piece) < size)
        positions += (scanned.batches.position + place.position).tolist()
        faults += scanned.faults
        if len(piece) < size:
            break
        size = PIECE if scanned.end else 2 * size
        place = scanned.next
    assert positions == whole.batches.position.tolist()
    assert faults == whole.faults


TARGETS = (
    Target("pipeline, decode", 1, batches, lambda: _decode, (), mend=mend_batches),
    Target("pipeline, scan", 1, batches, lambda: _scan_in_pieces, (), mend=mend_batches),
)
