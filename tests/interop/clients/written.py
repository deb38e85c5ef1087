"""Acknowledged records, and their comparison with those in the log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

PATIENCE_S = 120.0


class Place(NamedTuple):
    """Where a record is."""

    partition: int
    offset: int


@dataclass(slots=True)
class Written:
    """One producer's records, which are its name and a growing number.

    `acknowledged`: places that the broker returned, or None if the client does not tell. `aborted`: records of
    transactions that must not be visible. `unknown`: records of transactions of which each is visible whole or not at
    all. `is_exact`: no record occurs twice, and each partition has them in order.
    """

    name: str
    is_exact: bool
    acknowledged: dict[bytes, Place | None] = field(default_factory=dict)
    aborted: set[bytes] = field(default_factory=set)
    unknown: list[set[bytes]] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    _next: int = 0

    def values(self, count: int) -> list[bytes]:
        """The next records to write."""
        first, self._next = self._next, self._next + count
        return [b"%s:%d" % (self.name.encode(), number) for number in range(first, self._next)]


def read_log(bootstrap: str, topic: str) -> dict[Place, bytes]:
    """Read every record that read_committed consumers see."""
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
    """The violations found: lost or misplaced records, duplicates, reordering, and parts of transactions."""
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
            found.append(f"{value!r} was acknowledged at {place}, where {there!r} is")
    return found


def _repeated(written: Written, log: Mapping[Place, bytes], times: Counter[bytes]) -> list[str]:
    prefix = written.name.encode() + b":"
    found = [
        f"{value!r} is there {count} times"
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
