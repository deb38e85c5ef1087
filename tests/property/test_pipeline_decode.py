"""The vectorised decoder equals the node's codec on any bytes."""

from __future__ import annotations

import random
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorumd.ids import KafkaUuid
from quorumd.pipeline.decode import decode_records, plain_rows, records_table
from quorumd.pipeline.decode.plain import LATEST_MS
from quorumd.pipeline.scan.batches import PIECE_BYTES, START, read_pieces, scan
from quorumd.pipeline.tables.schemas import INTS, RECORDS
from quorumd.protocol import messages
from quorumd.protocol.codec import encode
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import encode_record
from scripts.log_generator import LogShape, chunks
from tests.support.log.raw_batches import raw_batch, raw_record, resealed, varint
from tests.support.protocol.message_strategies import message_values, versions_of

METADATA = [(name, version) for name in messages.RECORDS.values() for version in versions_of(name)]
CONTROL = {
    2: "LeaderChangeMessage",
    3: "SnapshotHeaderRecord",
    4: "SnapshotFooterRecord",
    5: "KRaftVersionRecord",
    6: "VotersRecord",
}
QUICK = settings(max_examples=10, suppress_health_check=list(HealthCheck))


def check(data: bytes) -> pa.RecordBatch:
    """The decoded columns, checked against the codec, with lists as arrays and packed."""
    batches = scan(data).batches
    rows = plain_rows(data, batches, 3, "name.log", 50)
    table = decode_records(data, batches, 3, "name.log", 50)
    assert_equal(table, pa.RecordBatch.from_pylist(rows, RECORDS.arrow()))
    packed = [{name: packed_cell(name, value) for name, value in row.items()} for row in rows]
    assert_equal(
        decode_records(data, batches, 3, "name.log", 50, packed=True),
        pa.RecordBatch.from_pylist(packed, RECORDS.packed().arrow()),
    )
    return table


LISTS = frozenset(column.name for column in RECORDS.columns if column.type == INTS)


def packed_cell(name: str, value: Any) -> Any:
    return struct.pack(f"<{len(value)}i", *value) if name in LISTS else value


def assert_equal(found: pa.RecordBatch, expected: pa.RecordBatch) -> None:
    found.validate(full=True)
    assert found.schema == expected.schema
    for name in found.schema.names:
        assert found.column(name).equals(expected.column(name)), (
            name,
            found.column(name).to_pylist(),
            expected.column(name).to_pylist(),
        )


def mixed_with(values: list[bytes]) -> bytes:
    """The values in batches of many shapes: one per batch, all in one, many batches."""
    alone = [raw_batch([raw_record(value, 0)], 10 + index) for index, value in enumerate(values)]
    together = raw_batch([raw_record(value, index) for index, value in enumerate(values)], 100)
    many = [raw_batch([raw_record(value, index) for index, value in enumerate(values)])] * 30
    return b"".join([*alone, together, *many])


@pytest.mark.parametrize(("name", "version"), METADATA)
@given(data=st.data())
@QUICK
def test_every_record_type_and_version(name: str, version: int, data: st.DataObject) -> None:
    found = data.draw(st.lists(message_values(name, version), min_size=1, max_size=4))
    check(mixed_with([encode_record(message, version) for message in found]))


@pytest.mark.parametrize("number", CONTROL)
@given(data=st.data())
@QUICK
def test_every_control_record(number: int, data: st.DataObject) -> None:
    found = data.draw(st.lists(message_values(CONTROL[number], 0), min_size=1, max_size=3))
    keys = [number.to_bytes(4, "big"), *data.draw(st.lists(st.binary(max_size=5), max_size=2))]
    records = [
        raw_record(encode(message, 0), index, key=data.draw(st.sampled_from(keys)))
        for index, message in enumerate(found)
    ]
    check(raw_batch(records, attributes=0x20))


ids = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40)
uuids = st.lists(st.binary(min_size=16, max_size=16).map(KafkaUuid), max_size=20)
partitions = st.builds(
    PartitionRecord,
    st.integers(0, 2**31 - 1),
    st.binary(min_size=16, max_size=16).map(KafkaUuid),
    ids,
    ids,
    ids,
    ids,
    directories=uuids,
    eligible_leader_replicas=st.none() | ids,
    last_known_elr=st.none() | ids,
    original_replicas=st.none() | ids,
)
changes = st.builds(
    PartitionChangeRecord,
    st.integers(0, 2**31 - 1),
    st.binary(min_size=16, max_size=16).map(KafkaUuid),
    st.none() | ids,
    st.sampled_from([-2, -1, 0, 7]),
    st.none() | ids,
    st.none() | ids,
    directories=st.none() | uuids,
    original_replicas=st.none() | ids,
)


@given(st.lists(partitions | changes, min_size=1, max_size=8), st.randoms(use_true_random=False))
@QUICK
def test_lists_of_any_length(found: list[Any], dice: random.Random) -> None:
    check(mixed_with([encode_record(message, 2) for message in found]))


names = st.text(alphabet="abc.-~ ", max_size=12) | st.sampled_from(
    ['"', "\\", "\x7f", "\x00", "é", "x" * 300]
)
configs = st.builds(ConfigRecord, st.integers(-128, 127), names, names, st.none() | names)


@given(st.lists(configs, min_size=1, max_size=12), st.binary(max_size=3))
@settings(QUICK, max_examples=60)
def test_configs(found: list[ConfigRecord], behind: bytes) -> None:
    values = [encode_record(message, 0) for message in found]
    check(mixed_with([*values, values[0] + behind, values[0][:-1] + behind, values[0][:-1]]))


def test_lists_that_need_longer_lengths() -> None:
    for count in (31, 32, 126, 127, 128, 1_000, 8_000, 20_000):
        whole = PartitionRecord(
            1, KafkaUuid(bytes(16)), list(range(count)), original_replicas=list(range(count))
        )
        change = PartitionChangeRecord(1, KafkaUuid(bytes(16)), isr=list(range(count)))
        check(mixed_with([encode_record(whole, 2), encode_record(change, 1)]))


tags = st.tuples(
    st.sampled_from([0, 1, 2, 3, 5, 8, 9, 63, 64, 127, 128, 9999, 10000, 10001, 2**31]),
    st.binary(max_size=9) | st.sampled_from([b"\0", b"\x01", b"\x02\0\0\0\x05", bytes(200)]),
)


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


@pytest.mark.parametrize(
    "name", ["PartitionRecord", "PartitionChangeRecord", "BrokerRegistrationChangeRecord", "NoOpRecord"]
)
@given(data=st.data())
@settings(QUICK, max_examples=60)
def test_known_unknown_malformed_and_repeated_tagged_fields(name: str, data: st.DataObject) -> None:
    values = []
    for _ in range(3):
        version = data.draw(st.sampled_from(versions_of(name)))
        found = data.draw(st.lists(tags, max_size=4))
        message = data.draw(message_values(name, version))
        for slot in message.FIELDS:
            # Without its own tagged fields: those drawn here replace them.
            if getattr(message, slot) is None or slot in ("fenced", "leader_recovery_state"):
                setattr(message, slot, getattr(type(message)(), slot))
        frame = encode_record(message, version)
        section = b"".join(uvarint(tag) + uvarint(len(payload)) + payload for tag, payload in found)
        count = data.draw(st.sampled_from([len(found), len(found), len(found), len(found) + 1, 200]))
        values.append(frame[:-1] + uvarint(count) + section)
    check(mixed_with(values))


@pytest.mark.parametrize("second", [b"\0", b"\x01", b"\x02\0\0\0\x09"])
def test_repeated_or_unordered_tag(second: bytes) -> None:
    frame = encode_record(PartitionChangeRecord(1), 2)[:-1]
    first = b"\x02\0\0\0\x07"
    for tags in ((0, 0), (3, 0), (0, 3)):
        section = b"".join(
            uvarint(tag) + uvarint(len(payload)) + payload
            for tag, payload in zip(tags, (first, second), strict=True)
        )
        check(mixed_with([frame + b"\x02" + section]))


def test_null_where_it_is_not_allowed() -> None:
    # Read as a length of -1 the name would be empty, and the rest would be valid.
    table = check(mixed_with([b"\x01\x02\0" + bytes(17)]))
    assert table.column("fault").null_count == 0


odd_records = st.builds(
    raw_record,
    st.none() | st.binary(max_size=5) | st.just(encode_record(PartitionRecord(1), 2)) | st.just(bytes(9_000)),
    st.sampled_from([0, 1, 2, 3, -1, 2**31, 2**40]),
    st.sampled_from([0, 0, -5, 2**31, -(2**35), 2**62, -(2**63)]),
    st.none() | st.binary(max_size=3) | st.just(bytes(200)),
    st.integers(0, 255),
    st.sampled_from([b"\0", b"\0", b"\0", b"", b"\x02", b"\x02\x02k\x02v", b"\0\0"]),
    st.sampled_from([0, 0, 2, 4, 9]),
)


@given(
    st.lists(odd_records | st.binary(max_size=9) | st.just(varint(-4)), min_size=1, max_size=6),
    st.sampled_from([None, None, 1, 3, 2**31 - 1]),
    st.sampled_from([None, 3, 0, 2**30]),
    st.sampled_from([0, -1, 1_000, 2**62, -(2**63), 9_223_372_036_854_775, 9_223_372_036_854_776]),
    st.sampled_from([0, 0, 0x20, 1, 4, 0x10]),
)
@settings(QUICK, max_examples=300)
def test_records_of_any_shape(
    records: list[bytes], count: int | None, last_delta: int | None, time: int, attributes: int
) -> None:
    odd = raw_batch(records, 7, count, last_delta, time, attributes)
    sound = raw_batch([raw_record(encode_record(PartitionRecord(5), 1), 0)])
    check(odd)
    check(sound + odd + sound)
    check(odd * 30)


SIZES = [
    0,
    1,
    50,
    51,
    52,
    53,
    60,
    63,
    64,
    110,
    115,
    120,
    125,
    126,
    127,
    128,
    2_000,
    2_030,
    2_040,
    2_047,
    2_048,
    8_150,
]
some_values = st.one_of(
    st.sampled_from(METADATA)
    .flatmap(lambda kind: st.tuples(message_values(kind[0], kind[1]), st.just(kind[1])))
    .map(lambda made: encode_record(*made)),
    (partitions | changes).map(lambda message: encode_record(message, 2)),
    configs.map(lambda message: encode_record(message, 0)),
    # Around the sizes at which lengths need another byte.
    st.sampled_from(SIZES).map(lambda size: encode_record(ConfigRecord(2, "t", "n", "v" * size), 0)),
    st.sampled_from(SIZES).map(lambda size: encode_record(TopicRecord("t" * size, KafkaUuid(bytes(16))), 0)),
    st.binary(max_size=40),
)


@st.composite
def some_batch(draw: st.DrawFn) -> bytes:
    """A batch of any kind, valid or not."""
    values = draw(st.lists(some_values, min_size=1, max_size=5))
    times = st.sampled_from([0, 0, 1, -1, 70, 2**20, 2**33])
    records = [raw_record(value, index, draw(times)) for index, value in enumerate(values)]
    attributes = draw(st.sampled_from([0, 0, 0, 0, 0x20, 1, 0x40]))
    batch = raw_batch(
        records, draw(st.integers(0, 2**62)), attributes=attributes, epoch=draw(st.integers(0, 9))
    )
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(21, len(batch) - 1))
        broken = batch[:at] + bytes([batch[at] ^ 1 << draw(st.integers(0, 7))]) + batch[at + 1 :]
        return resealed(broken) if draw(st.booleans()) else broken
    return batch


@given(st.lists(some_batch(), min_size=1, max_size=8), st.sampled_from([1, 1, 9, 70]))
@settings(QUICK, max_examples=80)
def test_batches_of_all_kinds_together(batches: list[bytes], times: int) -> None:
    check(b"".join(batches * times))


EDGES_OF_TIME = [
    *(-(2**63), -(2**63) + 1, 2**63 - 1, 0, -1, 1_700_000_000_000),
    *(
        sign * (edge + near)
        for sign in (1, -1)
        for edge in (LATEST_MS, LATEST_MS - 2**35)
        for near in (-1, 0, 1)
    ),
]


@given(
    st.sampled_from(EDGES_OF_TIME) | st.integers(-(2**63), 2**63 - 1),
    st.lists(st.sampled_from([0, 1, -1, 2**34 - 1, -(2**34), 2**35, 2**62]), min_size=1, max_size=4),
)
@settings(QUICK, max_examples=120)
def test_unknown_and_out_of_range_timestamps(base: int, deltas: list[int]) -> None:
    value = encode_record(PartitionRecord(5), 1)
    records = [raw_record(value, index, delta) for index, delta in enumerate(deltas)]
    check(raw_batch(records, base_timestamp=base))
    check(raw_batch(records, base_timestamp=base) + raw_batch(records))


def some_log() -> bytes:
    shape = LogShape(records=260, batch_records=6, brokers=4, topics=2, partitions=3)
    return b"".join(chunk.data for chunk in chunks(shape))


def test_every_byte_of_every_record_changed() -> None:
    log = some_log()
    batches = scan(log).batches
    dice = random.Random(4)
    for index in range(len(batches)):
        start = int(batches.position[index])
        batch = log[start : start + int(batches.size[index])]
        changed = []
        for at in range(21, len(batch), 1 if index < 6 else 7):
            broken = bytearray(batch)
            broken[at] ^= 1 << dice.randrange(8)
            changed.append(resealed(bytes(broken)))
        check(b"".join(changed))


def test_damage_gives_the_same_rows_or_faults_and_never_an_exception() -> None:
    log = some_log()
    sound = set(
        decode_records(log, scan(log).batches, 0, None, None, ("offset", "type")).column(0).to_pylist()
    )
    dice = random.Random(9)
    for _ in range(400):
        broken = bytearray(log)
        at = dice.randrange(len(log))
        broken[at : at + dice.choice([1, 1, 4, 90])] = dice.randbytes(dice.choice([1, 1, 4, 90]))
        data = bytes(broken)
        scanned = scan(data)
        table = check(data) if dice.random() < 0.2 else decode_records(data, scanned.batches, 0, None, None)
        lost = sound - set(table.column("offset").to_pylist())
        assert scanned.faults or not lost


@given(st.integers(1, 3_000))
@settings(QUICK, max_examples=25)
def test_chunking_makes_no_difference(tmp_path_factory: pytest.TempPathFactory, size: int) -> None:
    path = tmp_path_factory.mktemp("pieces") / "log"
    log = some_log()
    path.write_bytes(log)

    def read(piece_bytes: int) -> pa.Table:
        return pa.Table.from_batches(
            [
                decode_records(data, scanned.batches, 1, "log", position)
                for data, position, scanned in read_pieces(path, piece_bytes=piece_bytes)
            ]
        )

    assert read(size).equals(read(PIECE_BYTES))


@given(st.lists(st.sampled_from(RECORDS.names), unique=True), st.booleans())
@settings(QUICK, max_examples=60)
def test_selected_columns_equal_those_of_all(names: list[str], packed: bool) -> None:
    log = some_log() + mixed_with([b"\x01\x63\0x", b"\x01\x03\0", encode_record(PartitionRecord(5), 1)])
    batches = scan(log, START).batches
    whole = decode_records(log, batches, 1, "log", 0, packed=packed)
    some = decode_records(log, batches, 1, "log", 0, names, packed)
    assert some.schema == records_table(names, packed).arrow()
    for name in names:
        assert some.column(name).equals(whole.column(name)), name
