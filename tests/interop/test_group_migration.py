"""Real clients of both protocols in one group, which is rolled from classic to consumer members and back.

No partition has two owners, none is left out, and every record is read once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Protocol

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka.errors import KafkaConnectionError

from tests.support.processes.daemons import BrokerDaemon, wait_for

PATIENCE_S = 60
PARTITIONS = 6
RECORDS = 300
SETTINGS = (
    "offsets.topic.replication.factor=1\ngroup.initial.rebalance.delay.ms=0\n"
    "group.consumer.heartbeat.interval.ms=300\n"
)


class Member(Protocol):
    """A member of the group."""

    def poll(self) -> list[bytes]:
        """Return the values of the next records."""

    def owned(self) -> list[int]:
        """Return the partitions that it owns."""

    def close(self) -> None:
        """Commit the positions and leave the group."""


class Librdkafka:
    """A member with librdkafka, of either protocol."""

    def __init__(self, bootstrap: str, group: str, **config: object) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 200,
                **config,
            }
        )
        self._consumer.subscribe(["records"])

    def poll(self) -> list[bytes]:
        """See `Member`."""
        return [each.value() for each in self._consumer.consume(100, 0.05) if each.error() is None]

    def owned(self) -> list[int]:
        """See `Member`."""
        return [each.partition for each in self._consumer.assignment()]

    def close(self) -> None:
        """See `Member`."""
        self._consumer.close()


class KafkaPython:
    """A member with kafka-python, of the classic protocol. It joins while it polls, so it has a thread for that."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._consumer = KafkaConsumer(
            "records",
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
            auto_commit_interval_ms=200,
        )
        self._read: SimpleQueue[bytes] = SimpleQueue()
        self._owned: list[int] = []
        self._closes = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._consumer:
            while not self._closes.is_set():
                try:
                    polled = self._consumer.poll(1000)
                except KafkaConnectionError:
                    # The broker is down: the client raises what librdkafka retries by itself.
                    self._closes.wait(0.1)
                    continue
                for batch in polled.values():
                    for each in batch:
                        self._read.put(each.value)
                self._owned = [each.partition for each in self._consumer.assignment()]

    def poll(self) -> list[bytes]:
        """See `Member`."""
        return [self._read.get() for _ in range(self._read.qsize())]

    def owned(self) -> list[int]:
        """See `Member`."""
        return self._owned

    def close(self) -> None:
        """See `Member`."""
        self._closes.set()
        self._thread.join()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerDaemon]:
    directory: Path = tmp_path_factory.mktemp("broker")
    broker = BrokerDaemon(directory / "node", extra=SETTINGS)
    try:
        broker.start_and_wait()
        client = AdminClient({"bootstrap.servers": broker.bootstrap})
        client.create_topics([NewTopic("records", PARTITIONS, 1)])["records"].result(PATIENCE_S)
        yield broker
    finally:
        broker.stop()


class Group:
    """The members of one group, and the records that they have read."""

    def __init__(self, broker: BrokerDaemon, name: str) -> None:
        self.broker = broker
        self.name = name
        self.members: list[Member] = []
        self.read: list[bytes] = []
        self._producer = Producer({"bootstrap.servers": broker.bootstrap})
        self._written = 0

    def classic(self, strategy: str) -> Member:
        """Return a librdkafka member of the classic protocol."""
        timeouts = {"heartbeat.interval.ms": 300, "session.timeout.ms": 10_000}
        return Librdkafka(
            self.broker.bootstrap,
            self.name,
            **{"group.protocol": "classic", "partition.assignment.strategy": strategy, **timeouts},
        )

    def consumer(self) -> Member:
        """Return a librdkafka member of the consumer protocol."""
        return Librdkafka(self.broker.bootstrap, self.name, **{"group.protocol": "consumer"})

    def kafka_python(self) -> Member:
        """Return a kafka-python member, which uses the classic protocol."""
        return KafkaPython(self.broker.bootstrap, self.name)

    def owned(self) -> list[int]:
        """Let all members run; return the partitions that they own, repeated if several do."""
        for member in self.members:
            self.read += member.poll()
        return sorted(number for member in self.members for number in member.owned())

    def settle(self) -> None:
        """Wait until every partition has one owner, then write records, and wait until they are read."""
        everything = list(range(PARTITIONS))
        wait_for("every partition to have one owner", lambda: self.owned() == everything, PATIENCE_S)
        wait_for(
            "every member to have partitions",
            lambda: self.owned() == everything and self._shared(),
            PATIENCE_S,
        )
        for _ in range(RECORDS):
            self._producer.produce("records", b"%s-%d" % (self.name.encode(), self._written))
            self._written += 1
        assert self._producer.flush(PATIENCE_S) == 0
        wanted = {b"%s-%d" % (self.name.encode(), number) for number in range(self._written)}

        def all_read() -> bool:
            self.owned()
            return wanted <= set(self.read)

        wait_for("all records to be read", all_read, PATIENCE_S)
        own = [each for each in self.read if each.startswith(self.name.encode())]
        assert len(own) == len(set(own)), "in a settled group no record is read twice"
        # The positions are committed before the next member changes.
        deadline = time.monotonic() + 0.6
        while time.monotonic() < deadline:
            self.owned()

    def _shared(self) -> bool:
        return all(member.owned() for member in self.members)

    def replace(self, index: int, create: Callable[[], Member]) -> None:
        """Close a member, and start another one, as a rolling restart does."""
        self.members.pop(index).close()
        self.members.append(create())
        self.settle()

    def type(self) -> str:
        """Return the type of the group."""
        client = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        listed = {each.group_id: each for each in client.list_consumer_groups().result(PATIENCE_S).valid}
        return str(listed[self.name].type.name)

    def close(self) -> None:
        """Close all members."""
        while self.members:
            self.members.pop().close()


@pytest.mark.parametrize("kind", ["range", "roundrobin", "kafka-python"])
def test_group_is_rolled_to_the_consumer_protocol_and_back(broker: BrokerDaemon, kind: str) -> None:
    group = Group(broker, kind)

    def classic() -> Member:
        return group.kafka_python() if kind == "kafka-python" else group.classic(kind)

    try:
        for _ in range(2):
            group.members.append(classic())
        group.settle()
        assert group.type() == "CLASSIC"
        group.replace(0, group.consumer)
        assert group.type() == "CONSUMER"
        group.replace(0, group.consumer)
        assert group.type() == "CONSUMER"
        group.replace(0, classic)
        assert group.type() == "CONSUMER"
        group.replace(0, classic)
        assert group.type() == "CLASSIC"
    finally:
        group.close()


def test_mixed_group_survives_a_restart(broker: BrokerDaemon) -> None:
    group = Group(broker, "restarted")
    try:
        group.members += [group.classic("range"), group.consumer(), group.kafka_python()]
        group.settle()
        broker.stop()
        broker.start_and_wait()
        group.settle()
        assert group.type() == "CONSUMER"
    finally:
        group.close()
