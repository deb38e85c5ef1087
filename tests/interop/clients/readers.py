"""Consumer groups whose members leave and join; each member runs in its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import kafka.errors
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import KafkaConsumer

COMMIT_EVERY = 200
"""Number of records between two commits."""
LIFE_POLLS = 100
"""Number of polls after which a member leaves the group and a new member joins, so that the group rebalances."""


@dataclass(slots=True)
class Group:
    """A consumer group, and what its members observed."""

    name: str
    bootstrap: str
    topic: str
    over: threading.Event
    values: set[bytes] = field(default_factory=set)
    """The consumed records."""
    regressions: list[str] = field(default_factory=list)
    """Committed offsets that decreased."""
    rebalances: int = 0
    """Number of assignments."""
    _committed: dict[int, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def committed(self, partition: int, offset: int) -> None:
        """Record a commit that the coordinator acknowledged."""
        with self._lock:
            self._committed[partition] = max(offset, self._committed.get(partition, 0))

    def assigned(self, partition: int, offset: int) -> None:
        """Compare the committed offset of an assigned partition with earlier acknowledged commits."""
        with self._lock:
            known = self._committed.get(partition)
        if known is not None and offset < known:
            self.regressions.append(
                f"{self.name}-{partition}: the offset is {offset} after a commit of {known}"
            )


def librdkafka_member(group: Group, protocol: str) -> None:
    """Run members of librdkafka one after the other."""
    settings = {
        "bootstrap.servers": group.bootstrap,
        "group.id": group.name,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "log_level": 0,
    }
    if protocol == "classic":
        settings["session.timeout.ms"] = 6000

    def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        group.rebalances += 1
        for found in consumer.committed(partitions, timeout=60):
            group.assigned(found.partition, found.offset)

    while not group.over.is_set():
        consumer = Consumer(settings)
        consumer.subscribe([group.topic], on_assign=on_assign)
        uncommitted = 0
        for _ in range(LIFE_POLLS):
            if group.over.is_set():
                break
            try:
                for message in consumer.consume(500, 0.2):
                    value = message.value()
                    if message.error() is None and isinstance(value, bytes):
                        group.values.add(value)
                        uncommitted += 1
                if uncommitted >= COMMIT_EVERY:
                    uncommitted = 0
                    for done in consumer.commit(asynchronous=False) or ():
                        if done.error is None and done.offset >= 0:
                            group.committed(done.partition, done.offset)
            except KafkaException:
                # The group rebalances or its coordinator has moved: the records are consumed again.
                continue
        consumer.close()


def kafka_python_member(group: Group) -> None:
    """Run members of kafka-python one after the other."""
    while not group.over.is_set():
        consumer = KafkaConsumer(
            group.topic,
            bootstrap_servers=group.bootstrap.split(","),
            group_id=group.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        group.rebalances += 1
        try:
            for _ in range(LIFE_POLLS):
                if group.over.is_set():
                    break
                for records in consumer.poll(200).values():
                    group.values.update(record.value for record in records)
                with suppress(kafka.errors.KafkaError):
                    consumer.commit()
        finally:
            consumer.close(autocommit=False)


MEMBERS: dict[str, tuple[Callable[[Group], None], ...]] = {
    "classic": (lambda group: librdkafka_member(group, "classic"),) * 2,
    "consumer": (lambda group: librdkafka_member(group, "consumer"),) * 2,
    "kafka-python": (kafka_python_member,) * 2,
}
"""The members of each group, by name of the group."""
