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
