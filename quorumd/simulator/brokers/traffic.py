"""Producers and consumers, which call brokers directly, without a network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from quorumd.controller.partition import PartitionId
from quorumd.simulator.brokers.broker import Broker
from quorumd.simulator.brokers.observation import Observation
from quorumd.simulator.brokers.options import BrokerOptions
from quorumd.simulator.brokers.partition_history import Outcome
from quorumd.simulator.environment.event_heap import EventHeap

READ_SHARE = 0.3
MAX_BATCH_RECORDS = 3


class Traffic:
    """Writes to and reads from brokers that consider themselves leaders, including stale leaders."""

    def __init__(
        self,
        heap: EventHeap,
        random: Random,
        options: BrokerOptions,
        observation: Observation,
        brokers: Callable[[], list[Broker]],
    ) -> None:
        self.running = True
        self.read = 0
        self._heap = heap
        self._random = random
        self._options = options
        self._observation = observation
        self._brokers = brokers
        self._values = 0
        self._positions: dict[PartitionId, int] = {}

    @property
    def acknowledged(self) -> int:
        return self._observation.counters[Outcome.ACKNOWLEDGED]

    def start(self) -> None:
        self._next()

    def _next(self) -> None:
        if self.running:
            wait_ms = self._random.random() * 2 * self._options.write_ms
            self._heap.call_later(wait_ms, self._do, b"traffic")

    def _do(self) -> None:
        led = [(broker, replica) for broker in self._brokers() for replica in broker.led()]
        if led:
            broker, replica = self._random.choice(led)
            what = self._read if self._random.random() < READ_SHARE else self._write
            do = partial(what, broker, replica.partition)
            # A paused broker does not serve requests.
            self._heap.call_later(0.0, do, b"user", broker.process)
        self._next()

    def _write(self, broker: Broker, where: PartitionId) -> None:
        for _ in range(1 + self._random.randrange(MAX_BATCH_RECORDS)):
            if where in broker.replicas and broker.replicas[where].leadership is not None:
                self._values += 1
                self._observation.wrote(where, self._values)
                broker.write(where, self._values)

    def _read(self, broker: Broker, where: PartitionId) -> None:
        replica = broker.replicas.get(where)
        if replica is None or replica.leadership is None:
            return
        position = self._positions.get(where, 0)
        records = replica.log.records[position : replica.high_watermark]
        if records:
            self._observation.read(where, position, records)
            self._positions[where] = position + len(records)
            self.read += len(records)
