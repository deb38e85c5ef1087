"""A single partition on simulated brokers whose messages a test can delay."""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.protocol.messages.alter_partition_request import AlterPartitionRequest
from quorumd.protocol.wire import Message
from tests.support.broker.simulated_brokers import SimulatedBroker, SimulatedBrokers

EVENTS = "events"


def start(broker_ids: tuple[int, ...], replicas: tuple[int, ...], min_isr: int) -> SimulatedBrokers:
    cluster = SimulatedBrokers(broker_ids, replica_lag_time_max_ms=2_000.0)
    cluster.start()
    cluster.create_topic(EVENTS, replicas, min_insync_replicas=str(min_isr))
    assert cluster.produce_and_wait(EVENTS, b"<0>").error is ErrorCode.NONE
    return cluster


def is_proposal(request: Message) -> bool:
    return isinstance(request, AlterPartitionRequest)


def isr(cluster: SimulatedBrokers) -> set[int]:
    return set(cluster.partition(EVENTS).isr)


def end(cluster: SimulatedBrokers, broker_id: int) -> int:
    hosted = cluster.hosted(broker_id, EVENTS)
    assert hosted is not None
    return hosted.log.end_offset


def high_watermark(cluster: SimulatedBrokers, broker_id: int) -> int:
    hosted = cluster.hosted(broker_id, EVENTS)
    assert hosted is not None
    return hosted.replica.high_watermark


def fence(cluster: SimulatedBrokers, broker: SimulatedBroker) -> None:
    """Kill a broker, and wait until the controller has fenced it."""
    broker.kill()
    cluster.run_until(lambda: cluster.controller.image.brokers[broker.id].is_fenced)


def deliver(cluster: SimulatedBrokers) -> None:
    """Deliver delayed messages and stop delaying."""
    cluster.holds_request = cluster.holds_response = lambda request: False
    held, cluster.held = cluster.held, []
    for each in held:
        each()
    cluster.run_for(100.0)


def require_everything(cluster: SimulatedBrokers, *values: bytes) -> None:
    """Require that the leader of the partition has each of these values once."""
    leader = cluster.await_leader(EVENTS)
    hosted = cluster.hosted(leader.id, EVENTS)
    assert hosted is not None
    data = hosted.log.read(0, 1 << 20, hosted.log.end_offset)
    assert [data.count(value) for value in values] == [1] * len(values)
