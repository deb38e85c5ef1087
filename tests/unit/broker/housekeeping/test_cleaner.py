"""Retention and compaction of the logs of a broker, and what a fault in them leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorumd.broker.log import records
from quorumd.broker.log.offset_checkpoint import CLEANER_OFFSETS, OffsetCheckpoint
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.errors import ErrorCode, StorageError
from tests.support.broker.api_clients import Client
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.log.data_batches import produced

KEYS = (b"a", b"b", b"a", b"b", b"a")


@pytest.fixture
def cluster() -> SimulatedBrokers:
    cluster = SimulatedBrokers(log_directories=("/first", "/second"))
    cluster.start()
    return cluster


def compacted(cluster: SimulatedBrokers, name: str = "events") -> HostedPartition:
    """A log of two keys, one segment for each record."""
    cluster.create_topic(name, (1,), cleanup_policy="compact", segment_ms="1", min_cleanable_dirty_ratio="0")
    cluster.await_leader(name)
    client = Client(cluster)
    for number, key in enumerate(KEYS):
        result = client.produce(produced([(key, b"value")], timestamps=[1000 + 100 * number]), topic=name)
        assert result.error_code == ErrorCode.NONE
    hosted = cluster.hosted(1, name)
    assert hosted is not None
    return hosted


def test_compaction_keeps_the_last_record_of_each_key(cluster: SimulatedBrokers) -> None:
    hosted = compacted(cluster)
    before = hosted.log.size_bytes
    cluster.run_until(lambda: hosted.log.size_bytes < before)
    cluster.run_for(1_000)
    assert hosted.log.first_dirty_offset == 4
    path = hosted.directory.path
    assert OffsetCheckpoint(cluster.brokers[1].disk, path, CLEANER_OFFSETS).load() == {("events", 0): 4}


def test_batches_that_cannot_be_read_are_reported(
    cluster: SimulatedBrokers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(records, "MAX_RECORDS", 0)
    compacted(cluster)
    cleaner = cluster.brokers[1].broker.housekeeping.cleaner
    cluster.run_until(lambda: cleaner.unread_batches > 0)
    assert cleaner.unread_batches == 4
    (warning,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "events-0" in warning
    assert " 4 batches" in warning


def test_failed_compaction_does_not_block_other_logs(
    cluster: SimulatedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, jobs = cluster.brokers[1].disk, list[object]()
    run = disk.run_in_subprocess

    def run_in_subprocess(job: Callable[..., object], done: Callable[[object], None]) -> None:
        jobs.append(job)
        if len(jobs) == 1:
            done(OSError("the process was killed"))
        else:
            run(job, done)

    monkeypatch.setattr(disk, "run_in_subprocess", run_in_subprocess)
    first, second = compacted(cluster), compacted(cluster, "others")
    sizes = first.log.size_bytes, second.log.size_bytes
    cluster.run_until(lambda: len(jobs) > 1)
    cluster.run_for(1_000)
    compacted_sizes = first.log.size_bytes, second.log.size_bytes
    assert sum(now < before for now, before in zip(compacted_sizes, sizes, strict=True)) == 1
    assert first.log.first_dirty_offset == second.log.first_dirty_offset == 4
    assert first.directory.is_online


def test_deleted_log_is_not_compacted(cluster: SimulatedBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    finish: list[Callable[[object], None]] = []
    monkeypatch.setattr(cluster.brokers[1].disk, "run_in_subprocess", lambda job, done: finish.append(done))
    hosted = compacted(cluster)
    cluster.run_until(lambda: bool(finish))
    cluster.delete_topic("events")
    cluster.run_until(lambda: not hosted.is_open)
    finish[0](OSError("the process was killed"))
    assert hosted.log.first_dirty_offset == 0
    assert hosted.directory.is_online


@pytest.mark.parametrize("work", ["retain", "compact"])
def test_log_that_cannot_be_cleaned_fails_its_directory_only(
    cluster: SimulatedBrokers, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    first, second = compacted(cluster), compacted(cluster, "others")

    def fail(*arguments: object) -> None:
        if arguments[0] is first.log:
            raise StorageError("a bad block")

    if work == "retain":
        monkeypatch.setattr(first.log, "enforce_retention", lambda wall_ms, high_watermark: fail(first.log))
    else:
        monkeypatch.setattr("quorumd.broker.housekeeping.cleaner.plan_compaction", fail)
    cleaner = cluster.brokers[1].broker.housekeeping.cleaner
    getattr(cleaner, work)()
    cluster.run_for(100)
    assert not first.directory.is_online
    assert second.directory.is_online


def test_compaction_that_cannot_be_installed_fails_the_directory(
    cluster: SimulatedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError("a bad block")

    monkeypatch.setattr("quorumd.broker.housekeeping.cleaner.install_compaction", fail)
    hosted = compacted(cluster)
    cluster.run_until(lambda: not hosted.directory.is_online)
    assert cluster.brokers[1].failures == []
