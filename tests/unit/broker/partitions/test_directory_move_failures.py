"""Disk errors and power losses during moves between log directories lose no acknowledged record."""

from __future__ import annotations

import errno

import pytest

from quorumd.broker.log.log_flush import LogFlush
from quorumd.broker.partitions.append_result import AppendResult
from quorumd.errors import ErrorCode
from tests.support.broker.moves import (
    FIRST,
    RECORDS,
    SECOND,
    TOPIC,
    accepted_but_not_replaced,
    alter,
    cluster_of,
    deliver_responses,
    directory_of,
    future_log,
    hosted,
    is_in,
    other,
    partition_directories,
    records,
)
from tests.support.broker.simulated_brokers import SimulatedBrokers


@pytest.mark.parametrize("seed", range(10))
def test_flushed_records_survive_a_power_loss_right_after_the_replacement(seed: int) -> None:
    cluster = SimulatedBrokers((1,), seed, log_directories=(FIRST, SECOND))
    cluster.start()
    cluster.create_topic(TOPIC, (1,), flush_messages="1")
    broker = cluster.await_leader(TOPIC)
    assert cluster.produce_and_wait(TOPIC, b"first").error is ErrorCode.NONE
    acknowledged: list[bytes] = []

    def write(number: int) -> None:
        value = b"<%d>" % number

        def done(result: AppendResult) -> None:
            if result.error is ErrorCode.NONE:
                acknowledged.append(value)

        cluster.append(broker, hosted(cluster), value, done)

    number = 0
    for _ in range(3):
        alter(cluster, other(cluster))
        while hosted(cluster).future is not None:
            number += 1
            write(number)
            cluster.run_for(0.1)
        broker.kill(loses_power=True)
        broker.start()
        cluster.run_until(lambda: broker.is_unfenced)
        cluster.await_leader(TOPIC)
        found = records(cluster)
        assert [value for value in acknowledged if value not in found] == []
    assert acknowledged


def written_until_moved_or_failed(cluster: SimulatedBrokers) -> list[bytes]:
    """Write to the partition until the move of broker 1 has ended, and return the acknowledged values."""
    acknowledged: list[bytes] = []
    for number in range(1_000):
        found = cluster.hosted(1, TOPIC)
        if found is None or found.future is None:
            return acknowledged
        value = b"<%d>" % number
        if cluster.produce_and_wait(TOPIC, value).error is ErrorCode.NONE:
            acknowledged.append(value)
    raise AssertionError("the move has not ended")


@pytest.mark.parametrize("nth", range(1, 8))
@pytest.mark.parametrize("fault", ["fail_sync", "fail_directory_sync", "fail_reads"])
def test_disk_error_during_a_move_loses_nothing(fault: str, nth: int) -> None:
    """The directory of the failed operation goes offline, or the move ends as if nothing had happened."""
    cluster = cluster_of(1, 2, flush_messages="1")
    broker = cluster.brokers[1]
    alter(cluster, other(cluster))
    getattr(broker.disk, fault)(nth)
    acknowledged = [b"record %d" % number for number in range(RECORDS)]
    acknowledged += written_until_moved_or_failed(cluster)
    broker.disk.repair()
    cluster.run_for(5_000.0)
    assert cluster.produce_and_wait(TOPIC, b"afterwards").error is ErrorCode.NONE
    found = records(cluster, cluster.partition(TOPIC).leader)
    assert [value for value in acknowledged if value not in found] == []
    online = [each for each in broker.broker.directories.all if each.is_online]
    hosted_here = cluster.hosted(1, TOPIC)
    assert hosted_here is None or (hosted_here.future is None and hosted_here.directory in online)


@pytest.mark.stand_in
@pytest.mark.parametrize("of_future", [False, True])
def test_failed_rename_leaves_the_current_log_in_place(
    of_future: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_of(1, 2)
    origin, target, disk = hosted(cluster).directory.path, other(cluster), cluster.brokers[1].disk
    before, rename = records(cluster), disk.rename

    def fail(source: str, renamed: str) -> None:
        if source.endswith("-future") if of_future else source.endswith(f"/{TOPIC}-0"):
            raise OSError(errno.EIO, "a test")
        rename(source, renamed)

    monkeypatch.setattr(disk, "rename", fail)
    alter(cluster, target)
    failed = target if of_future else origin
    cluster.run_until(lambda: not directory_of(cluster, failed).is_online)
    cluster.run_for(5_000.0)
    assert records(cluster, 2).startswith(before)
    if of_future:
        assert is_in(cluster, origin)()
        assert partition_directories(cluster, origin) == ["0"]
        assert records(cluster).startswith(before)
    else:
        assert cluster.partition(TOPIC).leader == 2
        assert cluster.hosted(1, TOPIC) is None


@pytest.mark.stand_in
def test_rename_on_a_full_disk_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of(1)
    target, disk, before = other(cluster), cluster.brokers[1].disk, records(cluster)
    rename, full = disk.rename, [True, True]

    def fail_twice(source: str, renamed: str) -> None:
        if source.endswith("-future") and full:
            full.pop()
            raise OSError(errno.ENOSPC, "a test")
        rename(source, renamed)

    monkeypatch.setattr(disk, "rename", fail_twice)
    alter(cluster, target)
    cluster.run_until(is_in(cluster, target))
    assert full == []
    assert records(cluster) == before
    assert [each.is_online for each in cluster.brokers[1].broker.directories.all] == [True, True]


@pytest.mark.parametrize("after_ms", [0.0, 0.2, 0.4, 0.8, 1.6, 20.0])
def test_record_that_is_appended_during_the_last_flush_is_acknowledged_once_it_is_flushed(
    after_ms: float,
) -> None:
    """With the seed a power loss leaves nothing of data that is not flushed."""
    cluster = cluster_of(1, seed=1, flush_messages="1")
    broker, target = cluster.brokers[1], other(cluster)
    accepted_but_not_replaced(cluster, target)
    future = future_log(cluster)
    begin_flush, has_appended, results = future.begin_flush, list[bool](), list[ErrorCode]()

    def append_and_flush() -> LogFlush:
        if not has_appended:
            has_appended.append(True)
            cluster.heap.call_later(0.0, append, b"append")
        return begin_flush()

    def append() -> None:
        cluster.append(broker, hosted(cluster), b"last", lambda result: results.append(result.error))

    future.begin_flush = append_and_flush  # type: ignore[method-assign]  # appends at that moment
    deliver_responses(cluster)
    cluster.run_until(lambda: hosted(cluster).directory.path == target)
    cluster.run_for(after_ms)
    broker.kill(loses_power=True)
    broker.start()
    cluster.run_until(lambda: broker.is_unfenced)
    cluster.await_leader(TOPIC)
    assert ErrorCode.NONE not in results or b"last" in records(cluster)
    assert after_ms < 20.0 or results == [ErrorCode.NONE]
