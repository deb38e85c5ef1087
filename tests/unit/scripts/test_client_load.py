"""The client of the broker benchmark: what a consumer reads and counts."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from scripts.bench import client_load
from scripts.bench.brokers import CASES, STORED_BYTES, STORED_BYTES_IN_SINGLE_RECORDS
from scripts.bench.client_load import CHUNK, consume, read_repeatedly

BATCH = 2
"""Records per partition in each call of the fake consumer."""


class FakeMessage:
    """A record, or with an error code an event of its partition."""

    def __init__(self, partition: int, offset: int, error: int | None = None) -> None:
        self._partition, self.offset = partition, offset
        self._error = None if error is None else KafkaError(error)

    def partition(self) -> int:
        return self._partition

    def error(self) -> KafkaError | None:
        return self._error


class FakeConsumer:
    """A consumer of partitions with these numbers of records, which reports the end of each once."""

    def __init__(self, ends: list[int]) -> None:
        self.ends = ends
        self.positions: dict[int, int] = {}
        self.has_reported_end: set[int] = set()
        self.read: list[tuple[int, int]] = []
        self.failures: list[FakeMessage] = []
        self.is_closed = False

    def assign(self, starts: list[TopicPartition]) -> None:
        self.positions = {each.partition: each.offset for each in starts}

    def seek(self, start: TopicPartition) -> None:
        self.positions[start.partition] = start.offset
        self.has_reported_end.discard(start.partition)

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, self.ends[partition.partition]

    def consume(self, count: int, timeout: float) -> list[FakeMessage]:
        found, self.failures = self.failures, []
        for number, position in self.positions.items():
            end = min(position + BATCH, self.ends[number])
            found += [FakeMessage(number, offset) for offset in range(position, end)]
            self.read += [(number, offset) for offset in range(position, end)]
            self.positions[number] = end
            if position == end and number not in self.has_reported_end:
                self.has_reported_end.add(number)
                found.append(FakeMessage(number, end, KafkaError._PARTITION_EOF))
        return found

    def close(self) -> None:
        self.is_closed = True


def test_a_partition_is_read_again_from_its_start_whatever_the_others_do() -> None:
    consumer = FakeConsumer([4, 100])
    starts = [TopicPartition("t", 0, 1), TopicPartition("t", 1, 0)]
    consumer.assign(starts)
    assert read_repeatedly(consumer, starts, 60.0, at_most=30) >= 30
    assert [offset for number, offset in consumer.read if number == 0][:7] == [1, 2, 3, 1, 2, 3, 1]
    other = [offset for number, offset in consumer.read if number == 1]
    assert other == list(range(len(other)))


def test_only_records_are_counted() -> None:
    consumer = FakeConsumer([3])
    starts = [TopicPartition("t", 0, 0)]
    consumer.assign(starts)
    consumer.failures = [FakeMessage(0, 0, KafkaError._TRANSPORT)]
    assert read_repeatedly(consumer, starts, 60.0, at_most=7) == len(consumer.read)


def test_a_partition_whose_broker_fails_is_not_begun_again() -> None:
    consumer = FakeConsumer([6])
    starts = [TopicPartition("t", 0, 0)]
    consumer.assign(starts)
    read_repeatedly(consumer, starts, 60.0, at_most=2)
    consumer.failures = [FakeMessage(0, 0, KafkaError._TRANSPORT)]
    read_repeatedly(consumer, starts, 60.0, at_most=2)
    assert [offset for _, offset in consumer.read] == [0, 1, 2, 3]


def test_reading_ends_after_the_time() -> None:
    consumer = FakeConsumer([3])
    assert read_repeatedly(consumer, [], 0.0) == 0
    assert not consumer.read


def run_consume(monkeypatch: pytest.MonkeyPatch, counts: list[int]) -> tuple[dict[str, Any], FakeConsumer]:
    """Consume 1,000 records of 100 bytes from two partitions, with these counts of records per phase."""
    consumer = FakeConsumer([700, 800])
    remaining = iter(counts)
    monkeypatch.setattr(client_load, "Consumer", lambda settings: consumer)
    monkeypatch.setattr(client_load, "read_repeatedly", lambda *_, **__: next(remaining))
    job = {
        "bootstrap": "b",
        "topic": "t",
        "records": 1000,
        "partitions": 2,
        "record_bytes": 100,
        "seconds": 1,
    }
    return consume(job), consumer


def test_bytes_before_the_measured_time_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    result, consumer = run_consume(monkeypatch, [3, 20, 700])
    assert result["bytes"] == 700 * 100
    assert result["all_bytes"] == 723 * 100
    assert result["seconds"] > 0
    assert consumer.is_closed


def test_the_last_records_of_each_partition_are_consumed(monkeypatch: pytest.MonkeyPatch) -> None:
    _, consumer = run_consume(monkeypatch, [1, 1, 1])
    assert consumer.positions == {0: 200, 1: 300}


def test_a_consumer_without_records_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = run_consume(monkeypatch, [0])
    assert "no records" in result["error"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_load_stores_whole_chunks_in_each_partition(case: Any) -> None:
    size = STORED_BYTES_IN_SINGLE_RECORDS if case.batch_records == 1 else STORED_BYTES
    assert case.stored_records % (CHUNK * case.partitions) == 0
    assert 0 <= case.stored_records * case.record_bytes - size < CHUNK * case.partitions * case.record_bytes
