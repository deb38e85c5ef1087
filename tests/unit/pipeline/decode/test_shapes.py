"""quorumd.pipeline.decode.shapes: which records share a shape, and what it determines."""

from __future__ import annotations

import numpy as np

from quorumd.ids import KafkaUuid
from quorumd.pipeline.decode import decode_records, plain_rows
from quorumd.pipeline.decode.gather import Gather
from quorumd.pipeline.decode.shapes import CellPlace, Reads, Shape, shape_of
from quorumd.pipeline.scan.batches import scan
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch
from quorumd.protocol.wire import Message
from tests.support.log.raw_batches import raw_record

ID = KafkaUuid(bytes(range(16)))
OTHER = KafkaUuid(bytes(range(50, 66)))


def record(message: Message, version: int = 0, offset: int = 0) -> bytes:
    return raw_record(encode_record(message, version), offset)


def shape(message: Message, version: int = 0, offset: int = 0) -> Shape:
    return shape_of(record(message, version, offset))


def test_records_with_different_numbers_share_shape() -> None:
    first = shape(PartitionChangeRecord(4, ID, isr=[1, 2], leader=1), 2)
    assert shape(PartitionChangeRecord(70_000, OTHER, isr=[3, 9], leader=7), 2, offset=12) is first
    assert first.reads is Reads.PLACES
    assert (first.api_key, first.version) == (5, 2)


def test_count_tag_version_and_width_determine_shape() -> None:
    shapes = [
        shape(PartitionChangeRecord(4, ID, isr=[1, 2], leader=1), 2),
        shape(PartitionChangeRecord(4, ID, isr=[1, 2, 3]), 2),
        shape(PartitionChangeRecord(4, ID, replicas=[1, 2], leader=1), 2),
        shape(PartitionChangeRecord(4, ID, isr=[1, 2], leader=1), 1),
        shape(PartitionChangeRecord(4, ID, isr=[1, 2], leader=1), 2, offset=64),
    ]
    assert len({id(each) for each in shapes}) == len(shapes)


def test_shape_has_field_positions() -> None:
    whole = record(PartitionChangeRecord(4, ID, isr=[1, 2]), 2)
    places = shape_of(whole).places
    assert set(places) == {"partition", "topic_id", "isr"}
    assert whole[places["partition"].start :][:4] == (4).to_bytes(4, "big")
    assert whole[places["topic_id"].start :][:16] == bytes(ID)
    assert places["isr"] == CellPlace(whole.index(b"\0\0\0\1\0\0\0\2"), 2)


def test_empty_fields_have_cells_and_null_fields_do_not() -> None:
    places = shape(PartitionChangeRecord(4, ID, isr=[], replicas=None), 2).places
    assert places["isr"].elements == 0
    assert "replicas" not in places


def test_unknown_versions_and_misfit_bodies_use_codec() -> None:
    for value in (b"\x01\x63\x00rest", b"\x01\x05\x09rest", b"\x01\x05\x02cut", b"\x01"):
        assert shape_of(raw_record(value, 0)).reads is Reads.CODEC
    assert shape_of(raw_record(None, 0)).reads is Reads.CODEC_BY_BATCH
    assert shape_of(record(NoOpRecord())[:-1] + b"\x02").reads is Reads.CODEC_BY_BATCH


def test_non_ascii_content_uses_codec() -> None:
    names = [record(TopicRecord(name, ID)) for name in ("abcd", "a\xe9b")]
    assert shape_of(names[0]) is shape_of(names[1])
    words = Gather(names[0] + names[1]).words(np.array([0, len(names[0])]), len(names[0]))
    assert shape_of(names[0]).are_of(words).tolist() == [True, True]
    assert shape_of(names[0]).has_odd_content(words).tolist() == [False, True]


def test_dissimilar_records_use_codec_after_limit() -> None:
    messages = [PartitionRecord(1, ID, list(range(a)), list(range(b))) for a in range(20) for b in range(20)]
    data = encode_batch(0, 1, 1_000, [encode_record(message, 0) for message in messages])
    batches = scan(data).batches
    rows = decode_records(data, batches, 1, None, None)
    found = [{name: value for name, value in row.items() if value is not None} for row in rows.to_pylist()]
    expected = plain_rows(data, batches, 1, None, None)
    for row in found:
        row["ts"] = int(row["ts"].timestamp() * 1_000_000)
    assert found == expected
