"""Requests to move a replica to another log directory: what is refused, and when the response follows."""

from __future__ import annotations

import pytest

from quorumd.errors import ErrorCode
from quorumd.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.broker.moves import (
    FIRST,
    SECOND,
    TOPIC,
    alter,
    cluster_of,
    directory_of,
    hold_reports,
    hosted,
    is_in,
    other,
    release_reports,
)
from tests.support.broker.simulated_brokers import SimulatedBrokers


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("is_repeated", [False, True])
def test_move_is_resumed_after_a_kill_right_after_the_response(loses_power: bool, is_repeated: bool) -> None:
    """Also if the response is that to a second request for the same move."""
    cluster = cluster_of(1)
    broker, target = cluster.brokers[1], other(cluster)
    hold_reports(cluster)
    errors: list[ErrorCode] = []
    if is_repeated:
        alter(cluster, target)
    broker.broker.moves.alter(TOPIC, 0, target, errors.append)
    cluster.run_until(lambda: errors)
    assert errors == [ErrorCode.NONE]
    broker.kill(loses_power=loses_power)
    broker.start()
    cluster.run_until(lambda: broker.is_unfenced)
    release_reports(cluster)
    cluster.run_until(is_in(cluster, target))


def test_move_whose_directory_cannot_be_created_is_refused() -> None:
    cluster = cluster_of(1, 2)
    broker, target, errors = cluster.brokers[1], other(cluster), []
    broker.disk.fail_directory_sync(1)
    broker.broker.moves.alter(TOPIC, 0, target, errors.append)
    cluster.run_until(lambda: errors)
    assert errors == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert not directory_of(cluster, target).is_online


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_move_whose_directory_has_no_space_is_given_up(is_cancelled: bool) -> None:
    cluster = cluster_of(1)
    broker, target, errors = cluster.brokers[1], other(cluster), []
    disk, capacity = broker.disk, broker.disk.capacity
    disk.capacity = disk.used_bytes()
    broker.broker.moves.alter(TOPIC, 0, target, errors.append)
    if is_cancelled:
        alter(cluster, hosted(cluster).directory.path)
    cluster.run_until(lambda: errors)
    assert errors == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert directory_of(cluster, target).is_online
    assert hosted(cluster).future is None
    disk.capacity = capacity
    alter(cluster, target)
    cluster.run_until(is_in(cluster, target))


def test_request_for_another_directory_ends_the_previous_one() -> None:
    cluster = SimulatedBrokers(log_directories=(FIRST, SECOND, "/third"))
    cluster.start()
    cluster.create_topic(TOPIC, (1,))
    cluster.await_leader(TOPIC)
    moves, done = cluster.brokers[1].broker.moves, []
    paths = sorted({FIRST, SECOND, "/third"} - {hosted(cluster).directory.path})
    for path in paths:
        moves.alter(TOPIC, 0, path, lambda error, path=path: done.append((path, error)))
    cluster.run_until(lambda: len(done) == len(paths))
    assert dict(done) == dict.fromkeys(paths, ErrorCode.NONE)


def test_request_for_a_resumed_move_needs_no_wait() -> None:
    """The directory is there; to recover the log in it may take long."""
    cluster = cluster_of(1)
    broker, target = cluster.brokers[1], other(cluster)
    hold_reports(cluster)
    alter(cluster, target)
    cluster.run_for(1_000.0)
    broker.kill()
    broker.start()
    cluster.run_until(lambda: (found := cluster.hosted(1, TOPIC)) is not None and found.future is not None)
    future, errors = hosted(cluster).future, []
    assert future is not None
    assert future.log is None
    broker.broker.moves.alter(TOPIC, 0, target, errors.append)
    assert errors == [ErrorCode.NONE]


def test_errors_are_those_of_kafka() -> None:
    cluster = cluster_of(1, 2)
    long, alone = "x" * 215, "alone"
    for topic, replica in ((long, 1), (alone, 2)):
        cluster.create_topic(topic, (replica,))
        cluster.await_leader(topic)
    target = other(cluster)
    assert alter(cluster, "/third") is ErrorCode.LOG_DIR_NOT_FOUND
    assert alter(cluster, target, topic="unknown") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(cluster, target, topic=long) is ErrorCode.INVALID_TOPIC
    assert alter(cluster, target, topic=alone) is ErrorCode.REPLICA_NOT_AVAILABLE
    broker = cluster.brokers[1].broker
    failed = broker.directories.find(target)
    assert failed is not None
    broker.partitions.fail_directory(failed, "a test")
    assert alter(cluster, target) is ErrorCode.KAFKA_STORAGE_ERROR


def test_no_move_begins_while_a_directory_is_offline() -> None:
    cluster = SimulatedBrokers(log_directories=(FIRST, SECOND, "/third"))
    cluster.start()
    cluster.create_topic(TOPIC, (1,))
    cluster.await_leader(TOPIC)
    broker = cluster.brokers[1].broker
    unused = [each for each in broker.directories.all if each is not hosted(cluster).directory]
    broker.partitions.fail_directory(unused[0], "a test")
    assert alter(cluster, unused[1].path) is ErrorCode.KAFKA_STORAGE_ERROR
    assert alter(cluster, hosted(cluster).directory.path) is ErrorCode.NONE


@pytest.mark.parametrize("path", [FIRST, SECOND])
def test_replica_that_is_not_there_yet_is_created_where_it_is_wanted(path: str) -> None:
    cluster = cluster_of(1, 2)
    cluster.create_topic("later", (2,))
    cluster.await_leader("later")
    cluster.run_for(100.0)
    assert alter(cluster, path, topic="later") is ErrorCode.REPLICA_NOT_AVAILABLE
    partition = ReassignablePartition(0, [2, 1])
    cluster.controller.handle(
        AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("later", [partition])]), 0
    )
    cluster.run_until(lambda: set(cluster.partition("later").isr) == {1, 2})
    found = cluster.hosted(1, "later")
    assert found is not None
    assert found.directory.path == path
