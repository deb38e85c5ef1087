"""snappy and lz4, decoded from what clients send and from frames made by hand."""

from __future__ import annotations

import tracemalloc
from base64 import b64decode
from collections.abc import Generator
from typing import Any

import pytest

from quorumd.broker.log.decompression import (
    BYTES_PER_ELEMENT,
    ELEMENTS_PER_STEP,
    decompress_lz4,
    decompress_snappy,
)
from quorumd.broker.log.records import record_spans
from quorumd.errors import MalformedMessage
from tests.support.protocol.steps import run_steps

LIMIT = 1 << 20
# 50 records with the key "k" and the values txn0 to txn49, from librdkafka.
FROM_LIBRDKAFKA = b64decode(
    b"BCJNGGBAgoUBAADyARYAAAACawh0eG4wABYAAAIMABAxDAASBAwAEDIMABIGDAAQMwwAEggMABA0DAASCgwAEDUMABIMDAAQ"
    b"NgwAEg4MABA3DAASEAwAEDgMABISDADgOQAYAAAUAmsKdHhuMTANABMWDQAQMQ0AExgNABAyDQATGg0AEDMNABMcDQAQNA0A"
    b"Ex4NABA1DQATIA0AEDYNABMiDQAQNw0AEyQNABA4DQATJg0AAYIAEigNABEyggATKg0AAYIAEywNAAGCABMuDQABggATMA0A"
    b"AYIAEzINAAGCABM0DQABggATNg0AAYIAEzgNAAGCABM6DQABggASPA0AETOCABM+DQABggATQA0AAYIAE0INAAGCABNEDQAB"
    b"ggATRg0AAYIAE0gNAAGCABNKDQABggATTA0AAYIAE04NAAGCABJQDQARNIIAE1INAAGCABNUDQABggATVg0AAYIAE1gNAAGC"
    b"ABNaDQABggATXA0AAYIAE14NAAGCABNgDQABggCgYgJrCnR4bjQ5AAAAAAA="
)
RAW_SNAPPY = (
    bytes([26, 2 << 2]) + b"abc" + bytes([(10 - 1) << 2 | 2, 3, 0, (9 - 4) << 2 | 1, 9, 60 << 2, 3]) + b"wxyz"
)
TEXT = b"abc" + b"abcabcabca" + b"bcabcabca" + b"wxyz"


def lz4_frame(*blocks: bytes, flags: int = 0x60, extra: bytes = b"") -> bytes:
    parts = [b"\x04\x22\x4d\x18", bytes([flags, 0x40]), extra, b"\x00", *blocks, bytes(4)]
    return b"".join(parts)


def lz4_block(data: bytes, plain: bool = False) -> bytes:
    return (len(data) | (0x8000_0000 if plain else 0)).to_bytes(4, "little") + data


def decoded(steps: Generator[None, None, bytes | None]) -> bytes | None:
    return run_steps(steps)[1]


def test_lz4_of_a_client() -> None:
    payload = decoded(decompress_lz4(FROM_LIBRDKAFKA, LIMIT))
    assert payload is not None
    values = [payload[span.value_start : span.value_end] for span in record_spans(payload, 50)]
    assert values == [b"txn%d" % index for index in range(50)]


def test_lz4_blocks() -> None:
    compressed = bytes([3 << 4 | 15]) + b"abc" + bytes([3, 0, 1]) + bytes([15 << 4, 2]) + b"x" * 17
    expected = b"abc" + (b"abc" * 7)[:20] + b"x" * 17
    assert decoded(decompress_lz4(lz4_frame(lz4_block(compressed)), LIMIT)) == expected
    assert (
        decoded(decompress_lz4(lz4_frame(lz4_block(b"plain", True), lz4_block(compressed)), LIMIT))
        == b"plain" + expected
    )
    linked = bytes([0, 5, 0, 1 << 4]) + b"z"
    assert (
        decoded(decompress_lz4(lz4_frame(lz4_block(b"plain", True), lz4_block(linked)), LIMIT))
        == b"plainplaiz"
    )
    sized = lz4_frame(lz4_block(b"abc", True) + bytes(4), flags=0x78, extra=bytes(8))
    assert decoded(decompress_lz4(sized, LIMIT)) == b"abc"


def test_snappy_raw_and_framed() -> None:
    assert decoded(decompress_snappy(RAW_SNAPPY, LIMIT)) == TEXT
    block = len(RAW_SNAPPY).to_bytes(4, "big") + RAW_SNAPPY
    framed = b"\x82SNAPPY\x00" + bytes([0, 0, 0, 1, 0, 0, 0, 1]) + block * 3
    assert decoded(decompress_snappy(framed, LIMIT)) == TEXT * 3


def test_output_beyond_the_limit_is_opaque() -> None:
    assert decoded(decompress_snappy(RAW_SNAPPY, len(TEXT))) == TEXT
    assert decoded(decompress_snappy(RAW_SNAPPY, len(TEXT) - 1)) is None
    assert decoded(decompress_lz4(lz4_frame(lz4_block(b"plain", True)), 4)) is None


def test_copy_is_cut_at_the_limit() -> None:
    """The length of one copy in a block of 4 kB is a megabyte."""
    block = bytes([1 << 4 | 15]) + b"a" + bytes([1, 0]) + b"\xff" * 4000 + b"\x00"
    tracemalloc.start()
    try:
        assert decoded(decompress_lz4(lz4_frame(lz4_block(block)), 1000)) is None
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_long_blocks_are_decoded_in_steps() -> None:
    elements = 10 * ELEMENTS_PER_STEP
    lz4 = lz4_frame(lz4_block((bytes([1 << 4]) + b"a" + bytes([1, 0])) * elements))
    size = 1 + 4 * elements
    snappy = bytes([size & 127 | 128, size >> 7, 0]) + b"a" + bytes([1, 1]) * elements
    for steps in (decompress_lz4(lz4, LIMIT), decompress_snappy(snappy, LIMIT)):
        taken, found = run_steps(steps)
        assert taken >= 9
        assert found is not None
        assert set(found) == set(b"a")


def test_long_copy_is_decoded_in_steps() -> None:
    length = 15 + 255 * 300 + 7 + 4
    block = bytes([1 << 4 | 15]) + b"a" + bytes([1, 0]) + b"\xff" * 300 + b"\x07" + bytes([1 << 4]) + b"b"
    frame = lz4_frame(lz4_block(block))
    assert decoded(decompress_lz4(frame, LIMIT)) == b"a" * (1 + length) + b"b"
    longer = bytes([1 << 4 | 15]) + b"a" + bytes([1, 0]) + b"\xff" * 4000 + b"\x00"
    steps, found = run_steps(decompress_lz4(lz4_frame(lz4_block(longer)), 2 * LIMIT))
    assert found == b"a" * (1 + 15 + 255 * 4000 + 4)
    assert steps >= len(found) // BYTES_PER_ELEMENT // ELEMENTS_PER_STEP


def test_empty_blocks_are_decoded_in_steps() -> None:
    """A megabyte may have 200,000 of them, which took a fifth of a second in one step."""
    count = 50
    framed = b"\x82SNAPPY\x00" + bytes([0, 0, 0, 1, 0, 0, 0, 1]) + bytes([0, 0, 0, 1, 0]) * count
    for steps in (
        decompress_lz4(lz4_frame(*[lz4_block(b"\x00")] * count), LIMIT),
        decompress_lz4(lz4_frame(*[lz4_block(b"", True)] * count), LIMIT),
        decompress_snappy(framed, LIMIT),
    ):
        assert run_steps(steps) == (count, b"")


class CountedReads(bytes):
    """Bytes that count how often one of them is read."""

    count = 0

    def __getitem__(self, index: Any) -> Any:
        self.count += isinstance(index, int)
        return super().__getitem__(index)


def test_length_of_a_snappy_block_is_bounded() -> None:
    """A length of 100 kB took 0.7 s in one step, and one of a megabyte a hundred times as long."""
    data = CountedReads(b"\xff" * 1000 + b"\x01")
    with pytest.raises(MalformedMessage):
        decoded(decompress_snappy(data, LIMIT))
    assert data.count <= 5


def test_damage_is_reported() -> None:
    for position in range(len(RAW_SNAPPY)):
        with pytest.raises(MalformedMessage):
            decoded(decompress_snappy(RAW_SNAPPY[:position], LIMIT))
    for position in range(len(FROM_LIBRDKAFKA) - 8):
        with pytest.raises(MalformedMessage):
            decoded(decompress_lz4(FROM_LIBRDKAFKA[:position], LIMIT))
    with pytest.raises(MalformedMessage, match="refers to"):
        decoded(decompress_snappy(bytes([5, (5 - 4) << 2 | 1, 9]), LIMIT))
    with pytest.raises(MalformedMessage, match="refers to"):
        decoded(decompress_lz4(lz4_frame(lz4_block(bytes([0, 0, 0]))), LIMIT))
