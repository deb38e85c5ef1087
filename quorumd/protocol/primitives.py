"""Kafka's primitives: varints, strings, bytes, counts and tagged fields.

Readers take `(buf, pos)` and return `(value, position after it)`. Invalid bytes raise `MalformedMessage`; bytes that
end too early may raise IndexError or struct.error, which `codec` converts. A count or length that exceeds the
remaining bytes is an error, and the memory of the array elements of a message is limited before they are created (see
`check_memory`).

"Compact" is the encoding of flexible versions (KIP-482): a length is an unsigned varint of length + 1, or 0 for null.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, pack, unpack_from
from typing import Final

from quorumd.errors import MalformedMessage, MessageTooLarge, UnsupportedVersion
from quorumd.protocol.output_buffer import LARGE_VALUE, OutputBuffer, Part, whole

MAX_STRING_BYTES: Final = 0x7FFF
"""Longer strings are neither written nor read, as in Kafka, whose readers could not load them."""

ALWAYS_ALLOWED_MEMORY: Final = 32 * 1024 * 1024
"""Memory in bytes that the array elements of any message may take, however small its encoding."""
_MEMORY_PER_BYTE: Final = 4
_MEMORY_PER_RESPONSE_BYTE: Final = 24
"""Factor for responses: the metadata of many partitions becomes objects of 17 times its encoded size."""

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_MASK_64: Final = 0xFFFF_FFFF_FFFF_FFFF
_PACK_COMPACT_INT32S: Final = [Struct(f">B{count}i").pack for count in range(16)]
"""By the count of a compact array: the formats of short ones need not be built for each."""
_UNPACK_INT32S: Final = [Struct(f">{count}i").unpack_from for count in range(16)]
"""By the count of an array."""


def not_carried(field: str) -> UnsupportedVersion:
    """The error for a field whose value a version cannot carry; `codec` adds the message and version."""
    return UnsupportedVersion(f"cannot carry this value of {field}")


# Varints


def write_uvarint(out: bytearray, value: int) -> None:
    """Write an unsigned varint of at most 32 bits."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_uvarint(buf: bytes, pos: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits."""
    byte = buf[pos]
    if byte < 0x80:
        return byte, pos + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        pos += 1
        byte = buf[pos]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                break
            return value, pos + 1
    raise MalformedMessage(f"a varint of more than 32 bits ends at byte {pos}")


def write_varlong(out: bytearray, value: int) -> None:
    """Write a signed (zigzag) varint of at most 64 bits; the 32-bit varints of records have the same bytes."""
    value = (value << 1 ^ value >> 63) & _MASK_64
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_varlong(buf: bytes, pos: int) -> tuple[int, int]:
    """Read a signed (zigzag) varint of at most 64 bits."""
    value = 0
    for shift in range(0, 70, 7):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _MASK_64:
                break
            return value >> 1 ^ -(value & 1), pos
    raise MalformedMessage(f"a varint of more than 64 bits ends at byte {pos - 1}")


# Lengths and counts


def _take(buf: bytes, pos: int, length: int) -> tuple[bytes, int]:
    end = pos + length
    if end > len(buf):
        raise MalformedMessage(f"{length} bytes are declared at byte {pos}, only {len(buf) - pos} are left")
    return buf[pos:end], end


def _bounded(buf: bytes, pos: int, count: int, element_size: int) -> int:
    if count * element_size > len(buf) - pos:
        raise MalformedMessage(
            f"{count} elements of at least {element_size} bytes are declared at byte {pos}, "
            f"only {len(buf) - pos} bytes are left"
        )
    return count


def _null(pos: int) -> MalformedMessage:
    return MalformedMessage(f"null or a negative length before byte {pos}, neither of which is allowed")


def read_count(buf: bytes, pos: int, element_size: int) -> tuple[int, int]:
    """Read the count of an array whose elements have at least `element_size` bytes."""
    (count,) = _INT32.unpack_from(buf, pos)
    pos += 4
    if count < 0:
        raise _null(pos)
    return _bounded(buf, pos, count, element_size), pos


def read_nullable_count(buf: bytes, pos: int, element_size: int) -> tuple[int, int]:
    """Read a count as `read_count` does; -1 is null."""
    (count,) = _INT32.unpack_from(buf, pos)
    pos += 4
    if count < -1:
        raise _null(pos)
    return _bounded(buf, pos, count, element_size), pos


def read_compact_count(buf: bytes, pos: int, element_size: int) -> tuple[int, int]:
    """Read the count of a compact array whose elements have at least `element_size` bytes."""
    count = buf[pos]
    pos += 1
    if count == 0:
        raise _null(pos)
    if count < 0x80 and (count - 1) * element_size <= len(buf) - pos:
        return count - 1, pos  # true for nearly every count: saves a call
    count, pos = read_uvarint(buf, pos - 1)
    return _bounded(buf, pos, count - 1, element_size), pos


def read_compact_nullable_count(buf: bytes, pos: int, element_size: int) -> tuple[int, int]:
    """Read a count as `read_compact_count` does; -1 is null."""
    if buf[pos] == 0:
        return -1, pos + 1
    return read_compact_count(buf, pos, element_size)


def compact_int32s(values: Sequence[int]) -> bytes:
    """Encode a compact array of int32."""
    count = len(values)
    if count < len(_PACK_COMPACT_INT32S):
        return _PACK_COMPACT_INT32S[count](count + 1, *values)
    out = bytearray()
    write_uvarint(out, count + 1)
    out += pack(f">{count}i", *values)
    return bytes(out)


def read_int32s(buf: bytes, pos: int, count: int) -> list[int]:
    """Read the elements of an array of int32, whose count has been read."""
    if count < len(_UNPACK_INT32S):
        return list(_UNPACK_INT32S[count](buf, pos))
    return list(unpack_from(f">{count}i", buf, pos))


def check_memory(buf: bytes, memory: int) -> None:
    """Check the memory in bytes that all array elements of a message would take. Generated decoders call this with a
    growing sum, before they create the elements of each array.

    The shortest elements become objects of 40 times their size. The limit is ALWAYS_ALLOWED_MEMORY and a multiple of
    the message's size. Raises MessageTooLarge.
    """
    _check_memory(buf, memory, _MEMORY_PER_BYTE)


def check_response_memory(buf: bytes, memory: int) -> None:
    """Check the memory as `check_memory` does, with a higher limit, for responses to this side's requests."""
    _check_memory(buf, memory, _MEMORY_PER_RESPONSE_BYTE)


def _check_memory(buf: bytes, memory: int, factor: int) -> None:
    allowed = ALWAYS_ALLOWED_MEMORY + factor * len(buf)
    if memory > allowed:
        raise MessageTooLarge(
            f"the array elements in {len(buf)} bytes would take {memory} bytes of memory; the limit is {allowed}"
        )


# Strings


def _encoded(value: str) -> bytes:
    data = value.encode()
    if len(data) > MAX_STRING_BYTES:
        raise ValueError(f"a string has {len(data)} bytes; the maximum is {MAX_STRING_BYTES}")
    return data


def _text(buf: bytes, start: int, end: int) -> tuple[str, int]:
    if end > len(buf) or end - start > MAX_STRING_BYTES:
        raise MalformedMessage(
            f"a string of {end - start} bytes is declared at byte {start}, but only {len(buf) - start} are left, "
            f"and the maximum is {MAX_STRING_BYTES}"
        )
    try:
        return buf[start:end].decode(), end
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"a string is not UTF-8 at byte {start + error.start}") from None


def write_string(out: bytearray, value: str) -> None:
    """Write a string of a version that is not flexible: with an int16 length."""
    data = _encoded(value)
    out += _INT16.pack(len(data))
    out += data


def write_nullable_string(out: bytearray, value: str | None) -> None:
    """Write a string as `write_string` does; null has length -1."""
    if value is None:
        out += b"\xff\xff"
    else:
        write_string(out, value)


def write_compact_string(out: bytearray, value: str) -> None:
    """Write a string of a flexible version."""
    data = value.encode()
    if len(data) < 0x7F:
        out.append(len(data) + 1)
    else:
        write_uvarint(out, len(_encoded(value)) + 1)
    out += data


def write_compact_nullable_string(out: bytearray, value: str | None) -> None:
    """Write a string as `write_compact_string` does; null is 0."""
    if value is None:
        out.append(0)
    else:
        write_compact_string(out, value)


def read_string(buf: bytes, pos: int) -> tuple[str, int]:
    """Read what `write_string` writes."""
    (length,) = _INT16.unpack_from(buf, pos)
    pos += 2
    if length < 0:
        raise _null(pos)
    return _text(buf, pos, pos + length)


def read_nullable_string(buf: bytes, pos: int) -> tuple[str | None, int]:
    """Read what `write_nullable_string` writes."""
    (length,) = _INT16.unpack_from(buf, pos)
    if length == -1:
        return None, pos + 2
    return read_string(buf, pos)


def read_compact_string(buf: bytes, pos: int) -> tuple[str, int]:
    """Read what `write_compact_string` writes."""
    length = buf[pos]
    pos += 1
    if length == 0:
        raise _null(pos)
    if length < 0x80:
        end = pos + length - 1
        if end <= len(buf):  # true for nearly every string: saves a call
            try:
                return buf[pos:end].decode(), end
            except UnicodeDecodeError:
                pass
        return _text(buf, pos, end)
    length, pos = read_uvarint(buf, pos - 1)
    if length == 0:
        raise _null(pos)
    return _text(buf, pos, pos + length - 1)


def read_compact_nullable_string(buf: bytes, pos: int) -> tuple[str | None, int]:
    """Read what `write_compact_nullable_string` writes."""
    if buf[pos] == 0:
        return None, pos + 1
    return read_compact_string(buf, pos)


# Bytes, which are also the type "records" of schemas


def write_bytes(out: bytearray, value: Part) -> None:
    """Write bytes of a version that is not flexible: with an int32 length. Raises StorageError for stored bytes if
    `out` is not an OutputBuffer."""
    out += _INT32.pack(len(value))
    _append(out, value)


def write_nullable_bytes(out: bytearray, value: Part | None) -> None:
    """Write bytes as `write_bytes` does; null has length -1."""
    if value is None:
        out += b"\xff\xff\xff\xff"
    else:
        write_bytes(out, value)


def write_compact_bytes(out: bytearray, value: Part) -> None:
    """Write bytes of a flexible version."""
    write_uvarint(out, len(value) + 1)
    _append(out, value)


def _append(out: bytearray, value: Part) -> None:
    if len(value) >= LARGE_VALUE and isinstance(out, OutputBuffer):
        out.add_large(value)
    else:
        out += value if isinstance(value, bytes) else whole(value)


def write_compact_nullable_bytes(out: bytearray, value: Part | None) -> None:
    """Write bytes as `write_compact_bytes` does; null is 0."""
    if value is None:
        out.append(0)
    else:
        write_compact_bytes(out, value)


def read_bytes(buf: bytes, pos: int) -> tuple[bytes, int]:
    """Read what `write_bytes` writes."""
    (length,) = _INT32.unpack_from(buf, pos)
    if length < 0:
        raise _null(pos + 4)
    return _take(buf, pos + 4, length)


def read_nullable_bytes(buf: bytes, pos: int) -> tuple[bytes | None, int]:
    """Read what `write_nullable_bytes` writes."""
    (length,) = _INT32.unpack_from(buf, pos)
    if length == -1:
        return None, pos + 4
    if length < 0:
        raise _null(pos + 4)
    return _take(buf, pos + 4, length)


def read_compact_bytes(buf: bytes, pos: int) -> tuple[bytes, int]:
    """Read what `write_compact_bytes` writes."""
    length, pos = read_uvarint(buf, pos)
    if length == 0:
        raise _null(pos)
    return _take(buf, pos, length - 1)


def read_compact_nullable_bytes(buf: bytes, pos: int) -> tuple[bytes | None, int]:
    """Read what `write_compact_nullable_bytes` writes."""
    length, pos = read_uvarint(buf, pos)
    if length == 0:
        return None, pos
    return _take(buf, pos, length - 1)


# Tagged fields (KIP-482): their count, then (tag, size, value) of each


def write_tag(out: bytearray, tag: int, payload: bytes | bytearray) -> None:
    """Write one tagged field whose value is already encoded."""
    write_uvarint(out, tag)
    write_uvarint(out, len(payload))
    out += payload


def read_tag(buf: bytes, pos: int) -> tuple[int, int, int]:
    """Read a tag; return it, the start of its value and the end of its value."""
    tag, pos = read_uvarint(buf, pos)
    size = buf[pos]
    if size < 0x80:
        pos += 1
    else:
        size, pos = read_uvarint(buf, pos)
    end = pos + size
    if end > len(buf):
        raise MalformedMessage(
            f"tagged field {tag} declares {size} bytes at byte {pos}, only {len(buf) - pos} are left"
        )
    return tag, pos, end


def wrong_tag_size(tag: int, pos: int, end: int) -> MalformedMessage:
    """The error for a tagged field whose value, up to `pos`, does not have its declared size, up to `end`."""
    return MalformedMessage(f"tagged field {tag} should end at byte {end}, but its value ends at byte {pos}")


def skip_tagged_fields(buf: bytes, pos: int) -> int:
    """Skip a section of tagged fields, none of which is known; return the position after it."""
    count, pos = read_uvarint(buf, pos)
    for _ in range(count):
        _, _, pos = read_tag(buf, pos)
    return pos
