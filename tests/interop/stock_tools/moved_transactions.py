"""Transactions whose coordinator, and the group of their offsets, move between brokers of quorumd and of Kafka."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.stock_tools.claims import ClaimBroken, Step, expect
from tests.interop.stock_tools.coordinator_moves import (
    OFFSETS_TOPIC,
    PATIENCE_S,
    TRANSACTIONS_TOPIC,
    CoordinatorMoves,
)
from tests.interop.stock_tools.tools import HERE, QUICK, StockTools
from tests.support.processes.daemons import wait_for

SOURCE = HERE / "TransactionDriver.java"
PARTITIONS, REPLICAS = 3, 3
TIMEOUT_MS = 120_000


class Transactional(Protocol):
    """A transactional producer. Its methods return once the brokers have acknowledged the operation."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def begin(self) -> None: ...
    def send(self, topic: str, partition: int, value: str) -> None: ...
    def commit_offset(self, group: str, topic: str, partition: int, offset: int) -> None: ...
    def end(self, *, is_commit: bool) -> None: ...


class LibrdkafkaTransactions:
    """A producer with librdkafka, which adds partitions to its transactions itself."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._bootstrap = bootstrap
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TIMEOUT_MS,
                "log_level": 0,
            }
        )

    def __enter__(self) -> Self:
        self._producer.init_transactions(PATIENCE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.purge()

    def begin(self) -> None:
        """See `Transactional`."""
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        """See `Transactional`."""
        self._producer.produce(topic, value, partition=partition)
        expect("records that were not acknowledged", self._producer.flush(PATIENCE_S), 0)

    def commit_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """See `Transactional`."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        try:
            offsets = [TopicPartition(topic, partition, offset)]
            metadata = consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(offsets, metadata, PATIENCE_S)
        finally:
            consumer.close()

    def end(self, *, is_commit: bool) -> None:
        """See `Transactional`."""
        end = self._producer.commit_transaction if is_commit else self._producer.abort_transaction
        end(PATIENCE_S)


class JavaTransactions:
    """Kafka's own producer, with which the epoch changes in every transaction (transaction.version 2)."""

    def __init__(self, tools: StockTools, bootstrap: str, transactional_id: str) -> None:
        classes = ("-Xmx128M", *QUICK, "-cp", f"{tools.brokers}/*")
        self._command = [tools.java, *classes, str(SOURCE), bootstrap, transactional_id]
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._child = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._child is not None
        with self._child as child:
            child.kill()

    def begin(self) -> None:
        """See `Transactional`."""
        self._call("begin")

    def send(self, topic: str, partition: int, value: str) -> None:
        """See `Transactional`."""
        self._call("send", topic, partition, value)

    def commit_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """See `Transactional`."""
        self._call("offset", group, topic, partition, offset)

    def end(self, *, is_commit: bool) -> None:
        """See `Transactional`."""
        self._call("commit" if is_commit else "abort")

    def _call(self, *fields: object) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        line = " ".join(map(str, fields)) + "\n"
        self._child.stdin.write(line)
        self._child.stdin.flush()
        if self._child.stdout.readline() != line:
            _, errors = self._child.communicate(timeout=PATIENCE_S)
            raise ClaimBroken(f"{line.strip()}: {errors}")


class MovedTransactions:
    """Claims about transactions whose coordinators move. `theirs` and `ours` are brokers of Kafka and of quorumd."""

    def __init__(
        self,
        tools: StockTools,
        bootstrap: str,
        moves: CoordinatorMoves,
        ours: Sequence[int],
        theirs: Sequence[int],
    ) -> None:
        self._tools = tools
        self._bootstrap = bootstrap
        self._moves = moves
        self._ours = ours
        self._theirs = theirs

    def steps(self) -> list[Step]:
        ends = "ends completely at the coordinator to which it has moved"

        def with_librdkafka() -> str:
            return self._run("librdkafka", LibrdkafkaTransactions(self._bootstrap, "librdkafka"))

        def with_java() -> str:
            return self._run("java", JavaTransactions(self._tools, self._bootstrap, "java"))

        return [
            (f"an ongoing transaction of librdkafka {ends}", with_librdkafka),
            (f"an ongoing transaction of Kafka's producer {ends}", with_java),
        ]

    def _run(self, name: str, producer: Transactional) -> str:
        topic, group = f"transactions-of-{name}", f"offsets-of-{name}"
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, REPLICAS)])[topic].result(PATIENCE_S)
        first, second, *_ = self._ours
        older, newer = self._theirs
        moves = [(newer, True), (second, False), (older, False), (first, True)]
        visible: set[str] = set()
        committed = -1
        with producer:
            for number, (broker, is_commit) in enumerate(moves):
                values = {f"{number}-{partition}" for partition in range(PARTITIONS)}
                producer.begin()
                for partition in range(PARTITIONS):
                    producer.send(topic, partition, f"{number}-{partition}")
                producer.commit_offset(group, topic, 0, number)
                if number == 0:
                    self._move(name, group, first)
                self._move(name, group, broker)
                where = f"transaction {number}, moved to broker {broker}"
                expect(f"records before the end of {where}", self._read(topic), visible)
                producer.send(topic, 0, f"{number}-after")
                producer.end(is_commit=is_commit)
                if is_commit:
                    visible.update(values, {f"{number}-after"})
                    committed = number
                # The markers follow the response.
                wait_for(f"the records of {where}", lambda: self._read(topic) == visible, PATIENCE_S)
                expect(f"offset after {where}", self._offset(group, topic), committed)
        return f"{len(moves)} transactions, half of them aborted"

    def _move(self, transactional_id: str, group: str, broker: int) -> None:
        self._moves.move(TRANSACTIONS_TOPIC, transactional_id, broker)
        self._moves.move(OFFSETS_TOPIC, group, broker)

    def _read(self, topic: str) -> set[str]:
        """Return the committed records up to the first open transaction."""
        settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
        consumer = Consumer(settings)
        try:
            consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
            values: list[str] = []
            ended = 0
            while ended < PARTITIONS:
                for message in consumer.consume(100, 1.0):
                    error = message.error()
                    if error is None:
                        values.append(message.value().decode())
                    elif error.code() == KafkaError._PARTITION_EOF:
                        ended += 1
            expect("repeated records", len(values) - len(set(values)), 0)
            return set(values)
        finally:
            consumer.close()

    def _offset(self, group: str, topic: str) -> int:
        """Return the committed offset of partition 0, -1 without one."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        try:
            (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
            return max(found.offset, -1)
        finally:
            consumer.close()
