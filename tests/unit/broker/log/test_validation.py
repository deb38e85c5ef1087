"""Batches that a leader refuses, each with Kafka's error code."""

from __future__ import annotations

import struct
from collections import deque

import crc32c
import pytest

from quorumd.broker.log import PartitionLogSettings, validation
from quorumd.broker.log.producer_state import ProducerStates
from quorumd.broker.log.transaction_marker import TransactionMarker, encode_marker
from quorumd.broker.log.validation import Origin, requires_keys, validate_keys, validate_produced
from quorumd.errors import ErrorCode, RequestError
from quorumd.protocol.batch_header import LOG_APPEND_TIME_BIT, encode_header, read_header
from tests.support.log.data_batches import produced

NOW = 1_000_000


def refused(
    records: bytes, settings: PartitionLogSettings | None = None, origin: Origin = Origin.CLIENT
) -> ErrorCode:
    with pytest.raises(RequestError) as caught:
        validate_produced(records, settings or PartitionLogSettings(), NOW, origin)
    return caught.value.error


def with_byte(data: bytes, position: int, value: int) -> bytes:
    changed = bytearray(data)
    changed[position] = value
    return bytes(changed)


def test_valid_batch_is_returned() -> None:
    batch = validate_produced(produced([(None, b"v")] * 2), PartitionLogSettings(), NOW, Origin.CLIENT)
    assert (batch.count, batch.end_offset) == (2, 2)


def test_corrupt_batches() -> None:
    data = produced()
    assert refused(with_byte(data, len(data) - 1, 7)) is ErrorCode.CORRUPT_MESSAGE
    assert refused(data[:-1]) is ErrorCode.CORRUPT_MESSAGE
    assert refused(data[:30]) is ErrorCode.INVALID_RECORD
    assert refused(b"") is ErrorCode.INVALID_RECORD
    assert refused(with_byte(data, 16, 1)) is ErrorCode.INVALID_RECORD


def test_every_offset_has_a_record() -> None:
    """A compacted batch has fewer records than offsets, but no client writes one."""
    data = bytearray(produced())
    struct.pack_into(">i", data, 23, 5)
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    assert refused(bytes(data)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(("codec", "most"), [(0, 1), (1, 1_474), (2, 45), (3, 365), (4, 57_142)])
def test_number_of_records_is_plausible(codec: int, most: int) -> None:
    """A batch of a few bytes with two billion records, each with an offset, took a whole segment."""
    header = read_header(produced([(None, None)]))
    header.attributes = codec
    for count, is_refused in ((most, False), (most + 1, True), (2**31 - 1, True)):
        header.count = header.end_offset = count
        data = encode_header(header, bytes(10))
        if is_refused:
            assert refused(data) is ErrorCode.INVALID_RECORD
        else:
            assert validate_produced(data, PartitionLogSettings(), NOW, Origin.CLIENT).count == count


def test_one_batch_per_partition() -> None:
    assert refused(produced() + produced()) is ErrorCode.INVALID_RECORD


def test_sizes() -> None:
    data = produced([(b"k", b"v" * 1000)])
    settings = PartitionLogSettings(max_message_bytes=len(data))
    assert validate_produced(data, settings, NOW, Origin.CLIENT).size == len(data)
    settings.max_message_bytes -= 1
    assert refused(data, settings) is ErrorCode.MESSAGE_TOO_LARGE
    assert validate_produced(data, settings, NOW, Origin.COORDINATOR).size == len(data)
    assert refused(data, PartitionLogSettings(segment_bytes=1000)) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_headers_that_only_brokers_write() -> None:
    assert refused(produced(base_offset=1)) is ErrorCode.INVALID_RECORD
    marker = encode_marker(1, 0, TransactionMarker(True, 0), NOW)
    assert refused(marker) is ErrorCode.INVALID_RECORD
    assert refused(produced([])) is ErrorCode.INVALID_RECORD
    without_sequence = produced(producer_id=1, producer_epoch=0, sequence=-1)
    assert refused(without_sequence) is ErrorCode.INVALID_RECORD
    assert validate_produced(without_sequence, PartitionLogSettings(), NOW, Origin.COORDINATOR).count == 1


def test_unknown_codec() -> None:
    assert refused(produced_with_attributes(5)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def produced_with_attributes(attributes: int) -> bytes:
    data = produced()
    batch = read_header(data)
    batch.attributes = attributes
    return encode_header(batch, data[61:])


def test_timestamps() -> None:
    settings = PartitionLogSettings(message_timestamp_before_max_ms=100, message_timestamp_after_max_ms=10)
    for good in (NOW - 100, NOW, NOW + 10):
        assert validate_produced(produced(timestamps=[good]), settings, NOW, Origin.CLIENT).count == 1
    for bad in (NOW - 101, NOW + 11):
        assert refused(produced(timestamps=[bad]), settings) is ErrorCode.INVALID_TIMESTAMP
    assert refused(produced_with_attributes(LOG_APPEND_TIME_BIT)) is ErrorCode.INVALID_TIMESTAMP
    settings.message_timestamp_type = "LogAppendTime"
    assert validate_produced(produced(timestamps=[NOW + 11]), settings, NOW, Origin.CLIENT).count == 1


COMPACTED = PartitionLogSettings(cleanup_policy=("compact",))


def refused_for_its_keys(records: bytes) -> ErrorCode:
    with pytest.raises(RequestError) as caught:
        deque(validate_keys(records, COMPACTED, NOW), maxlen=0)
    return caught.value.error


@pytest.mark.parametrize("codec", [0, 1])
def test_compacted_topics_require_keys(codec: int) -> None:
    records = [(b"k", b"v")] * 100
    assert len(list(validate_keys(produced(records, codec=codec), COMPACTED, NOW))) == 3 + codec
    assert requires_keys(produced(records, codec=codec), COMPACTED)
    assert not requires_keys(produced(records, codec=codec), PartitionLogSettings())
    without_key = produced([*records, (None, b"v")], codec=codec)
    assert refused_for_its_keys(without_key) is ErrorCode.INVALID_RECORD
    assert refused_for_its_keys(with_byte(without_key, len(without_key) - 1, 7)) is ErrorCode.CORRUPT_MESSAGE
    garbage = encode_header(read_header(produced(codec=codec)), b"garbage")
    assert refused_for_its_keys(garbage) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [2, 3, 4])
def test_keys_are_not_read_where_that_is_slow(codec: int) -> None:
    assert not requires_keys(produced_with_attributes(codec), COMPACTED)
    assert not requires_keys(b"short", COMPACTED)


@pytest.mark.parametrize("codec", [0, 1])
def test_batch_with_too_many_keys_is_refused(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MAX_RECORDS_WITH_KEYS", 2)
    allowed, refusing = ([(b"k", b"v")] * count for count in (2, 3))
    deque(validate_keys(produced(allowed, codec=codec), COMPACTED, NOW), maxlen=0)
    assert refused_for_its_keys(produced(refusing, codec=codec)) is ErrorCode.INVALID_RECORD


def test_batch_of_a_compacted_topic_that_is_huge_when_decompressed_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validation, "MAX_BYTES_WITH_KEYS", 100_000)
    assert refused_for_its_keys(produced([(b"k", bytes(100_000))], codec=1)) is ErrorCode.INVALID_RECORD


def states_after(*batches: bytes) -> ProducerStates:
    states = ProducerStates()
    offset = 0
    for data in batches:
        batch = read_header(data)
        batch.base_offset, batch.end_offset = offset, offset + batch.end_offset
        offset = batch.end_offset
        states.update(batch, None)
    return states


def of_producer(sequence: int, count: int = 1, epoch: int = 3, transactional: bool = False) -> bytes:
    return produced(
        [(b"k", b"v")] * count,
        producer_id=9,
        producer_epoch=epoch,
        sequence=sequence,
        transactional=transactional,
    )


@pytest.mark.parametrize(
    ("before", "data", "error"),
    [
        ((), of_producer(5), None),
        ((of_producer(5, 2),), of_producer(7), None),
        ((of_producer(5, 2),), of_producer(8), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ((of_producer(5, 2),), of_producer(6), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ((of_producer(2**31 - 1),), of_producer(0), None),
        ((of_producer(5),), of_producer(0, epoch=4), None),
        ((of_producer(5),), of_producer(6, epoch=4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ((of_producer(5),), of_producer(6, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH),
        ((of_producer(0, transactional=True),), of_producer(1), ErrorCode.INVALID_TXN_STATE),
        ((of_producer(0, transactional=True),), of_producer(1, transactional=True), None),
    ],
)
def test_sequences_and_epochs_of_a_producer(
    before: tuple[bytes, ...], data: bytes, error: ErrorCode | None
) -> None:
    states = states_after(*before)
    if error is None:
        states.check(read_header(data), Origin.CLIENT)
    else:
        with pytest.raises(RequestError) as caught:
            states.check(read_header(data), Origin.CLIENT)
        assert caught.value.error is error


def test_last_five_batches_are_recognised() -> None:
    batches = [of_producer(sequence) for sequence in range(7)]
    states = states_after(*batches)
    known = [states.duplicate_of(read_header(data)) for data in batches]
    assert known[:2] == [None, None]
    assert [found.base_offset for found in known[2:] if found is not None] == [2, 3, 4, 5, 6]
    assert states.duplicate_of(read_header(of_producer(5, 2))) is None
    assert states.duplicate_of(read_header(of_producer(5, epoch=4))) is None


@pytest.mark.parametrize(
    ("version", "producer_epoch", "coordinator_epoch", "error"),
    [
        (0, 3, 1, None),
        (2, 3, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 4, 1, None),
        (0, 2, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (0, 3, 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ],
)
def test_markers_are_fenced_by_both_epochs(
    version: int, producer_epoch: int, coordinator_epoch: int, error: ErrorCode | None
) -> None:
    states = states_after(of_producer(0, transactional=True))
    marker = read_header(encode_marker(9, 3, TransactionMarker(True, 1), NOW))
    marker.base_offset, marker.end_offset = 1, 2
    states.update(marker, TransactionMarker(True, 1))
    data = read_header(of_producer(1, transactional=True))
    data.base_offset, data.end_offset = 2, 3
    states.update(data, None)
    if error is None:
        states.check_marker(9, producer_epoch, coordinator_epoch, version)
    else:
        with pytest.raises(RequestError) as caught:
            states.check_marker(9, producer_epoch, coordinator_epoch, version)
        assert caught.value.error is error


def test_repeated_marker_of_an_ended_transaction_is_accepted() -> None:
    states = states_after(of_producer(0, transactional=True))
    marker = read_header(encode_marker(9, 4, TransactionMarker(True, 1), NOW))
    states.update(marker, TransactionMarker(True, 1))
    states.check_marker(9, 4, 1, 2)
