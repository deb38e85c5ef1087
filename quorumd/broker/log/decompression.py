"""Decoders for snappy and lz4, which the standard library lacks, in the framing of Kafka's clients.

Used by compaction and lookups by timestamp, which are rare: decoding a batch of 64 KiB takes milliseconds. The
generators yield after ELEMENTS_PER_STEP elements, BYTES_PER_ELEMENT of a long copy being one, and after each block.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from quorumd.errors import MalformedMessage

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_UNCOMPRESSED = 0x8000_0000
ELEMENTS_PER_STEP: Final = 64
BYTES_PER_ELEMENT: Final = 8192
_RUN = b"\xff" * 128
_MAX_LENGTH_BITS = 32
"""A block of snappy has at most 4 GiB."""


def decompress_snappy(data: bytes, limit: int) -> Generator[None, None, bytes | None]:
    """Decode raw snappy, or the xerial framing of the Java client; None if it exceeds `limit` bytes.

    Raises MalformedMessage.
    """
    out = bytearray()
    try:
        if not data.startswith(_XERIAL_MAGIC):
            yield from _decode_snappy(data, out, limit)
            return bytes(out) if len(out) <= limit else None
        position = _XERIAL_HEADER_BYTES
        while position < len(data) and len(out) <= limit:
            size = int.from_bytes(data[position : position + 4], "big")
            position += 4
            yield from _decode_snappy(data[position : position + size], out, limit)
            position += size
            yield
    except IndexError:
        raise MalformedMessage("invalid snappy: the data ends within an element") from None
    return bytes(out) if len(out) <= limit else None


def _decode_snappy(data: bytes, out: bytearray, limit: int) -> Generator[None, None, None]:
    position, shift, expected = 0, 0, len(out)
    elements = 0
    while True:
        byte = data[position]
        position += 1
        expected += (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
        if shift > _MAX_LENGTH_BITS:
            raise MalformedMessage("invalid snappy: the length of a block has more than 32 bits")
    end = len(data)
    while position < end and len(out) <= limit:
        elements += 1
        if elements % ELEMENTS_PER_STEP == 0:
            yield
        tag = data[position]
        position += 1
        kind = tag & 3
        if kind == 0:
            length = tag >> 2
            if length >= 60:
                extra = length - 59
                length = int.from_bytes(data[position : position + extra], "little")
                position += extra
            out += data[position : position + length + 1]
            position += length + 1
            continue
        if kind == 1:
            length = 4 + (tag >> 2 & 7)
            offset = (tag >> 5) << 8 | data[position]
            position += 1
        else:
            length = 1 + (tag >> 2)
            size = 2 if kind == 2 else 4
            offset = int.from_bytes(data[position : position + size], "little")
            position += size
        _copy(out, offset, length)
    if len(out) != expected and len(out) <= limit:
        raise MalformedMessage(f"invalid snappy: {len(out)} bytes decoded, {expected} expected")


def decompress_lz4(data: bytes, limit: int) -> Generator[None, None, bytes | None]:
    """Decode an lz4 frame; None if it exceeds `limit` bytes. Ignores checksums: the batch has a CRC.

    Raises MalformedMessage.
    """
    if data[:4] != _LZ4_MAGIC or len(data) < 7:
        raise MalformedMessage("invalid lz4: no frame header")
    flags = data[4]
    has_block_checksums = flags & 0x10 != 0
    position = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    out = bytearray()
    try:
        while len(out) <= limit:
            if position + 4 > len(data):
                raise MalformedMessage("invalid lz4: the frame has no end mark")
            size = int.from_bytes(data[position : position + 4], "little")
            position += 4
            if size == 0:
                return bytes(out)
            is_uncompressed = size & _LZ4_UNCOMPRESSED != 0
            block = data[position : position + (size & ~_LZ4_UNCOMPRESSED)]
            position += len(block) + (4 if has_block_checksums else 0)
            if is_uncompressed:
                out += block
            else:
                yield from _decode_lz4(block, out, limit)
            yield
    except IndexError:
        raise MalformedMessage("invalid lz4: a block ends within an element") from None
    return None


def _decode_lz4(block: bytes, out: bytearray, limit: int) -> Generator[None, None, None]:
    position, end = 0, len(block)
    elements = 0
    while position < end and len(out) <= limit:
        elements += 1
        if elements % ELEMENTS_PER_STEP == 0:
            yield
        token = block[position]
        position += 1
        length = token >> 4
        if length == 15:
            length, position = _extended_length(block, position, length)
        out += block[position : position + length]
        position += length
        if position >= end:
            return
        offset = block[position] | block[position + 1] << 8
        position += 2
        length = token & 15
        if length == 15:
            length, position = _extended_length(block, position, length)
        # The length of one copy may be a gigabyte.
        length = min(length + 4, limit + 1 - len(out))
        while length > BYTES_PER_ELEMENT:
            _copy(out, offset, BYTES_PER_ELEMENT)
            length -= BYTES_PER_ELEMENT
            elements += 1
            if elements % ELEMENTS_PER_STEP == 0:
                yield
        _copy(out, offset, length)


def _extended_length(block: bytes, position: int, length: int) -> tuple[int, int]:
    # A megabyte of them takes a tenth of a second if they are added one by one.
    while block[position : position + len(_RUN)] == _RUN:
        position += len(_RUN)
        length += 255 * len(_RUN)
    while True:
        byte = block[position]
        position += 1
        length += byte
        if byte != 255:
            return length, position


def _copy(out: bytearray, offset: int, length: int) -> None:
    """Append `length` bytes from `offset` bytes before the end; source and target may overlap."""
    start = len(out) - offset
    if offset == 0 or start < 0:
        raise MalformedMessage(
            f"invalid compressed data: a copy refers to {offset} bytes back, but only {len(out)} bytes precede it"
        )
    if offset >= length:
        out += out[start : start + length]
    else:
        pattern = bytes(out[start:])
        out += (pattern * (length // offset + 1))[:length]
