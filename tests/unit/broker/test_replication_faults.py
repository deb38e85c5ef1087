"""Random crashes, power losses, partitions, clean stops and moves to other log directories: no acknowledged record
is lost or repeated."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import ErrorCode
from tests.support.broker.simulated_brokers import NO_RESPONSE_MS, SimulatedBroker, SimulatedBrokers

BROKERS = (1, 2, 3)
DIRECTORIES = ("/first", "/second")
STEPS = 60


class Chaos:
    """Produces unique values with acks=all while brokers fail; never below one in-sync replica that stays."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.cluster = SimulatedBrokers(
            BROKERS, seed, replica_lag_time_max_ms=2_000.0, log_directories=DIRECTORIES
        )
        self.cluster.start()
        self.cluster.create_topic("events", BROKERS, min_insync_replicas="2", retention_ms="-1")
        self.number = 0
        self.acknowledged: dict[bytes, int] = {}

    def run(self) -> None:
        actions = (self.produce,) * 8 + (
            self.kill,
            self.restart,
            self.restart,
            self.stop,
            self.isolate,
            self.move,
            self.move,
            self.wait,
        )
        self.produce()
        for _ in range(STEPS):
            self.dice.choice(actions)()
        for broker in self.cluster.brokers.values():
            self.heal(broker)
            if not broker.process.alive:
                broker.start()
        self.cluster.run_until(lambda: all(each.is_unfenced for each in self.cluster.brokers.values()))
        self.cluster.run_until(lambda: set(self.cluster.partition("events").isr) == set(BROKERS))
        self.cluster.run_for(2 * NO_RESPONSE_MS)
        assert self.cluster.produce_and_wait("events", b"the last").error is ErrorCode.NONE
        self.cluster.run_for(2_000.0)

    def produce(self) -> None:
        leader = self.cluster.leader("events")
        if leader is not None:
            value = b"<%d>" % self.number
            self.number += 1
            hosted = self.cluster.hosted(leader.id, "events")
            assert hosted is not None
            self.cluster.append(leader, hosted, value, lambda result: self.done(value, result))
        self.cluster.run_for(self.dice.choice((0.5, 5.0, 50.0)))

    def done(self, value: bytes, result: object) -> None:
        if getattr(result, "error", None) is ErrorCode.NONE:
            self.acknowledged[value] = getattr(result, "base_offset", -1)

    def may_end(self, broker: SimulatedBroker) -> bool:
        """Whether an in-sync replica stays that has not lost anything."""
        brokers = self.cluster.brokers
        others = [brokers[each] for each in self.cluster.partition("events").isr if each != broker.id]
        # A restarted broker is in the ISR of its previous incarnation until it is registered.
        return broker.process.alive and any(each.process.alive and each.is_unfenced for each in others)

    def kill(self) -> None:
        broker = self.cluster.brokers[self.dice.choice(BROKERS)]
        if self.may_end(broker):
            broker.kill(loses_power=self.dice.random() < 0.5)

    def stop(self) -> None:
        broker = self.cluster.brokers[self.dice.choice(BROKERS)]
        if self.may_end(broker) and broker.is_unfenced and not broker.is_isolated:
            broker.stop()

    def restart(self) -> None:
        broker = self.cluster.brokers[self.dice.choice(BROKERS)]
        if not broker.process.alive:
            broker.start()
            self.cluster.run_for(self.dice.choice((10.0, 12_000.0)))

    def isolate(self) -> None:
        broker = self.cluster.brokers[self.dice.choice(BROKERS)]
        if not any(each.is_isolated for each in self.cluster.brokers.values()):
            broker.is_isolated = True
            duration_ms = self.dice.choice((500.0, 3_000.0, 15_000.0))
            self.cluster.heap.call_later(duration_ms, lambda: self.heal(broker), b"heal")

    def heal(self, broker: SimulatedBroker) -> None:
        broker.is_isolated = False
        broker.catch_up()

    def move(self) -> None:
        """Move a replica to either directory, or cancel that."""
        broker = self.cluster.brokers[self.dice.choice(BROKERS)]
        if broker.process.alive:
            broker.broker.moves.alter("events", 0, self.dice.choice(DIRECTORIES), lambda error: None)
            self.cluster.run_for(self.dice.choice((0.0, 5.0, 50.0)))

    def wait(self) -> None:
        self.cluster.run_for(self.dice.choice((100.0, 3_000.0, 15_000.0)))

    def log(self, broker_id: int) -> bytes:
        hosted = self.cluster.hosted(broker_id, "events")
        assert hosted is not None
        return hosted.log.read(0, 1 << 30, hosted.log.end_offset)


@pytest.mark.parametrize("seed", range(12))
def test_acknowledged_records_are_in_every_log_once(seed: int) -> None:
    chaos = Chaos(seed)
    chaos.run()
    logs = [chaos.log(broker_id) for broker_id in BROKERS]
    assert logs[0] == logs[1] == logs[2]
    assert {value: logs[0].count(value) for value in chaos.acknowledged} == dict.fromkeys(
        chaos.acknowledged, 1
    )
    assert chaos.acknowledged
