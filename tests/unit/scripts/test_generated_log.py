"""scripts/log_generator.py writes a valid log with a consistent history."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.protocol.batch_scan import Gapless, validate
from quorumd.protocol.control_record import decode_control
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import records
from scripts.log_generator import LogShape, chunks, generate

SMALL = LogShape(
    records=6_000, batch_records=8, segment_bytes=50_000, nodes=2, brokers=6, topics=5, partitions=4
)


def log_of(shape: LogShape) -> bytes:
    return b"".join(chunk.data for chunk in chunks(shape))


@pytest.mark.parametrize("batch_records", [1, 32, 1000])
def test_batches_are_valid(batch_records: int) -> None:
    data = log_of(LogShape(records=3_000, batch_records=batch_records, topics=5, partitions=4))
    found = validate(data, Gapless(0))
    assert found[-1].end_offset >= 3_000
    assert found[-1].epoch > 3
    epochs = [header.epoch for header in found]
    assert epochs == sorted(epochs)


def test_bytes_depend_on_shape_and_seed_only() -> None:
    assert log_of(SMALL) == log_of(SMALL)
    assert log_of(SMALL) != log_of(LogShape(records=6_000, batch_records=8, seed=2))


def test_controller_can_apply_the_history() -> None:
    data = log_of(SMALL)
    image, leaders, topics = ClusterImage(), [], Counter[str]()
    for header in validate(data, Gapless()):
        for record in records(data, header):
            assert record.value is not None
            if header.is_control:
                assert record.key is not None
                leaders.append(decode_control(record.key, record.value))
                continue
            message = decode_record(record.value)
            if isinstance(message, TopicRecord):
                topics[message.name] += 1
            if isinstance(message, PartitionChangeRecord):
                assert message.topic_id in image.topics
            image.apply(message, [])
    assert len(leaders) == validate(data, Gapless())[-1].epoch
    assert max(topics.values()) == 1, "topics are unique"
    assert len(topics) > 5


def test_nodes_have_the_same_bytes_in_different_segments(tmp_path: Path) -> None:
    made = generate(tmp_path, SMALL)
    copies, names = [], []
    for directory in made.directories.values():
        files = sorted((directory / "__cluster_metadata-0").glob("*.log"))
        copies.append(b"".join(file.read_bytes() for file in files))
        names.append([file.name for file in files])
        for file in files:
            assert validate(file.read_bytes(), Gapless())[0].base_offset == int(file.stem)
    assert copies == [log_of(SMALL)] * 2
    assert len(names[0]) > 3
    assert names[0] != names[1]
    assert made.size == len(copies[0])
    assert validate(copies[0], Gapless())[-1].end_offset == made.end_offset
