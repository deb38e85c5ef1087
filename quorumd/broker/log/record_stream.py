"""Reads the records of a batch in steps of less than a millisecond, and keeps little of what it has read.

A client chose the records, so they may be malformed, or a thousand times as large as the batch. Keys and values are
skipped. Only snappy and lz4 are decompressed as a whole, up to the limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from quorumd.broker.log.records import GZIP, GZIP_FORMAT, decompress_in_steps
from quorumd.errors import MalformedMessage
from quorumd.protocol.batch_header import HEADER_SIZE, BatchHeader
from quorumd.protocol.primitives import read_varlong

RECORDS_PER_STEP: Final = 32
GZIP_BYTES_PER_STEP: Final = 64 * 1024
_START_BYTES: Final = 41
"""The most bytes from the length of a record to the length of its key."""


class RecordStart(NamedTuple):
    """The first fields of a record."""

    timestamp_delta: int
    offset_delta: int
    has_key: bool


class NotDecoded(Exception):
    """The codec has no decoder, or the records are incomplete or exceed the limit."""


def read_records(data: bytes, batch: BatchHeader, limit: int) -> Iterator[RecordStart | None]:
    """Yield the starts of the records, and None where a step ends. `limit` is that of all records, in bytes.

    Raises MalformedMessage, NotDecoded.
    """
    chunks = _chunks(data, batch, limit)
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


def _chunks(data: bytes, batch: BatchHeader, limit: int) -> Iterator[bytes]:
    """Yield the uncompressed records in pieces, which are empty where a step has none."""
    if batch.codec != GZIP or batch.count == 0:
        whole = None
        steps = decompress_in_steps(data, batch, limit)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                whole = stop.value
                break
            yield b""
        if whole is None:
            raise NotDecoded
        yield whole
    else:
        yield from _gzip_chunks(data, batch, limit)


def _gzip_chunks(data: bytes, batch: BatchHeader, limit: int) -> Iterator[bytes]:
    position, end = batch.position + HEADER_SIZE, batch.position + batch.size
    decoder = zlib.decompressobj(GZIP_FORMAT)
    size = 0
    while not decoder.eof:
        piece = decoder.unconsumed_tail or data[position : min(position + GZIP_BYTES_PER_STEP, end)]
        if not decoder.unconsumed_tail:
            position += len(piece)
        try:
            chunk = decoder.decompress(piece, GZIP_BYTES_PER_STEP)
        except zlib.error as fault:
            raise MalformedMessage(f"batch at offset {batch.base_offset}: invalid gzip: {fault}") from None
        size += len(chunk)
        if size > limit or not (chunk or piece or decoder.eof):
            raise NotDecoded
        yield chunk
