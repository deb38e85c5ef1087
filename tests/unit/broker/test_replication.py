"""Three brokers replicate: leaders, followers, ISR changes through the controller, failures and restarts."""

from __future__ import annotations

import pytest

from quorumd.broker.settings.broker_settings import HousekeepingSettings
from quorumd.errors import ErrorCode
from tests.support.broker.simulated_brokers import SimulatedBrokers

REPLICAS = (1, 2, 3)


@pytest.fixture
def cluster() -> SimulatedBrokers:
    cluster = SimulatedBrokers(REPLICAS, replica_lag_time_max_ms=2_000.0)
    cluster.start()
    cluster.create_topic("events", REPLICAS, min_insync_replicas="2")
    return cluster


def values(cluster: SimulatedBrokers, broker_id: int) -> bytes:
    """All batches of a broker's log."""
    hosted = cluster.hosted(broker_id, "events")
    assert hosted is not None
    return hosted.log.read(hosted.log.start_offset, 1 << 30, hosted.log.end_offset)


def logs_are_equal(cluster: SimulatedBrokers, *broker_ids: int) -> bool:
    hosted = [cluster.hosted(broker_id, "events") for broker_id in broker_ids]
    return all(hosted) and len({values(cluster, broker_id) for broker_id in broker_ids}) == 1


def test_followers_have_what_the_leader_acknowledged(cluster: SimulatedBrokers) -> None:
    results = [cluster.produce_and_wait("events", b"%d" % number) for number in range(5)]
    assert [(result.error, result.base_offset) for result in results] == [
        (ErrorCode.NONE, number) for number in range(5)
    ]
    cluster.run_until(lambda: logs_are_equal(cluster, *REPLICAS))
    assert cluster.partition("events").isr == REPLICAS


def test_dead_follower_leaves_the_isr_and_rejoins(cluster: SimulatedBrokers) -> None:
    cluster.produce_and_wait("events")
    cluster.brokers[3].kill()
    results = cluster.produce("events", timeout_ms=30_000.0)
    cluster.run_until(lambda: bool(results))
    assert results[0].error is ErrorCode.NONE
    assert set(cluster.partition("events").isr) == {1, 2}
    cluster.brokers[3].start()
    cluster.run_until(lambda: set(cluster.partition("events").isr) == {1, 2, 3})
    assert logs_are_equal(cluster, *REPLICAS)


def test_acknowledged_records_survive_the_leader(cluster: SimulatedBrokers) -> None:
    for number in range(3):
        assert cluster.produce_and_wait("events", b"before %d" % number).error is ErrorCode.NONE
    cluster.brokers[1].kill(loses_power=True)
    cluster.run_until(lambda: cluster.partition("events").leader not in (1, -1))
    assert cluster.produce_and_wait("events", b"after").base_offset == 3
    cluster.brokers[1].start()
    cluster.run_until(lambda: set(cluster.partition("events").isr) == {1, 2, 3})
    assert logs_are_equal(cluster, *REPLICAS)
    assert all(b"before %d" % number in values(cluster, 1) for number in range(3))


def test_produce_fails_without_enough_replicas(cluster: SimulatedBrokers) -> None:
    cluster.produce_and_wait("events")
    for broker_id in (2, 3):
        cluster.brokers[broker_id].kill()
    late = cluster.produce("events", timeout_ms=1_000.0)
    cluster.run_for(1_500.0)
    assert [result.error for result in late] == [ErrorCode.REQUEST_TIMED_OUT]
    cluster.run_until(lambda: cluster.partition("events").isr == (1,))
    cluster.run_for(100.0)
    assert cluster.produce("events")[0].error is ErrorCode.NOT_ENOUGH_REPLICAS


def test_controlled_shutdown_moves_the_leader_and_keeps_the_isr_clean(cluster: SimulatedBrokers) -> None:
    cluster.produce_and_wait("events")
    first = cluster.brokers[1]
    first.stop()
    assert cluster.partition("events").leader in (2, 3)
    assert 1 not in cluster.partition("events").isr
    assert first.disk.exists("/data/.kafka_cleanshutdown")
    cluster.produce_and_wait("events")
    first.start()
    assert first.broker.directories.all[0].clean_epoch >= 0
    cluster.run_until(lambda: set(cluster.partition("events").isr) == {1, 2, 3})
    assert not first.disk.exists("/data/.kafka_cleanshutdown")
    assert logs_are_equal(cluster, *REPLICAS)


def test_deleted_topic_leaves_no_directory(cluster: SimulatedBrokers) -> None:
    cluster.produce_and_wait("events")
    cluster.delete_topic("events")
    cluster.run_until(lambda: not any(len(each.broker.partitions) for each in cluster.brokers.values()))
    cluster.run_for(61_000.0)
    for broker in cluster.brokers.values():
        assert not [name for name in broker.disk.list_directory("/data") if name.startswith("events")]


def test_recreated_topic_begins_with_an_empty_log(cluster: SimulatedBrokers) -> None:
    cluster.produce_and_wait("events", b"of the first topic")
    cluster.brokers[3].kill()
    cluster.delete_topic("events")
    cluster.create_topic("events", REPLICAS, min_insync_replicas="1")
    cluster.brokers[3].start()
    cluster.run_until(lambda: cluster.brokers[3].is_unfenced)
    result = cluster.produce_and_wait("events", b"of the second topic")
    assert (result.error, result.base_offset) == (ErrorCode.NONE, 0)
    cluster.run_until(lambda: logs_are_equal(cluster, *REPLICAS))
    assert b"first" not in values(cluster, 3)


def test_directory_of_a_deleted_topic_is_removed_at_the_start(cluster: SimulatedBrokers) -> None:
    cluster.produce_and_wait("events")
    broker = cluster.brokers[3]
    broker.kill()
    cluster.delete_topic("events")
    broker.start()
    cluster.run_until(lambda: broker.is_unfenced)
    assert not [name for name in broker.disk.list_directory("/data") if name.startswith("events")]


def test_follower_behind_the_log_start_of_its_leader_continues_there(cluster: SimulatedBrokers) -> None:
    cluster.produce_and_wait("events", b"early")
    cluster.brokers[3].kill()
    cluster.run_until(lambda: 3 not in cluster.partition("events").isr)
    for number in range(4):
        cluster.produce_and_wait("events", b"deleted %d" % number)
    leader = cluster.await_leader("events")
    hosted = cluster.hosted(leader.id, "events")
    assert hosted is not None
    assert hosted.replica.delete_records(4) is ErrorCode.NONE
    cluster.brokers[3].start()
    cluster.run_until(lambda: set(cluster.partition("events").isr) == {1, 2, 3})
    follower = cluster.hosted(3, "events")
    assert follower is not None
    assert (follower.log.start_offset, follower.log.end_offset) == (4, 5)
    assert values(cluster, 3) == hosted.log.read(4, 1 << 30, 5)


def test_broker_begins_with_a_snapshot_of_the_metadata(cluster: SimulatedBrokers) -> None:
    cluster.produce_and_wait("events")
    cluster.create_topic("deleted", REPLICAS)
    cluster.run_for(100.0)
    cluster.brokers[3].kill()
    cluster.delete_topic("deleted")
    cluster.create_topic("newer", REPLICAS)
    cluster.brokers[3].start(with_snapshot=True)
    cluster.run_until(lambda: set(cluster.partition("events").isr) == {1, 2, 3})
    cluster.run_until(lambda: cluster.hosted(3, "newer") is not None)
    hosted = [each.topic for each in cluster.brokers[3].broker.partitions.all()]
    assert sorted(hosted) == ["events", "newer"]
    directories = cluster.brokers[3].disk.list_directory("/data")
    assert not [name for name in directories if name.startswith("deleted")]


def test_checkpoint_has_the_high_watermark() -> None:
    cluster = SimulatedBrokers(housekeeping=HousekeepingSettings(high_watermark_checkpoint_ms=100.0))
    cluster.start()
    cluster.create_topic("events", (1,))
    cluster.produce_and_wait("events")
    cluster.run_for(500.0)
    broker = cluster.brokers[1]
    broker.kill()
    broker.start()
    hosted = cluster.await_leader("events").broker.partitions.all()[0]
    assert hosted.replica.high_watermark == 1
