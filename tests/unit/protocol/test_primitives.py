"""Primitives: encodings of known values, and input that a reader must not trust."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from quorumd.errors import MalformedMessage
from quorumd.protocol import primitives

UVARINTS = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (16383, "ff7f"),
    (16384, "808001"),
    (0xFFFF_FFFF, "ffffffff0f"),
]
VARLONGS = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-(1 << 31), "ffffffff0f"),
    ((1 << 63) - 1, "feffffffffffffffff01"),
    (-(1 << 63), "ffffffffffffffffff01"),
]


@pytest.mark.parametrize(("value", "encoded"), UVARINTS)
def test_unsigned_varints(value: int, encoded: str) -> None:
    out = bytearray(b"before")
    primitives.write_uvarint(out, value)
    assert out.hex() == b"before".hex() + encoded
    assert primitives.read_uvarint(bytes(out) + b"after", 6) == (value, len(out))


@pytest.mark.parametrize(("value", "encoded"), VARLONGS)
def test_signed_varints(value: int, encoded: str) -> None:
    out = bytearray(b"before")
    primitives.write_varlong(out, value)
    assert out.hex() == b"before".hex() + encoded
    assert primitives.read_varlong(bytes(out) + b"after", 6) == (value, len(out))


@pytest.mark.parametrize("encoded", ["ffffffff10", "ffffffffff", "ffffffffff01", "8080808080"])
def test_unsigned_varint_has_32_bits(encoded: str) -> None:
    with pytest.raises(MalformedMessage, match="more than 32 bits"):
        primitives.read_uvarint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["ffffffffffffffffff02", "ffffffffffffffffffff01", "80" * 11])
def test_signed_varint_has_64_bits(encoded: str) -> None:
    with pytest.raises(MalformedMessage, match="more than 64 bits"):
        primitives.read_varlong(bytes.fromhex(encoded), 0)


CODECS: list[tuple[Callable[..., None], Callable[[bytes, int], tuple[Any, int]], Any, str]] = [
    (primitives.write_string, primitives.read_string, "", "0000"),
    (primitives.write_string, primitives.read_string, "é", "0002c3a9"),
    (primitives.write_nullable_string, primitives.read_nullable_string, None, "ffff"),
    (primitives.write_nullable_string, primitives.read_nullable_string, "a", "000161"),
    (primitives.write_compact_string, primitives.read_compact_string, "", "01"),
    (primitives.write_compact_string, primitives.read_compact_string, "ab", "036162"),
    (primitives.write_compact_string, primitives.read_compact_string, "x" * 126, "7f" + "78" * 126),
    (primitives.write_compact_string, primitives.read_compact_string, "x" * 127, "8001" + "78" * 127),
    (primitives.write_compact_string, primitives.read_compact_string, "x" * 0x7FFF, "808002" + "78" * 0x7FFF),
    (primitives.write_compact_nullable_string, primitives.read_compact_nullable_string, None, "00"),
    (primitives.write_compact_nullable_string, primitives.read_compact_nullable_string, "", "01"),
    (primitives.write_bytes, primitives.read_bytes, b"", "00000000"),
    (primitives.write_bytes, primitives.read_bytes, b"\xff", "00000001ff"),
    (primitives.write_nullable_bytes, primitives.read_nullable_bytes, None, "ffffffff"),
    (primitives.write_nullable_bytes, primitives.read_nullable_bytes, b"a", "0000000161"),
    (primitives.write_compact_bytes, primitives.read_compact_bytes, b"\xff", "02ff"),
    (primitives.write_compact_bytes, primitives.read_compact_bytes, bytes(127), "8001" + "00" * 127),
    (primitives.write_compact_nullable_bytes, primitives.read_compact_nullable_bytes, None, "00"),
    (primitives.write_compact_nullable_bytes, primitives.read_compact_nullable_bytes, b"", "01"),
]


@pytest.mark.parametrize(("write", "read", "value", "encoded"), CODECS)
def test_strings_and_bytes(
    write: Callable[..., None], read: Callable[[bytes, int], tuple[Any, int]], value: Any, encoded: str
) -> None:
    out = bytearray(b"before")
    write(out, value)
    assert out.hex() == b"before".hex() + encoded
    assert read(bytes(out) + b"after", 6) == (value, len(out))
    for end in range(6, len(out)) if len(out) < 300 else (6, 7, len(out) - 1):
        with pytest.raises((MalformedMessage, IndexError, struct.error)):
            read(bytes(out[:end]), 6)


REFUSED: list[tuple[Callable[[bytes, int], tuple[Any, int]], str, str]] = [
    (primitives.read_string, "ffff", "null or a negative length"),
    (primitives.read_nullable_string, "fffe", "null or a negative length"),
    (primitives.read_compact_string, "00", "null or a negative length"),
    (primitives.read_bytes, "ffffffff", "null or a negative length"),
    (primitives.read_nullable_bytes, "fffffffe", "null or a negative length"),
    (primitives.read_compact_bytes, "00", "null or a negative length"),
    (primitives.read_string, "0003c3a9", "3 bytes is declared at byte 2, but only 2 are left"),
    (primitives.read_compact_string, "03c3", "2 bytes is declared at byte 1, but only 1 are left"),
    (primitives.read_compact_bytes, "ffffffff0f", "4294967294 bytes are declared at byte 5, only 0 are left"),
    (primitives.read_compact_string, "0361ff", "not UTF-8 at byte 2"),
    (primitives.read_string, "0002ffff", "not UTF-8 at byte 2"),
]


@pytest.mark.parametrize(("read", "encoded", "reason"), REFUSED)
def test_refused_strings_and_bytes(
    read: Callable[[bytes, int], tuple[Any, int]], encoded: str, reason: str
) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        read(bytes.fromhex(encoded), 0)


def test_strings_longer_than_kafka_reads_are_refused_in_both_directions() -> None:
    for write in (primitives.write_string, primitives.write_compact_string):
        with pytest.raises(ValueError, match=r"\b32768 bytes\b"):
            write(bytearray(), "x" * 0x8000)
    out = bytearray()
    primitives.write_uvarint(out, 0x8001)
    with pytest.raises(MalformedMessage, match=r"\b32768 bytes\b"):
        primitives.read_compact_string(bytes(out) + b"x" * 0x8000, 0)


def test_count_beyond_the_remaining_bytes_is_rejected() -> None:
    plain = struct.pack(">i", 3)
    assert primitives.read_count(plain + bytes(12), 0, 4) == (3, 4)
    assert primitives.read_compact_count(b"\x04" + bytes(12), 0, 4) == (3, 1)
    for read, encoded in (
        (primitives.read_count, plain),
        (primitives.read_nullable_count, plain),
        (primitives.read_compact_count, b"\x04"),
        (primitives.read_compact_nullable_count, b"\x04"),
    ):
        with pytest.raises(MalformedMessage, match=r"\b3 elements\b.*\b4\b"):
            read(encoded + bytes(11), 0, 4)
    with pytest.raises(MalformedMessage, match="2147483646 elements"):
        primitives.read_compact_count(bytes.fromhex("ffffffff07") + bytes(1000), 0, 1)


def test_null_is_a_count_of_minus_one_where_it_is_allowed() -> None:
    assert primitives.read_nullable_count(b"\xff\xff\xff\xff", 0, 4) == (-1, 4)
    assert primitives.read_compact_nullable_count(b"\x00", 0, 4) == (-1, 1)
    for read, encoded in (
        (primitives.read_count, b"\xff\xff\xff\xff"),
        (primitives.read_nullable_count, b"\xff\xff\xff\xfe"),
        (primitives.read_compact_count, b"\x00"),
    ):
        with pytest.raises(MalformedMessage, match="negative length"):
            read(encoded + bytes(100), 0, 1)


def test_tagged_fields_are_skipped_by_their_size() -> None:
    out = bytearray([3])
    primitives.write_tag(out, 0, b"")
    primitives.write_tag(out, 10000, b"abc")
    primitives.write_tag(out, 10001, bytes(200))
    assert primitives.skip_tagged_fields(b"xx" + out + b"rest", 2) == 2 + len(out)
    assert primitives.read_tag(bytes(out), 3) == (10000, 6, 9)


def test_tagged_field_ends_within_the_bytes() -> None:
    with pytest.raises(MalformedMessage, match=r"tagged field 7 .*byte 3"):
        primitives.skip_tagged_fields(b"\x01\x07\x04abc", 0)


def test_null_string_with_a_long_encoding_of_its_length_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="null"):
        primitives.read_compact_string(bytes.fromhex("8000"), 0)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 126, 127, 300])
def test_int32_arrays_of_any_length(count: int) -> None:
    values = [position - 100 for position in range(count)]
    array = primitives.compact_int32s(values)
    expected = bytearray()
    primitives.write_uvarint(expected, count + 1)
    assert array == expected + struct.pack(f">{count}i", *values)
    read_count, start = primitives.read_compact_count(array, 0, 4)
    assert primitives.read_int32s(array, start, read_count) == values
