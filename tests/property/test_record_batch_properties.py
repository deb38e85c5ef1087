"""RecordBatch v2 against construct's declaration, hostile bytes and its own inverse."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quorumd.errors import MalformedMessage
from quorumd.protocol import layouts
from quorumd.protocol.batch_header import read_header
from quorumd.protocol.batch_scan import Gapless, scan, validate
from quorumd.protocol.record_batch import encode_batch, encode_control_batch, records, values

offsets = st.integers(0, 2**62)
epochs = st.integers(0, 2**31 - 1)
times = st.integers(-1, 2**62)
payloads = st.lists(st.binary(max_size=300), min_size=1, max_size=20)
controls = st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=300)), min_size=1, max_size=5)


@given(offsets, epochs, times, payloads)
def test_data_batch_equals_that_of_construct(
    base_offset: int, epoch: int, time: int, payload: list[bytes]
) -> None:
    data = encode_batch(base_offset, epoch, time, payload)
    declared = layouts.Batch.parse(data)
    assert layouts.Batch.build(declared) == data
    assert [(record.key, record.value) for record in declared.records] == [(None, v) for v in payload]
    (header,) = validate(data, Gapless(base_offset))
    assert (header.base_offset, header.end_offset, header.epoch, header.crc) == (
        declared.header.base_offset,
        declared.header.base_offset + declared.header.last_offset_delta + 1,
        declared.header.epoch,
        declared.header.crc,
    )
    assert (header.timestamp_ms, header.max_timestamp_ms, header.count, header.size, header.is_control) == (
        declared.header.base_timestamp,
        declared.header.max_timestamp,
        declared.header.record_count,
        declared.size,
        declared.header.attributes.is_control,
    )


@given(offsets, epochs, times, payloads)
def test_values_round_trip(base_offset: int, epoch: int, time: int, payload: list[bytes]) -> None:
    data = encode_batch(base_offset, epoch, time, payload)
    header = read_header(data, 0)
    assert values(data, header) == payload
    assert [(r.offset, r.timestamp_ms, r.key, r.value) for r in records(data, header)] == [
        (base_offset + delta, time, None, value) for delta, value in enumerate(payload)
    ]


@given(offsets, epochs, times, controls)
def test_control_batch_equals_that_of_construct(
    base_offset: int, epoch: int, time: int, pairs: list[tuple[bytes, bytes]]
) -> None:
    data = encode_control_batch(base_offset, epoch, time, pairs)
    declared = layouts.Batch.parse(data)
    assert layouts.Batch.build(declared) == data
    assert declared.header.attributes.is_control
    (header,) = validate(data, Gapless())
    assert header.is_control
    assert [(record.key, record.value) for record in records(data, header)] == pairs
    assert values(data, header) == [value for _, value in pairs]


@given(payloads, st.data())
def test_flipped_bit_after_length_and_epoch_is_found(payload: list[bytes], draw: st.DataObject) -> None:
    data = bytearray(encode_batch(0, 1, 0, payload))
    data[draw.draw(st.integers(16, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    with pytest.raises(MalformedMessage):
        validate(bytes(data), Gapless())


@given(payloads, st.data())
def test_any_change_is_found_or_changes_only_offset_or_epoch(
    payload: list[bytes], draw: st.DataObject
) -> None:
    data = bytearray(encode_batch(0, 1, 0, payload))
    data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    try:
        (header,) = validate(bytes(data), Gapless())
    except MalformedMessage:
        return
    assert values(bytes(data), header) == payload


@given(payloads, st.data())
def test_prefix_is_not_a_batch(payload: list[bytes], draw: st.DataObject) -> None:
    data = encode_batch(3, 1, 0, payload)
    prefix = data[: draw.draw(st.integers(1, len(data) - 1))]
    found = scan(prefix, Gapless())
    assert (found.headers, found.end) == ([], 0)
    if any(prefix):
        assert found.incomplete
        assert len(prefix) < found.needed_bytes <= len(data)
    with pytest.raises(MalformedMessage):
        validate(prefix, Gapless())


@settings(max_examples=300)
@given(st.binary(max_size=120), st.integers(1, 4))
@example(b"\xff\x80\x00", 1)
@example(bytes.fromhex("90800000000100047869"), 1)
def test_records_of_any_bytes_are_values_or_malformed(body: bytes, count: int) -> None:
    """The fast reader agrees with the other one on any batch."""
    head = bytearray(encode_batch(7, 1, 0, [b""] * count)[:61])
    head[8:12] = (len(head) + len(body) - 12).to_bytes(4, "big")
    data = bytes(head) + body + b"\0" * 20
    header = read_header(data, 0)
    try:
        slow = [(record.offset, record.value) for record in records(data, header)]
    except MalformedMessage:
        slow = []
    try:
        fast = [(7 + index, value) for index, value in enumerate(values(data, header))]
    except MalformedMessage:
        fast = []
    if slow != fast:
        assert fast == []
        assert any(value is None for _, value in slow) or [o for o, _ in slow] != list(range(7, 7 + count))


@given(st.lists(payloads, min_size=1, max_size=4), st.integers(0, 200), st.data())
def test_scan_finds_exactly_the_batches_before_a_torn_tail(
    batches: list[list[bytes]], zeros: int, draw: st.DataObject
) -> None:
    data = b""
    ends = [0]
    offset = 0
    for payload in batches:
        data += encode_batch(offset, 1, 0, payload)
        offset += len(payload)
        ends.append(len(data))
    cut = draw.draw(st.integers(0, len(data)))
    found = scan(data[:cut] + bytes(zeros if cut == len(data) else 0), Gapless())
    assert found.end == max(end for end in ends if end <= cut)
    assert len(found.headers) == ends.index(found.end)
    assert (found.fault == "") == (cut in ends or not any(data[found.end : cut]))
