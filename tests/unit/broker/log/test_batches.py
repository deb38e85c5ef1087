"""Headers of data batches: parsed against the declared layout, verified, stamped without touching records."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.broker.log.batches import (
    MAX_SEQUENCE,
    crc_is_valid,
    read_batch,
    scan_batches,
    stamped,
    with_log_append_time,
)
from quorumd.errors import MalformedMessage
from quorumd.protocol.layouts import BatchHeader
from tests.support.log.data_batches import produced


def test_header_fields_are_those_of_the_layout() -> None:
    data = produced(
        [(b"k", b"v")] * 3, producer_id=77, producer_epoch=5, sequence=9, transactional=True, codec=1
    )
    batch = read_batch(data)
    layout = BatchHeader.parse(data)
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
    batch = read_batch(data)
    changed = stamped(data, batch, 12345678901, 42)
    again = read_batch(changed)
    assert (again.base_offset, again.end_offset, again.epoch) == (12345678901, 12345678905, 42)
    assert (batch.base_offset, batch.end_offset, batch.epoch) == (12345678901, 12345678905, 42)
    assert changed[16:] == data[16:]
    assert changed[8:12] == data[8:12]
    assert crc_is_valid(changed, again)


def test_log_append_time_replaces_the_maximum_timestamp_and_the_crc() -> None:
    data = produced([(b"k", b"v")], timestamps=[5])
    batch = read_batch(data)
    changed = with_log_append_time(data, batch, 777)
    again = read_batch(changed)
    assert again.has_log_append_time
    assert (again.timestamp_ms, again.max_timestamp_ms) == (5, 777)
    assert crc_is_valid(changed, again)
    assert changed[61:] == data[61:]


def test_sequences_continue_at_zero_after_the_largest() -> None:
    data = produced([(b"k", b"v")] * 3, producer_id=1, producer_epoch=0, sequence=MAX_SEQUENCE - 1)
    assert read_batch(data).last_sequence == 0


def test_batches_without_producer_have_no_sequence() -> None:
    assert read_batch(produced([(b"k", b"v")] * 3)).last_sequence == -1


@pytest.mark.parametrize("position", [8, 16, 23, 57, 60])
def test_invalid_headers_are_rejected(position: int) -> None:
    data = bytearray(produced())
    data[position] ^= 0x80
    with pytest.raises(MalformedMessage):
        read_batch(bytes(data))


def test_scan_stops_at_any_flipped_bit() -> None:
    random = Random(3)
    batches = [produced([(b"k", random.randbytes(50))], base_offset=index) for index in range(3)]
    data = b"".join(batches)
    second = len(batches[0])
    for position in range(second, second + len(batches[1])):
        if second + 12 <= position < second + 16:
            continue  # The leader epoch is not covered.
        changed = bytearray(data)
        changed[position] ^= 1 << random.randrange(8)
        scan = scan_batches(bytes(changed), 0)
        # Before magic only the base offset may still be plausible: the CRC does not cover it.
        if position >= second + 8:
            assert scan.end == second
            assert scan.fault


def test_scan_accepts_gaps_and_refuses_offsets_below_the_end() -> None:
    data = produced(base_offset=5) + produced(base_offset=9)
    assert [batch.base_offset for batch in scan_batches(data, 5).batches] == [5, 9]
    assert scan_batches(data, 6).batches == []
    assert len(scan_batches(produced(base_offset=5) + produced(base_offset=5), 0).batches) == 1


def test_scan_reports_how_much_a_cut_off_batch_needs() -> None:
    data = produced() + produced([(b"k", b"v" * 200)], base_offset=1)
    first = len(produced())
    scan = scan_batches(data[: first + 30], 0)
    assert (scan.end, scan.needed_bytes) == (first, 61)
    scan = scan_batches(data[: first + 100], 0)
    assert (scan.end, scan.needed_bytes) == (first, len(data) - first)


def test_scan_stops_silently_at_zeros() -> None:
    scan = scan_batches(produced() + bytes(500), 0)
    assert (len(scan.batches), scan.fault) == (1, "")
