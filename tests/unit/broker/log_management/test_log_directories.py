"""Log directories that fail, fill up or change: their partitions move, the others stay."""

from __future__ import annotations

from quorumd.controller.broker import UNASSIGNED
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.protocol.apis import ApiKey
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.text import shows


def with_two_directories(*broker_ids: int) -> SimulatedBrokers:
    cluster = SimulatedBrokers(
        broker_ids, log_directories=("/first", "/second"), replica_lag_time_max_ms=2_000.0
    )
    cluster.start()
    return cluster


def test_new_logs_are_spread_over_the_directories_and_reported() -> None:
    cluster = with_two_directories(1)
    cluster.create_topic("events", *[(1,)] * 4)
    for number in range(4):
        cluster.await_leader("events", number)
    hosted = cluster.brokers[1].broker.partitions.all()
    paths = [each.directory.path for each in hosted]
    assert sorted(paths) == ["/first", "/first", "/second", "/second"]
    cluster.run_for(100.0)
    for each in hosted:
        assert cluster.partition("events", each.id.number).directories == (each.directory.id,)


def test_failed_directory_loses_its_leaders_only() -> None:
    cluster = with_two_directories(1, 2)
    topic_id = cluster.create_topic("events", (1, 2), (1, 2), min_insync_replicas="1")
    for number in range(2):
        cluster.await_leader("events", number)
        assert cluster.produce_and_wait("events", number=number).error is ErrorCode.NONE
    cluster.run_for(100.0)
    broker = cluster.brokers[1].broker
    failed = next(each for each in broker.partitions.all() if each.directory.path == "/first")
    kept = next(each for each in broker.partitions.all() if each.directory.path == "/second")
    broker.partitions.fail_directory(failed.directory, "a test")
    assert broker.partitions.is_offline(PartitionId(topic_id, failed.id.number))
    cluster.run_until(lambda: cluster.partition("events", failed.id.number).leader == 2)
    assert cluster.produce_and_wait("events", number=failed.id.number).error is ErrorCode.NONE
    assert cluster.partition("events", kept.id.number).leader == 1
    assert cluster.produce_and_wait("events", number=kept.id.number).error is ErrorCode.NONE
    assert cluster.brokers[1].failures == []


def test_failed_flush_takes_the_directory_offline() -> None:
    cluster = with_two_directories(1)
    cluster.create_topic("events", (1,), flush_messages="1")
    cluster.await_leader("events")
    broker = cluster.brokers[1]
    broker.disk.fail_sync()
    cluster.produce("events")
    cluster.run_for(1_000.0)
    assert [each.is_online for each in broker.broker.directories.all].count(False) == 1
    assert broker.failures == []


def test_broker_stops_with_its_last_directory() -> None:
    cluster = SimulatedBrokers()
    cluster.start()
    cluster.create_topic("events", (1,))
    cluster.await_leader("events")
    broker = cluster.brokers[1]
    hosted = broker.broker.partitions.all()[0]
    broker.broker.partitions.fail_directory(hosted.directory, "a test")
    assert len(broker.failures) == 1


def test_broker_stops_with_the_directory_of_its_metadata_log() -> None:
    cluster = SimulatedBrokers(log_directories=("/first", "/second"), metadata_directory="/second")
    cluster.start()
    broker = cluster.brokers[1]
    partitions = broker.broker.partitions
    partitions.fail_directory(partitions.directories.all[1], "a test")
    (failure,) = broker.failures
    assert shows(failure, "/second", "metadata log")


def test_replica_in_a_directory_that_fails_before_it_is_reported_does_not_lead() -> None:
    cluster = with_two_directories(1, 2)
    cluster.abandons_request = lambda request: request.API_KEY == ApiKey.ASSIGN_REPLICAS_TO_DIRS
    cluster.create_topic("events", (1, 2))
    cluster.await_leader("events")
    cluster.run_for(1_000.0)
    hosted = cluster.hosted(1, "events")
    assert hosted is not None
    assert cluster.partition("events").directories[0] == UNASSIGNED
    cluster.brokers[1].broker.partitions.fail_directory(hosted.directory, "a test")
    cluster.abandons_request = lambda request: False
    cluster.run_until(lambda: cluster.partition("events").leader == 2)
    assert cluster.partition("events").directories[0] == hosted.directory.id


def test_full_disk_refuses_appends_and_keeps_the_rest() -> None:
    cluster = SimulatedBrokers()
    cluster.start()
    cluster.create_topic("events", (1,))
    assert cluster.produce_and_wait("events").error is ErrorCode.NONE
    broker = cluster.brokers[1]
    broker.disk.capacity = 0
    assert cluster.produce_and_wait("events", b"x" * 100_000).error is ErrorCode.KAFKA_STORAGE_ERROR
    broker.disk.capacity = 1 << 40
    result = cluster.produce_and_wait("events")
    assert (result.error, result.base_offset) == (ErrorCode.NONE, 1)
    assert broker.broker.directories.all[0].is_online


def test_directory_of_a_deleted_topic_is_removed() -> None:
    cluster = with_two_directories(1)
    cluster.create_topic("events", (1,), (1,))
    for number in range(2):
        cluster.await_leader("events", number)
        cluster.produce_and_wait("events", number=number)
    cluster.delete_topic("events")
    cluster.run_for(120_000.0)
    broker = cluster.brokers[1]
    assert [each.is_online for each in broker.broker.directories.all] == [True, True]
    names = [name for path in ("/first", "/second") for name in broker.disk.list_directory(path)]
    assert [name for name in names if name.startswith("events")] == []
