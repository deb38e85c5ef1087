"""One broker hosts partitions with one replica: registration, appends, deletion."""

from __future__ import annotations

from quorumd.errors import ErrorCode
from tests.support.broker.simulated_brokers import SimulatedBrokers


def test_broker_registers_and_leads_new_partitions() -> None:
    cluster = SimulatedBrokers()
    cluster.start()
    cluster.create_topic("events", (1,), (1,))
    assert [cluster.await_leader("events", number).id for number in (0, 1)] == [1, 1]
    assert cluster.partition("events").isr == (1,)


def test_append_with_one_replica_is_committed_at_once() -> None:
    cluster = SimulatedBrokers()
    cluster.start()
    cluster.create_topic("events", (1,))
    cluster.await_leader("events")
    first, second = cluster.produce("events"), cluster.produce("events")
    assert [result.error for result in (*first, *second)] == [ErrorCode.NONE, ErrorCode.NONE]
    assert [result.base_offset for result in (*first, *second)] == [0, 1]
    hosted = cluster.hosted(1, "events")
    assert hosted is not None
    assert (hosted.replica.high_watermark, hosted.log.end_offset) == (2, 2)


def test_flush_messages_delays_the_acknowledgement_until_the_flush() -> None:
    cluster = SimulatedBrokers()
    cluster.start()
    cluster.create_topic("events", (1,), flush_messages="2")
    cluster.await_leader("events")
    hosted = cluster.hosted(1, "events")
    assert hosted is not None
    at_once, first, second = (cluster.produce("events") for _ in range(3))
    assert [result.error for result in at_once] == [ErrorCode.NONE], "one record may be unflushed"
    assert (first, second) == ([], [])
    cluster.run_until(lambda: bool(second))
    assert [result.error for result in (*first, *second)] == [ErrorCode.NONE, ErrorCode.NONE]
    assert hosted.log.recovery_point >= 2


def test_failed_flush_is_no_acknowledgement() -> None:
    cluster = SimulatedBrokers()
    cluster.start()
    cluster.create_topic("events", (1,), flush_messages="1")
    cluster.await_leader("events")
    cluster.brokers[1].disk.fail_sync()
    results = cluster.produce("events")
    cluster.run_until(lambda: bool(results))
    assert [result.error for result in results] == [ErrorCode.KAFKA_STORAGE_ERROR]
