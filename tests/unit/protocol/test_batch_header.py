"""Headers of batches: parsed against the declared layout, verified, stamped without touching records."""

from __future__ import annotations

import pytest

from quorumd.errors import MalformedMessage
from quorumd.protocol import layouts
from quorumd.protocol.batch_header import (
    HEADER_SIZE,
    MAX_SEQUENCE,
    crc_is_valid,
    read_header,
    stamped,
    with_log_append_time,
)
from quorumd.protocol.record_batch import encode_batch
from tests.support.log.data_batches import produced
from tests.support.text import shows

TIME = 1_700_000_000_000


def test_header_fields_are_those_of_the_layout() -> None:
    data = produced(
        [(b"k", b"v")] * 3, producer_id=77, producer_epoch=5, sequence=9, transactional=True, codec=1
    )
    batch = read_header(data)
    layout = layouts.BatchHeader.parse(data)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 5, 9)
    assert batch.last_sequence == 11
    assert layout.producer_id == batch.producer_id
    assert layout.producer_epoch == batch.producer_epoch
    assert layout.base_sequence == batch.base_sequence
    assert layout.attributes.is_transactional == batch.is_transactional is True
    assert layout.attributes.compression == batch.codec == 1
    assert layout.crc == batch.crc
    assert crc_is_valid(data, batch)


def test_stamping_changes_base_offset_and_epoch_only() -> None:
    data = produced([(b"k", b"v" * 100)] * 4, codec=1)
    batch = read_header(data)
    changed = stamped(data, batch, 12345678901, 42)
    again = read_header(changed)
    assert (again.base_offset, again.end_offset, again.epoch) == (12345678901, 12345678905, 42)
    assert (batch.base_offset, batch.end_offset, batch.epoch) == (12345678901, 12345678905, 42)
    assert changed[16:] == data[16:]
    assert changed[8:12] == data[8:12]
    assert crc_is_valid(changed, again)


def test_log_append_time_replaces_the_maximum_timestamp_and_the_crc() -> None:
    data = produced([(b"k", b"v")], timestamps=[5])
    batch = read_header(data)
    changed = with_log_append_time(data, batch, 777)
    again = read_header(changed)
    assert again.has_log_append_time
    assert (again.timestamp_ms, again.max_timestamp_ms) == (5, 777)
    assert crc_is_valid(changed, again)
    assert changed[61:] == data[61:]


def test_sequences_continue_at_zero_after_the_largest() -> None:
    data = produced([(b"k", b"v")] * 3, producer_id=1, producer_epoch=0, sequence=MAX_SEQUENCE - 1)
    assert read_header(data).last_sequence == 0


def test_batches_without_producer_have_no_sequence() -> None:
    assert read_header(produced([(b"k", b"v")] * 3)).last_sequence == -1


def test_header_is_readable_without_its_records() -> None:
    data = encode_batch(7, 3, TIME, [b"hi"])
    assert read_header(data[:HEADER_SIZE], 0).size == len(data)


@pytest.mark.parametrize(
    ("at", "new"),
    [
        (0, b"\xff"),  # base offset
        (8, b"\x00\x00\x00\x30"),  # shorter than a header
        (8, b"\xff\xff\xff\xff"),
        (16, b"\x01"),  # magic
        (23, b"\xff"),  # last offset delta
        (57, b"\xff"),  # count
    ],
)
def test_invalid_header_is_rejected(at: int, new: bytes) -> None:
    data = bytearray(encode_batch(7, 3, TIME, [b"hi"]))
    data[at : at + len(new)] = new
    with pytest.raises(MalformedMessage, match="position 0"):
        read_header(bytes(data), 0)


def test_repr_shows_kind_offsets_and_producer() -> None:
    header = read_header(produced(producer_id=77, producer_epoch=5, sequence=9, transactional=True))
    assert shows(repr(header), "transactional", "0..1", "77:5", f"{header.size} bytes")
    assert "producer" not in repr(read_header(produced()))
