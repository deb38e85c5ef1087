"""Records of a batch, read without keeping them."""

from __future__ import annotations

import tracemalloc

import pytest

from quorumd.broker.log.record_stream import RECORDS_PER_STEP, RecordStart, read_records
from quorumd.broker.log.records import GZIP_BYTES_PER_STEP, NotDecoded
from quorumd.errors import MalformedMessage
from quorumd.protocol.batch_header import HEADER_SIZE, encode_header, read_header
from tests.support.log.data_batches import Record, produced
from tests.unit.broker.log.test_decompression import lz4_block, lz4_frame

LIMIT = 16 * 1024 * 1024


def with_payload(payload: bytes, count: int = 1, codec: int = 0) -> bytes:
    batch = read_header(produced([(b"k", b"v")] * count))
    batch.attributes = codec
    return encode_header(batch, payload)


def starts(data: bytes, limit: int = LIMIT) -> list[RecordStart]:
    return [each for each in read_records(data, read_header(data), limit) if each is not None]


@pytest.mark.parametrize("codec", [0, 1, 3])
@pytest.mark.parametrize("size", [0, 1, 64 * 1024 - 20, 64 * 1024 + 1, 200_000])
def test_starts_of_records_of_any_size(codec: int, size: int) -> None:
    """Records may begin anywhere in what is decompressed at once, also across two steps."""
    records: list[Record] = [(None if number % 3 else b"k" * number, bytes(size)) for number in range(40)]
    data = produced(records, codec=0 if codec == 3 else codec, timestamps=range(5, 45))
    if codec == 3:
        data = with_payload(lz4_frame(lz4_block(data[HEADER_SIZE:], plain=True)), 40, codec)
    expected = [RecordStart(number, number, number % 3 == 0) for number in range(40)]
    assert starts(data) == expected
    uncompressed = len(produced(records, timestamps=range(5, 45))) - HEADER_SIZE
    if codec:
        assert starts(data, uncompressed) == expected
        with pytest.raises(NotDecoded):
            starts(data, uncompressed - 1)


@pytest.mark.parametrize("codec", [0, 1])
def test_steps_are_bounded(codec: int) -> None:
    count = 100 * RECORDS_PER_STEP
    data = produced([(b"k", b"")] * count, codec=codec)
    in_step = 0
    for record in read_records(data, read_header(data), LIMIT):
        in_step = 0 if record is None else in_step + 1
        assert in_step <= RECORDS_PER_STEP


def test_gzip_is_not_kept() -> None:
    """Eight megabytes of values take the memory of one step, plus what zlib needs."""
    data = produced([(b"k", bytes(1_000_000))] * 8, codec=1)
    tracemalloc.start()
    try:
        assert len(starts(data)) == 8
        assert tracemalloc.get_traced_memory()[1] < 5 * GZIP_BYTES_PER_STEP
    finally:
        tracemalloc.stop()


def test_malformed_records() -> None:
    whole = produced([(b"k", b"v")] * 3)[HEADER_SIZE:]
    size = len(whole) // 3
    for payload in (
        b"",
        whole[:-1],
        whole[:-size],
        whole + b"\x00",
        whole[:1],
        b"\xff" * 20,
        b"\x0a" + whole[1:],
    ):
        with pytest.raises(MalformedMessage):
            starts(with_payload(payload, 3))
    keyed = bytearray(whole)
    keyed[4] = 100
    with pytest.raises(MalformedMessage):
        starts(with_payload(bytes(keyed), 3))
    for codec in (1, 2, 3):
        with pytest.raises(MalformedMessage):
            starts(with_payload(b"no frame of a codec", 3, codec))


def test_gzip_that_ends_early() -> None:
    data = produced([(b"k", b"value" * 100)] * 50, codec=1)
    with pytest.raises(NotDecoded):
        starts(with_payload(data[HEADER_SIZE:-9], 50, 1))


def test_zstd_has_no_decoder() -> None:
    with pytest.raises(NotDecoded):
        starts(with_payload(b"zstd", 1, 4))
