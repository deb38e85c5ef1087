"""Reads the records of a batch in steps of less than a millisecond, and keeps little of what it has read.

A client chose the records, so they may be malformed, or a thousand times as large as the batch. Keys and values are
skipped. Only snappy and lz4 are decompressed as a whole, up to the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from quorumd.broker.log.records import GZIP, NotDecoded, decompress_in_steps, gzip_pieces
from quorumd.errors import MalformedMessage
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.primitives import read_varlong

RECORDS_PER_STEP: Final = 32
_START_BYTES: Final = 41
"""The most bytes from the length of a record to the length of its key."""


class RecordStart(NamedTuple):
    """The first fields of a record."""

    timestamp_delta: int
    offset_delta: int
    has_key: bool


def read_records(data: bytes, batch: BatchHeader, limit: int) -> Iterator[RecordStart | None]:
    """Yield the starts of the records, and None where a step ends. `limit` is that of all records, in bytes.

    Raises MalformedMessage, NotDecoded.
    """
    chunks = (piece or b"" for piece in _pieces(data, batch, limit))
    window, position = b"", 0
    is_whole = False
    for number in range(1, batch.count + 1):
        while position + _START_BYTES > len(window) and not is_whole:
            chunk = next(chunks, None)
            if chunk is None:
                is_whole = True
                break
            if position < len(window):
                window, position = window[position:] + chunk, 0
            else:
                window, position = chunk, position - len(window)
            if batch.codec:
                yield None
        try:
            length, body = read_varlong(window, position)
            timestamp_delta, end_of_start = read_varlong(window, body + 1)
            offset_delta, end_of_start = read_varlong(window, end_of_start)
            key_size, end_of_start = read_varlong(window, end_of_start)
        except IndexError:
            raise MalformedMessage(f"record {number} of {batch.count} exceeds the batch") from None
        end = body + length
        if length < 6 or end_of_start + max(key_size, 0) >= end:
            raise MalformedMessage(f"record {number}: its fields exceed its length {length}")
        yield RecordStart(timestamp_delta, offset_delta, key_size >= 0)
        position = end
        if number % RECORDS_PER_STEP == 0:
            yield None
    remaining = position - len(window)
    for chunk in chunks:
        remaining -= len(chunk)
        yield None
    if remaining:
        raise MalformedMessage(f"the {batch.count} records do not end with their batch")


def _pieces(data: bytes, batch: BatchHeader, limit: int) -> Iterator[bytes | None]:
    """Yield the uncompressed records in pieces, and None where a step has none."""
    if batch.codec == GZIP and batch.count:
        yield from gzip_pieces(data, batch, limit)
        return
    whole = yield from decompress_in_steps(data, batch, limit)
    if whole is None:
        raise NotDecoded
    yield whole
