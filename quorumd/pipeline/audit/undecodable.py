"""Finds records that cannot be decoded although the CRC of their batch matches: a faulty writer produced them.

A copy that equals a decoded one has the same findings and is not decoded again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from quorumd.errors import InputIncomplete
from quorumd.pipeline.audit.commitment import Commitment, Pair
from quorumd.pipeline.audit.copies import Copy
from quorumd.pipeline.audit.findings import Finding, Severity
from quorumd.pipeline.copies.log_files import CopyDirectory
from quorumd.pipeline.scan.batches import read_pieces

_COLUMNS = ("offset", "epoch", "position", "fault")


class _BadRecord(NamedTuple):
    offset: int
    epoch: int
    text: str


def undecodable_records(
    directories: Mapping[int, CopyDirectory],
    copies: Mapping[int, Copy],
    pairs: Mapping[tuple[int, int], Pair],
    commitment: Commitment,
    most_records: int,
) -> Iterator[Finding]:
    """Return a finding per record that cannot be decoded, in each copy that has it.

    At most `most_records` are decoded; copies that were not are reported as INFO. Raises InputIncomplete.
    """
    decoded: dict[int, list[_BadRecord]] = {}
    left = most_records
    for node, copy in copies.items():
        same = next((peer for peer in decoded if _is_equal(copy, copies[peer], pairs)), None)
        if same is not None:
            bad = decoded[same]
        elif copy.records > left:
            detail = f"its {copy.records} records were not decoded: {left} remain of --fold-records"
            yield Finding(Severity.INFO, "NOT_DECODED", detail, node)
            continue
        else:
            left -= copy.records
            bad = decoded[node] = list(_bad_records(directories[node]))
        for record in bad:
            if copy.start_offset <= record.offset < copy.end_offset:
                yield _finding(copy, record, commitment)


def _is_equal(copy: Copy, peer: Copy, pairs: Mapping[tuple[int, int], Pair]) -> bool:
    """Return True if `peer` has all batches of `copy`, and neither copy is damaged."""
    pair = pairs[copy.node, peer.node]
    return (
        not copy.damages
        and not peer.damages
        and peer.start_offset <= copy.start_offset
        and pair.parts_at >= copy.end_offset
    )


def _bad_records(directory: CopyDirectory) -> Iterator[_BadRecord]:
    # Imported on first use: the decoder takes as long to import as the rest of the audit.
    from quorumd.pipeline.decode.records import decode_records

    for segment in directory.segments:
        try:
            for data, position, scanned in read_pieces(segment.path, base_offset=segment.base_offset):
                rows = decode_records(data, scanned.batches, directory.node, segment.name, position, _COLUMNS)
                for row in rows.filter(rows.column("fault").is_valid()).to_pylist():
                    yield _BadRecord(row["offset"], row["epoch"], row["fault"])
        except OSError as error:
            raise InputIncomplete(
                f"{segment.path} of node {directory.node} cannot be read: {error.strerror}"
            ) from None


def _finding(copy: Copy, record: _BadRecord, commitment: Commitment) -> Finding:
    segment = next(part.segment for part in reversed(copy.parts) if part.base_offset <= record.offset)
    committed = record.offset < commitment.up_to
    return Finding(
        Severity.CRITICAL if committed else Severity.WARNING, "UNDECODABLE_RECORD", record.text, copy.node,
        segment=segment, offset_lo=record.offset, offset_hi=record.offset + 1, epoch_lo=record.epoch,
        epoch_hi=record.epoch, committed=committed,
    )  # fmt: skip
