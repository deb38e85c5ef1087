"""One broker hosts partitions with one replica: registration, appends, deletion."""

from __future__ import annotations

from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.broker.log import PartitionLogSettings
from quorumd.broker.log.clean_shutdown import was_clean
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.config_record import ConfigRecord
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.text import shows


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


def test_failed_flush_is_not_an_acknowledgement() -> None:
    cluster = SimulatedBrokers()
    cluster.start()
    cluster.create_topic("events", (1,), flush_messages="1")
    cluster.await_leader("events")
    cluster.brokers[1].disk.fail_sync()
    results = cluster.produce("events")
    cluster.run_until(lambda: bool(results))
    assert [result.error for result in results] == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_broker_that_is_not_registered_in_time_fails() -> None:
    cluster = SimulatedBrokers(registration_timeout_ms=5_000.0)
    broker = cluster.brokers[1]
    broker.is_isolated = True
    broker.start()
    cluster.run_until(lambda: bool(broker.failures))
    (failure,) = broker.failures
    assert shows(failure, "broker 1", "not registered")
    assert broker.broker.state is BrokerState.NOT_RUNNING


def test_broker_that_has_not_opened_its_logs_stops_at_once() -> None:
    cluster = SimulatedBrokers(controlled_shutdown=False)
    broker = cluster.brokers[1]
    broker.start()
    done: list[bool] = []
    broker.broker.shut_down(lambda: done.append(True))
    broker.broker.on_shutdown_granted()
    cluster.run_for(10)
    assert done == [True]
    assert not broker.is_unfenced


def test_log_that_cannot_be_closed_is_recovered_at_the_next_start() -> None:
    cluster = SimulatedBrokers(log_directories=("/first", "/second"))
    cluster.start()
    cluster.create_topic("events", (1,), (1,))
    for number in range(2):
        cluster.produce_and_wait("events", number=number)
    broker = cluster.brokers[1]
    failed, kept = cluster.hosted(1, "events", 0), cluster.hosted(1, "events", 1)
    assert failed is not None
    assert kept is not None
    broker.disk.fail_sync()
    broker.stop()
    assert was_clean(broker.disk, kept.directory.path)
    assert not was_clean(broker.disk, failed.directory.path)


def test_directory_that_cannot_be_written_at_the_start_is_offline() -> None:
    cluster = SimulatedBrokers(log_directories=("/first", "/second"))
    cluster.start()
    broker = cluster.brokers[1]
    broker.stop()
    broker.disk.fail_directory_sync()
    broker.start()
    cluster.run_until(lambda: broker.is_unfenced)
    assert [each.is_online for each in broker.broker.directories.all] == [False, True]


def test_changed_config_takes_effect_on_open_logs() -> None:
    cluster = SimulatedBrokers()
    cluster.start()
    cluster.create_topic("events", (1,))
    cluster.create_topic("others", (1,))
    cluster.await_leader("events")
    cluster.await_leader("others")
    cluster.controller.append([ConfigRecord(2, "events", "segment.bytes", "2000000")])
    cluster.run_for(100)
    events, others = cluster.hosted(1, "events"), cluster.hosted(1, "others")
    assert events is not None
    assert others is not None
    assert events.log.settings.segment_bytes == 2_000_000
    assert others.log.settings.segment_bytes == PartitionLogSettings().segment_bytes
    cluster.controller.append([ConfigRecord(4, "", "log.segment.bytes", "3000000")])
    cluster.run_for(100)
    assert (events.log.settings.segment_bytes, others.log.settings.segment_bytes) == (2_000_000, 3_000_000)
