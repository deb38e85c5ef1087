"""Replicas move to the other log directory of their broker, with every record, across failures and restarts."""

from __future__ import annotations

import pytest

from quorumd.broker.log.log_flush import LogFlush
from quorumd.broker.log.offset_checkpoint import RECOVERY_POINTS, OffsetCheckpoint
from quorumd.broker.log_management.topic_settings import MOVE_RATE
from quorumd.broker.partitions.directory_moves import COPY_BYTES
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.log.partition_metadata import ensure_partition_metadata
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.broker.moves import (
    FIRST,
    SECOND,
    TOPIC,
    accepted_but_not_replaced,
    alter,
    cluster_of,
    deliver_responses,
    directory_of,
    future_log,
    hold_reports,
    hosted,
    is_in,
    other,
    partition_directories,
    records,
    release_reports,
    restart,
)
from tests.support.broker.simulated_brokers import SimulatedBrokers

OLDER_ID = KafkaUuid(b"o" * 16)


@pytest.mark.parametrize("segment_bytes", ["1073741824", "1048576"])
def test_leader_moves_while_it_serves_clients(segment_bytes: str) -> None:
    cluster = cluster_of(1, 2, segment_bytes=segment_bytes)
    for number in range(20):
        assert cluster.produce_and_wait(TOPIC, bytes([number]) * 200_000).error is ErrorCode.NONE
    origin, target = hosted(cluster).directory.path, other(cluster)
    epoch = cluster.partition(TOPIC).leader_epoch
    assert alter(cluster, target) is ErrorCode.NONE
    while not is_in(cluster, target)():
        assert cluster.produce_and_wait(TOPIC, b"during the move" * 30_000).error is ErrorCode.NONE
    assert cluster.produce_and_wait(TOPIC, b"after the move").error is ErrorCode.NONE
    cluster.run_for(1_000.0)
    assert records(cluster, 1) == records(cluster, 2)
    assert (cluster.partition(TOPIC).leader, cluster.partition(TOPIC).leader_epoch) == (1, epoch)
    assert hosted(cluster).replica.high_watermark == hosted(cluster).log.end_offset
    assert (partition_directories(cluster, origin), partition_directories(cluster, target)) == (
        ["delete"],
        ["0"],
    )
    cluster.run_for(61_000.0)
    assert partition_directories(cluster, origin) == []
    broker = cluster.brokers[1]
    broker.stop()
    broker.start()
    cluster.run_until(lambda: len(cluster.partition(TOPIC).isr) == 2 and broker.is_unfenced)
    assert hosted(cluster).directory.path == target
    assert records(cluster, 1) == records(cluster, 2)


def test_follower_moves() -> None:
    cluster = cluster_of(1, 2)
    target = other(cluster, 2)
    assert alter(cluster, target, 2) is ErrorCode.NONE
    cluster.run_until(is_in(cluster, target, 2))
    assert cluster.produce_and_wait(TOPIC).error is ErrorCode.NONE
    cluster.run_for(1_000.0)
    assert records(cluster, 1) == records(cluster, 2)
    assert set(cluster.partition(TOPIC).isr) == {1, 2}


def test_log_that_starts_later_moves() -> None:
    cluster = cluster_of(1)
    hosted(cluster).log.delete_before(4)
    before, target = records(cluster), other(cluster)
    alter(cluster, target)
    cluster.run_until(is_in(cluster, target))
    assert (hosted(cluster).log.start_offset, records(cluster)) == (4, before)


def test_move_is_resumed_after_a_restart() -> None:
    cluster = cluster_of(1)
    target, before = other(cluster), records(cluster)
    hold_reports(cluster)
    alter(cluster, target)
    cluster.run_for(1_000.0)
    assert partition_directories(cluster, target) == ["future"]
    restart(cluster)
    assert hosted(cluster).directory.path != target
    assert cluster.produce_and_wait(TOPIC, b"one more").error is ErrorCode.NONE
    release_reports(cluster)
    cluster.run_until(is_in(cluster, target))
    assert records(cluster).startswith(before)
    assert b"one more" in records(cluster)


def test_accepted_move_is_resumed_after_a_restart() -> None:
    """The metadata has the new directory, but the log in the old one has more records."""
    cluster = cluster_of(1)
    target = other(cluster)
    accepted_but_not_replaced(cluster, target)
    assert cluster.produce_and_wait(TOPIC, b"one more").error is ErrorCode.NONE
    hold_reports(cluster)
    restart(cluster)
    assert hosted(cluster).directory.path != target
    release_reports(cluster)
    cluster.run_until(is_in(cluster, target))
    assert b"one more" in records(cluster)


def test_replacement_that_a_crash_interrupted_is_completed() -> None:
    cluster = cluster_of(1)
    target, before = other(cluster), records(cluster)
    accepted_but_not_replaced(cluster, target)
    current = hosted(cluster).log.directory
    rename = cluster.brokers[1].disk.rename
    restart(cluster, lambda: rename(current, f"{current}.{'a' * 32}-delete"))
    cluster.run_until(is_in(cluster, target))
    assert records(cluster) == before
    assert (partition_directories(cluster, FIRST), partition_directories(cluster, SECOND)).count(["0"]) == 1


def test_future_log_alone_is_not_used_while_a_directory_is_offline() -> None:
    """The current log may be there, with records that the future one lacks."""
    cluster = cluster_of(1, 2)
    target = other(cluster)
    accepted_but_not_replaced(cluster, target)
    rename, origin = cluster.brokers[1].disk.rename, hosted(cluster).directory.path
    restart(cluster, lambda: rename(f"{origin}/meta.properties", f"{origin}/away"))
    cluster.run_for(1_000.0)
    assert cluster.partition(TOPIC).leader == 2
    assert cluster.hosted(1, TOPIC) is None
    assert partition_directories(cluster, target) == ["future"]
    restart(cluster, lambda: rename(f"{origin}/away", f"{origin}/meta.properties"))
    cluster.run_until(is_in(cluster, target))
    cluster.run_until(lambda: set(cluster.partition(TOPIC).isr) == {1, 2})


def test_move_needs_no_acceptance_if_the_controller_has_no_directories() -> None:
    """A partition of a metadata version before 3.7-IV2, whose record has none."""
    cluster = cluster_of(1)
    cluster.controller.append(
        [
            TopicRecord("older", OLDER_ID),
            PartitionRecord(0, OLDER_ID, [1], [1], leader=1, leader_epoch=0, partition_epoch=0),
        ]
    )
    cluster.await_leader("older")
    assert cluster.partition("older").directories == ()
    found = cluster.hosted(1, "older")
    assert found is not None
    target = SECOND if found.directory.path == FIRST else FIRST
    alter(cluster, target, topic="older")
    cluster.run_until(lambda: found.directory.path == target)


def test_future_partition_directory_in_the_log_directory_of_its_replica_is_removed() -> None:
    cluster = cluster_of(1)
    path, disk = hosted(cluster).directory.path, cluster.brokers[1].disk
    future = f"{path}/{TOPIC}-0.{'a' * 32}-future"

    def add_future() -> None:
        disk.make_directory(future)
        ensure_partition_metadata(disk, future, hosted(cluster).id.topic_id)

    restart(cluster, add_future)
    cluster.run_for(1_000.0)
    assert hosted(cluster).directory.path == path
    assert partition_directories(cluster, path) == ["0"]


@pytest.mark.parametrize("knows_acceptance", [False, True])
def test_replica_is_offline_if_its_directory_fails_during_a_move(knows_acceptance: bool) -> None:
    cluster = cluster_of(1, 2)
    target = other(cluster)
    accepted_but_not_replaced(cluster, target)
    failed, future = hosted(cluster).directory, hosted(cluster).future
    assert future is not None
    if knows_acceptance:
        deliver_responses(cluster)
        cluster.run_until(lambda: future.is_accepted)
    cluster.brokers[1].broker.partitions.fail_directory(failed, "a test")
    if not knows_acceptance:
        deliver_responses(cluster)
    cluster.run_until(lambda: cluster.partition(TOPIC).leader == 2)
    assert cluster.partition(TOPIC).isr == (2,)
    assert partition_directories(cluster, target) == ["future"]
    assert future.log is not None
    with pytest.raises(ValueError, match="closed file"):
        future.log.segments()[0].file.size()


def test_deleted_topic_leaves_no_future_log() -> None:
    cluster = cluster_of(1)
    hold_reports(cluster)
    alter(cluster, other(cluster))
    cluster.run_for(1_000.0)
    cluster.delete_topic(TOPIC)
    cluster.run_for(61_000.0)
    assert (partition_directories(cluster, FIRST), partition_directories(cluster, SECOND)) == ([], [])


def test_move_waits_for_space() -> None:
    cluster = cluster_of(1)
    target, disk = other(cluster), cluster.brokers[1].disk
    for number in range(10):
        assert cluster.produce_and_wait(TOPIC, bytes([number]) * 100_000).error is ErrorCode.NONE
    disk.capacity = disk.used_bytes() + 300_000
    alter(cluster, target)
    cluster.run_for(10_000.0)
    assert hosted(cluster).directory.path != target
    disk.capacity = 1 << 40
    cluster.run_until(is_in(cluster, target))


def test_last_flush_waits_for_space() -> None:
    cluster = cluster_of(1)
    target, disk = other(cluster), cluster.brokers[1].disk
    accepted_but_not_replaced(cluster, target)
    future, capacity = future_log(cluster), disk.capacity
    disk.capacity = disk.used_bytes()
    deliver_responses(cluster)
    cluster.run_for(5_000.0)
    assert future.recovery_point < future.end_offset
    assert hosted(cluster).directory.path != target
    disk.capacity = capacity
    cluster.run_until(is_in(cluster, target))


def test_move_is_throttled() -> None:
    cluster = cluster_of(1)
    for number in range(10):
        assert cluster.produce_and_wait(TOPIC, bytes([number]) * 100_000).error is ErrorCode.NONE
    cluster.controller.append([ConfigRecord(int(ConfigResourceType.BROKER), "1", MOVE_RATE, "100000")])
    cluster.run_for(100.0)
    target, begun_ms = other(cluster), cluster.heap.now_ms
    alter(cluster, target)
    cluster.run_until(is_in(cluster, target))
    assert 8_000.0 < cluster.heap.now_ms - begun_ms < 15_000.0


def test_every_write_during_a_move_is_acknowledged() -> None:
    cluster = cluster_of(1, flush_messages="1")
    target, results = other(cluster), []
    alter(cluster, target)
    while hosted(cluster).future is not None:
        results.append(cluster.produce(TOPIC, b"value"))
        cluster.run_for(0.2)
    cluster.run_for(1_000.0)
    assert {result[0].error for result in results} == {ErrorCode.NONE}
    assert [each.is_online for each in cluster.brokers[1].broker.directories.all] == [True, True]


def test_checkpoints_follow_the_log() -> None:
    cluster = cluster_of(1)
    origin, target = hosted(cluster).directory.path, other(cluster)
    broker = cluster.brokers[1]

    def has_recovery_point(path: str) -> bool:
        return (TOPIC, 0) in OffsetCheckpoint(broker.disk, path, RECOVERY_POINTS).load()

    cluster.run_for(61_000.0)
    assert has_recovery_point(origin)
    alter(cluster, target)
    cluster.run_until(is_in(cluster, target))
    cluster.run_for(100.0)
    assert (has_recovery_point(origin), has_recovery_point(target)) == (False, True)
    directory = broker.broker.partitions.logs.directory_of((TOPIC, 0))
    assert directory is hosted(cluster).directory


def test_directory_that_was_not_reported_yet_is_not_accepted() -> None:
    """An old response may name it; the log would be copied twice as fast as the throttle allows."""
    cluster = cluster_of(1)
    cluster.controller.append([ConfigRecord(int(ConfigResourceType.BROKER), "1", MOVE_RATE, "1")])
    cluster.run_for(100.0)
    target = directory_of(cluster, other(cluster))
    alter(cluster, target.path)
    cluster.run_until(lambda: (future := hosted(cluster).future) is not None and future.log is not None)
    cluster.brokers[1].broker.moves.accepted(hosted(cluster), target.id)
    future = hosted(cluster).future
    assert future is not None
    assert not future.is_accepted


def test_sealed_segments_of_a_future_log_are_flushed_during_the_copy() -> None:
    """Otherwise the flush before the replacement would be that of the whole log."""
    cluster = cluster_of(1, segment_bytes="1048576")
    for number in range(20):
        assert cluster.produce_and_wait(TOPIC, bytes([number]) * 200_000).error is ErrorCode.NONE
    hold_reports(cluster)
    alter(cluster, other(cluster))
    cluster.run_for(5_000.0)
    future = future_log(cluster)
    assert future.end_offset == hosted(cluster).log.end_offset
    assert future.recovery_point >= future.segments()[-1].base_offset > 0


def test_records_appended_during_the_last_flush_are_copied_before_the_replacement() -> None:
    """More of them than one turn copies."""
    cluster = cluster_of(1)
    target = other(cluster)
    accepted_but_not_replaced(cluster, target)
    future = future_log(cluster)
    begin_flush, values = (
        future.begin_flush,
        [b"<%d>" % number + b"." * COPY_BYTES for number in range(3)],
    )

    def append_and_flush() -> LogFlush:
        flush = begin_flush()
        while values:
            cluster.append(cluster.brokers[1], hosted(cluster), values.pop(0), lambda result: None)
        return flush

    future.begin_flush = append_and_flush  # type: ignore[method-assign]  # appends at that moment
    deliver_responses(cluster)
    cluster.run_until(is_in(cluster, target))
    assert values == []
    found = records(cluster)
    assert [number for number in range(3) if b"<%d>" % number not in found] == []


def test_interrupted_move_to_a_directory_that_has_failed_is_not_resumed() -> None:
    cluster = cluster_of(1)
    broker, target = cluster.brokers[1], other(cluster)
    hold_reports(cluster)
    alter(cluster, target)
    cluster.run_for(1_000.0)
    broker.kill()
    broker.start()
    cluster.run_until(lambda: bool(broker.broker.partitions.logs.partition_directories.future))
    assert cluster.hosted(1, TOPIC) is None
    broker.broker.partitions.fail_directory(directory_of(cluster, target), "a test")
    release_reports(cluster)
    cluster.run_until(lambda: broker.is_unfenced)
    cluster.run_for(1_000.0)
    assert hosted(cluster).future is None
    assert hosted(cluster).directory.path != target


def test_move_goes_on_if_a_directory_fails_that_is_not_part_of_it() -> None:
    cluster = SimulatedBrokers(log_directories=(FIRST, SECOND, "/third"))
    cluster.start()
    cluster.create_topic(TOPIC, (1,))
    cluster.await_leader(TOPIC)
    target, unused = [
        each for each in cluster.brokers[1].broker.directories.all if each is not hosted(cluster).directory
    ]
    hold_reports(cluster)
    alter(cluster, target.path)
    cluster.run_for(1_000.0)
    cluster.brokers[1].broker.partitions.fail_directory(unused, "a test")
    release_reports(cluster)
    cluster.run_until(is_in(cluster, target.path))


def test_repeated_acceptance_flushes_the_log_once() -> None:
    cluster = cluster_of(1)
    target = directory_of(cluster, other(cluster))
    accepted_but_not_replaced(cluster, target.path)
    future = future_log(cluster)
    begin_flush, flushes = future.begin_flush, []

    def record_flush() -> LogFlush:
        flushes.append(begin_flush())
        cluster.brokers[1].broker.moves.accepted(hosted(cluster), target.id)
        return flushes[-1]

    future.begin_flush = record_flush  # type: ignore[method-assign]  # repeats the acceptance at that moment
    deliver_responses(cluster)
    cluster.run_until(is_in(cluster, target.path))
    assert len(flushes) == 1


@pytest.mark.parametrize(
    ("flush_messages", "appends", "flushes"), [("1", True, 2), ("1", False, 1), ("", True, 1)]
)
def test_what_a_replacement_copies_is_flushed_only_with_flush_messages(
    flush_messages: str, appends: bool, flushes: int
) -> None:
    """Without it, these records are as durable as in the log that they come from."""
    cluster = cluster_of(1, **({"flush_messages": flush_messages} if flush_messages else {}))
    settings, target = hosted(cluster).log.settings, other(cluster)
    accepted_but_not_replaced(cluster, target)
    future = future_log(cluster)
    begin_flush, begun = future.begin_flush, []

    def append_and_flush() -> LogFlush:
        begun.append(begin_flush())
        if appends and len(begun) == 1:
            cluster.heap.call_later(0.0, append, b"append")
        return begun[-1]

    def append() -> None:
        cluster.append(cluster.brokers[1], hosted(cluster), b"last", lambda result: None)

    future.begin_flush = append_and_flush  # type: ignore[method-assign]  # appends at that moment
    deliver_responses(cluster)
    cluster.run_until(lambda: hosted(cluster).directory.path == target)
    assert len(begun) == 1
    cluster.run_for(100.0)
    assert len(begun) == flushes
    assert hosted(cluster).log.settings == settings
    assert (b"last" in records(cluster)) is appends


def test_acceptance_of_another_directory_does_not_count() -> None:
    """It is that of an earlier report."""
    cluster = cluster_of(1)
    target = other(cluster)
    accepted_but_not_replaced(cluster, target)
    future = hosted(cluster).future
    assert future is not None
    assert future.is_assigned
    cluster.brokers[1].broker.moves.accepted(hosted(cluster), hosted(cluster).directory.id)
    assert not future.is_accepted
