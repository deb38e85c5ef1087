"""XXH3: the same hashes as hash4j 0.22, the library of Kafka 4.3.1, for inputs on both sides of every limit."""

from __future__ import annotations

import pytest

from quorumd.protocol.xxh3 import xxh3_64

HASHES = {
    0: 0x2D06800538D394C2,
    1: 0x13E608BC156DEFED,
    3: 0xA9088DDA485B481C,
    4: 0x6D9253B16C8B1ED3,
    8: 0x60539DB630471163,
    9: 0xFEFF668361D723A8,
    16: 0xB8C859B0F030B585,
    17: 0x714A04408E79B80F,
    32: 0x19FF4EE1D6BA1A55,
    33: 0x3E44983AD21679C8,
    128: 0x67425A03650261BF,
    129: 0xC664BF3311C6ABC4,
    240: 0x64556DC6B462A6CF,
    241: 0x8BEADD3A8874FE17,
    1023: 0xD26986A0B85DCC44,
    1024: 0x9B81661C641C72B1,
    1025: 0x806C2072ED713576,
    1088: 0x2F8781E01841F0DA,
    1089: 0x2A90437FE231E7E8,
    2048: 0xABE604813BA62ED1,
    3000: 0xC89178BB873C6B3D,
}


@pytest.mark.parametrize(("size", "expected"), HASHES.items())
def test_hash_is_that_of_kafka(size: int, expected: int) -> None:
    assert xxh3_64(bytes((number * 7 + 3) % 256 for number in range(size))) == expected
