"""RecordBatch v2: bytes that other implementations write and read, and rejected input."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kio.records.schema import NewRecordBatch
from kio.records.schema import Record as KioRecord
from kio.records.writers import write_new_batch
from kio.static.primitive import i8, i16, i32, i64

from quorumd.errors import MalformedMessage
from quorumd.protocol import record_batch
from quorumd.protocol.batch_header import HEADER_SIZE, crc_is_valid, read_header
from quorumd.protocol.batch_scan import Gapless, validate
from quorumd.protocol.record_batch import Record, encode_batch, encode_control_batch, records, values
from tests.support.log.raw_batches import resealed
from tests.support.text import shows

TIME = 1_700_000_000_000

GOLDEN = bytes.fromhex(
    "0000000000000007"  # base offset
    "00000042"  # length of the rest
    "00000003"  # epoch
    "02"  # magic
    "0fe2c498"  # CRC-32C, from a bitwise computation
    "0000"  # attributes
    "00000001"  # last offset delta
    "0000018bcfe56800"  # base timestamp
    "0000018bcfe56800"  # max timestamp
    "ffffffffffffffff"  # no producer
    "ffff"
    "ffffffff"
    "00000002"  # records
    "10 00 00 00 01 04 6869 00"  # "hi"
    "0e 00 00 02 01 02 21 00"  # "!"
)


def kio_batch(
    base_offset: int, epoch: int, attributes: int, pairs: list[tuple[bytes | None, bytes]]
) -> bytes:
    out = io.BytesIO()
    when = datetime.fromtimestamp(TIME / 1000, tz=UTC)
    write_new_batch(
        out,
        NewRecordBatch(
            partition_leader_epoch=i32(epoch),
            attributes=i16(attributes),
            producer_id=i64(-1),
            producer_epoch=i16(-1),
            base_sequence=i32(-1),
            records=tuple(
                KioRecord(
                    attributes=i8(0),
                    timestamp=when,
                    offset=i64(base_offset + delta),
                    key=key,
                    value=value,
                    headers=(),
                )
                for delta, (key, value) in enumerate(pairs)
            ),
        ),
    )
    return out.getvalue()


def test_golden_bytes() -> None:
    data = encode_batch(7, 3, TIME, [b"hi", b"!"])
    assert data == GOLDEN
    assert data == kio_batch(7, 3, 0, [(None, b"hi"), (None, b"!")])


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1007, 1008, 1020, 1023, 1024, 8191, 8192, 100_000])
def test_value_of_any_size_is_written_as_kio_writes_it(size: int) -> None:
    data = encode_batch(5, 2, TIME, [b"v" * size, b"x"])
    assert data == kio_batch(5, 2, 0, [(None, b"v" * size), (None, b"x")])
    assert values(data, read_header(data, 0)) == [b"v" * size, b"x"]


def test_more_records_than_precomputed_tables() -> None:
    many = [b"%d" % number for number in range(1500)]
    data = encode_batch(0, 2, TIME, many)
    assert data == kio_batch(0, 2, 0, [(None, value) for value in many])
    assert values(data, read_header(data, 0)) == many


def test_control_batch_is_written_as_kio_writes_it() -> None:
    pairs = [(b"\0\0\0\2", b"first"), (b"\0\0\0\6", b"v" * 300)]
    data = encode_control_batch(40, 9, TIME, pairs)
    assert data == kio_batch(40, 9, 0x20, list(pairs))
    header = read_header(data, 0)
    assert header.is_control
    assert [(record.offset, record.key, record.value) for record in records(data, header)] == [
        (40, b"\0\0\0\2", b"first"),
        (41, b"\0\0\0\6", b"v" * 300),
    ]


def test_kafka_python_reads_what_is_written() -> None:
    read = MemoryRecords(
        encode_batch(10, 1, TIME, [b"a", b"bb"])
        + encode_control_batch(12, 2, TIME, [(b"\0\0\0\2", b"leader")])
        + encode_batch(13, 2, TIME, [b"c" * 5000])
    )
    seen = []
    while read.has_next():
        batch = read.next_batch()
        assert batch is not None
        assert batch.validate_crc()
        seen += [(record.offset, record.timestamp, record.key, record.value) for record in batch]
    assert seen == [
        (10, TIME, None, b"a"),
        (11, TIME, None, b"bb"),
        (12, TIME, b"\0\0\0\2", b"leader"),
        (13, TIME, None, b"c" * 5000),
    ]


def test_records_that_kafka_python_wrote_are_read() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 10_000)
    builder.append(0, 1000, b"key", b"value", [])
    builder.append(1, 1007, None, None, [])
    data = bytes(builder.build())
    header = read_header(data, 0)
    assert crc_is_valid(data, header)
    assert (header.timestamp_ms, header.max_timestamp_ms) == (1000, 1007)
    assert [(r.offset, r.timestamp_ms, r.key, r.value) for r in records(data, header)] == [
        (0, 1000, b"key", b"value"),
        (1, 1007, None, None),
    ]
    with pytest.raises(MalformedMessage, match="record 1 of 2"):
        values(data, header)


@pytest.mark.parametrize(("size", "count"), [(0, 1), (1, 20_000), (1000, 8_000), (8 * 1024 * 1024 - 100, 1)])
def test_record_sizes_stay_within_the_bound(size: int, count: int) -> None:
    data = [bytes(size)] * count
    taken = len(encode_batch(0, 1, TIME, data)) - HEADER_SIZE
    assert taken <= record_batch.size_of_records(data)


def test_batch_without_records_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least one"):
        encode_batch(0, 1, TIME, [])
    with pytest.raises(ValueError, match="at least one"):
        encode_control_batch(0, 1, TIME, [])


def test_compressed_batch_has_a_header_and_a_clear_error() -> None:
    data = bytearray(encode_batch(7, 3, TIME, [b"hi"]))
    data[22] |= 4
    header = validate(resealed(data), Gapless())[0]
    assert header.compression == "zstd"
    for read in (records, values):
        with pytest.raises(MalformedMessage, match=r"offset 7 is compressed \(zstd\)"):
            list(read(bytes(data), header))
    assert validate(encode_batch(7, 3, TIME, [b"hi"]), Gapless())[0].compression == "none"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"\x12\x00\x00\x00\x01\x04hi\x00", "length 9"),  # longer than the batch
        (b"\x0e\x00\x00\x00\x01\x04hi\x00", "add up"),  # shorter than its value
        (b"\x10\x00\x00\x00\x01\x04hi\x02", "add up"),  # one record header
        (b"\x10\x00\x00\x02\x01\x04hi\x00", "offset delta 1"),
        (b"\x10\x00\x00\x01\x01\x04hi\x00", "offset delta -1"),
        (b"\x10\x00\x00\x00\x01\x7fhi\x00", "add up"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "varint"),
        (b"\x01\x00\x00\x00\x01\x04hi\x00", "length -1"),
        (b"\x10\x00\x00\x00\x01\xff\xff\xff\xff", "out of range"),
    ],
)
def test_malformed_record_is_named(record: bytes, reason: str) -> None:
    head = encode_batch(7, 3, TIME, [b"hi"])[:61]
    data = bytearray(head + record)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    sound = resealed(data)
    header = validate(sound, Gapless())[0]
    for read in (records, values):
        with pytest.raises(MalformedMessage, match=rf"offset 7: record 0 of 1 is malformed.*{reason}"):
            list(read(sound, header))


def test_bytes_after_the_last_record_are_refused() -> None:
    data = bytearray(encode_batch(7, 3, TIME, [b"hi"]) + b"\0\0")
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    sound = resealed(data)
    for read in (records, values):
        with pytest.raises(MalformedMessage, match=r"\b2 bytes .*\b1 records"):
            list(read(sound, validate(sound, Gapless())[0]))


def test_impossible_count_is_rejected_before_reading_records() -> None:
    data = bytearray(encode_batch(7, 3, TIME, [b"hi"]))
    data[23:27] = (2**31 - 2).to_bytes(4, "big")
    data[57:61] = (2**31 - 1).to_bytes(4, "big")
    sound = resealed(data)
    for read in (records, values):
        with pytest.raises(MalformedMessage, match=r"2147483647 records .*\b9 bytes"):
            list(read(sound, validate(sound, Gapless())[0]))


def test_values_rejects_records_out_of_order() -> None:
    data = bytearray(encode_batch(7, 3, TIME, [b"hi", b"ho"]))
    data[64], data[73] = data[73], data[64]
    sound = resealed(data)
    with pytest.raises(MalformedMessage, match="offset 8"):
        values(sound, validate(sound, Gapless())[0])


def test_both_readers_agree_on_overlong_varints() -> None:
    """Read as two bytes, these lengths would be 8192 too large, and a value of that length would fit."""
    value_size = 8192 + 40
    record_size = 4 + 2 + value_size + 1

    def overlong(size: int) -> bytes:
        return bytes([size << 1 & 0x7F | 0x80, size << 1 >> 7])

    record = overlong(record_size) + b"\0\0\0\1" + overlong(value_size) + bytes(value_size) + b"\0"
    data = bytearray(encode_batch(7, 3, TIME, [b"hi"])[:61] + record)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    header = read_header(bytes(data), 0)
    for read in (records, values):
        with pytest.raises(MalformedMessage, match="record 0 of 1"):
            list(read(bytes(data), header))


def test_repr_of_a_record_shows_offset_key_and_value() -> None:
    assert shows(repr(Record(7, TIME, b"k", None)), "7", "b'k'", "None")
