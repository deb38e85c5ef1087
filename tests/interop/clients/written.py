"""Acknowledged records, and their comparison with the records in the log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

PATIENCE_S = 120.0


class Place(NamedTuple):
    """The position of a record."""

    partition: int
    offset: int


@dataclass(slots=True)
class Written:
    """The records of a producer; a record is the producer's name and an increasing number."""

    name: str
    is_exact: bool
    """Whether no record may occur twice, and the records of each partition must be in order."""
    acknowledged: dict[bytes, Place | None] = field(default_factory=dict)
    """Acknowledged records with their positions, or None if the client does not report positions."""
    aborted: set[bytes] = field(default_factory=set)
    """Records of aborted transactions, which must not be visible."""
    unknown: list[set[bytes]] = field(default_factory=list)
    """The records of each transaction with an unknown outcome: either all are visible or none."""
    errors: Counter[str] = field(default_factory=Counter)
    _next: int = 0

    def values(self, count: int) -> list[bytes]:
        """Return the next records to write."""
        first, self._next = self._next, self._next + count
        return [b"%s:%d" % (self.name.encode(), number) for number in range(first, self._next)]


def read_log(bootstrap: str, topic: str) -> dict[Place, bytes]:
    """Read all records that are visible to read_committed consumers."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "checker",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    partitions = consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: dict[Place, bytes] = {}
    at_end: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(at_end) < len(partitions):
        assert time.monotonic() < deadline, f"read {len(found)} records, the end of {sorted(at_end)}"
        for message in consumer.consume(2000, 0.5):
            partition = message.partition()
            assert partition is not None
            if message.error() is not None:
                at_end.add(partition)
                continue
            value, offset = message.value(), message.offset()
            assert isinstance(value, bytes)
            assert offset is not None
            found[Place(partition, offset)] = value
    consumer.close()
    return found


def violations(written: Iterable[Written], log: Mapping[Place, bytes]) -> list[str]:
    """Return the violations: lost, misplaced, repeated and reordered records, and parts of transactions."""
    found: list[str] = []
    times = Counter(log.values())
    for each in written:
        found += _misplaced(each, log, times)
        found += [
            f"{value!r} of an aborted transaction is visible" for value in each.aborted if value in times
        ]
        for transaction in each.unknown:
            visible = sum(value in times for value in transaction)
            if visible not in (0, len(transaction)):
                found.append(
                    f"{visible} of {len(transaction)} records of one transaction of {each.name} are visible"
                )
        if each.is_exact:
            found += _repeated(each, log, times)
    return found


def _misplaced(written: Written, log: Mapping[Place, bytes], times: Counter[bytes]) -> list[str]:
    found = []
    for value, place in written.acknowledged.items():
        there = log.get(place) if place is not None else value
        if value not in times:
            found.append(f"{value!r}, acknowledged at {place}, is lost")
        elif there != value:
            found.append(f"{value!r} was acknowledged at {place}, which has {there!r}")
    return found


def _repeated(written: Written, log: Mapping[Place, bytes], times: Counter[bytes]) -> list[str]:
    prefix = written.name.encode() + b":"
    found = [
        f"{value!r} is in the log {count} times"
        for value, count in times.items()
        if count > 1 and value.startswith(prefix)
    ]
    newest: dict[int, int] = {}
    for place in sorted(log):
        if log[place].startswith(prefix):
            number = int(log[place].removeprefix(prefix))
            if number < newest.get(place.partition, -1):
                found.append(f"{log[place]!r} at {place} follows {newest[place.partition]}")
            newest[place.partition] = number
    return found
