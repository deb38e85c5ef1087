"""Walk over the batches in memory: iterate over their headers, or find the valid prefix.

Everything that reads whole headers does it with `scan` or `headers`. `quorumd.log.batch_extents` finds boundaries in
bytes of the local log by three fields of each batch; the pipeline scans columns of batches with numpy.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorumd.errors import MalformedMessage
from quorumd.protocol.batch_header import (
    HEADER_SIZE,
    BatchHeader,
    IncompleteBatch,
    crc_is_valid,
    read_header,
)


class BatchRules:
    """Conditions of a batch that follows others. These accept every valid header; subclasses add theirs."""

    def fault_in(self, data: bytes, header: BatchHeader) -> str:
        """Return why the batch is invalid; "" if it is valid, and the next one is compared with it."""
        return ""


class Gapless(BatchRules):
    """The rules of the metadata log and of its snapshots.

    A matching CRC, as many records as offsets, offsets without a gap (from `expected_offset` unless it is None) and
    epochs that never decrease (from `min_epoch`).
    """

    def __init__(self, expected_offset: int | None = None, min_epoch: int = 0) -> None:
        self.expected_offset = expected_offset
        self.min_epoch = min_epoch

    def fault_in(self, data: bytes, header: BatchHeader) -> str:
        base_offset, end_offset, expected_offset = header.base_offset, header.end_offset, self.expected_offset
        if expected_offset is not None and base_offset != expected_offset:
            return f"offset {expected_offset} was expected"
        if header.count != end_offset - base_offset:
            return f"{header.count} records for {end_offset - base_offset} offsets"
        if header.epoch < self.min_epoch:
            return f"epoch {header.epoch} after epoch {self.min_epoch}"
        if not crc_is_valid(data, header):
            return "the CRC does not match"
        self.expected_offset = end_offset
        self.min_epoch = header.epoch
        return ""


class Ascending(BatchRules):
    """The rules of a partition's log, in which compaction leaves gaps.

    A matching CRC unless `with_crc` is False, at most as many records as offsets, and offsets that ascend from
    `min_offset` on.
    """

    def __init__(self, min_offset: int = 0, with_crc: bool = True) -> None:
        self.min_offset = min_offset
        self.with_crc = with_crc

    def fault_in(self, data: bytes, header: BatchHeader) -> str:
        base_offset, end_offset = header.base_offset, header.end_offset
        if base_offset < self.min_offset:
            return f"the log already ends at offset {self.min_offset}"
        if header.count > end_offset - base_offset:
            return f"{header.count} records for {end_offset - base_offset} offsets"
        if self.with_crc and not crc_is_valid(data, header):
            return "the CRC does not match"
        self.min_offset = end_offset
        return ""


class Scan:
    """The result of `scan`: the batches of the valid prefix, its end, and why it ends there.

    `fault` is "" if nothing follows, or only zeros (preallocated blocks). `incomplete`: whether the data ends inside
    a batch that is valid so far and has at least `needed_bytes` bytes from `end`. A caller that reads a file in
    chunks continues from there, and treats it as a fault only at the end of the file.
    """

    __slots__ = ("end", "fault", "headers", "needed_bytes")

    def __init__(self, headers: list[BatchHeader], end: int, fault: str, needed_bytes: int = 0) -> None:
        self.headers = headers
        self.end = end
        self.fault = fault
        self.needed_bytes = needed_bytes

    @property
    def incomplete(self) -> bool:
        return self.needed_bytes > 0


def headers(data: bytes, start: int = 0) -> Iterator[BatchHeader]:
    """Iterate over the headers of the batches from `start` to the end of `data` or to trailing zeros.

    The CRCs are not checked. Raises MalformedMessage for anything else, with its position, and IncompleteBatch for a
    truncated last batch.
    """
    position = start
    while (header := _whole_batch(data, position)) is not None:
        yield header
        position += header.size


def scan(data: bytes, rules: BatchRules, start: int = 0) -> Scan:
    """Find the longest prefix of whole batches from `start` that satisfy the rules. Raises nothing."""
    found: list[BatchHeader] = []
    position = start
    try:
        while (header := _whole_batch(data, position)) is not None:
            if fault := rules.fault_in(data, header):
                return Scan(found, position, f"{_name_of(header)}: {fault}")
            found.append(header)
            position += header.size
    except IncompleteBatch as incomplete:
        return Scan(found, position, str(incomplete), incomplete.needed_bytes)
    except MalformedMessage as malformed:
        return Scan(found, position, str(malformed))
    return Scan(found, position, "")


def validate(data: bytes, rules: BatchRules) -> list[BatchHeader]:
    """Validate bytes received from another node, and return their batch headers.

    Valid bytes are whole batches that satisfy the rules, and nothing else. The records are covered by the CRC and not
    parsed. Raises MalformedMessage.
    """
    scanned = scan(data, rules)
    if scanned.fault or scanned.end != len(data):
        raise MalformedMessage(scanned.fault or f"only zeros from position {scanned.end}")
    return scanned.headers


def _whole_batch(data: bytes, position: int) -> BatchHeader | None:
    """Return the header of the batch at `position`, which is whole in `data`.

    None at the end of `data` and where only zeros follow. Raises MalformedMessage, or IncompleteBatch if it is
    truncated.
    """
    if position >= len(data):
        return None
    try:
        header = read_header(data, position)
    except MalformedMessage:
        # Checked here, not before, because it is rare. A header is never all zeros because of its magic.
        if any(data[position : position + HEADER_SIZE]):
            raise
        return None
    if position + header.size > len(data):
        raise IncompleteBatch(
            f"{_name_of(header)}: it has {header.size} bytes, only {len(data) - position} are present",
            header.size,
        )
    return header


def _name_of(header: BatchHeader) -> str:
    return f"batch at position {header.position} (offset {header.base_offset})"
