"""Cancelled moves between log directories, requested or because a directory fails, leave nothing behind."""

from __future__ import annotations

import logging

import pytest

from quorumd.broker.log_management.topic_settings import MOVE_RATE
from quorumd.broker.partitions.directory_moves import COPY_BYTES
from quorumd.errors import ErrorCode
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.config_record import ConfigRecord
from tests.support.broker.moves import (
    TOPIC,
    accepted_but_not_replaced,
    alter,
    cluster_of,
    deliver_responses,
    future_log,
    hold_reports,
    hosted,
    is_in,
    other,
    partition_directories,
    release_reports,
)


@pytest.mark.parametrize("is_accepted", [False, True])
def test_cancelled_move_leaves_nothing_behind(is_accepted: bool) -> None:
    cluster = cluster_of(1)
    origin, target = hosted(cluster).directory.path, other(cluster)
    if is_accepted:
        accepted_but_not_replaced(cluster, target)
    else:
        hold_reports(cluster)
        alter(cluster, target)
        cluster.run_for(1_000.0)
    assert alter(cluster, origin) is ErrorCode.NONE
    release_reports(cluster)
    deliver_responses(cluster)
    cluster.run_for(1_000.0)
    assert is_in(cluster, origin)()
    assert (partition_directories(cluster, origin), partition_directories(cluster, target)) == (["0"], [])


def test_move_that_is_cancelled_before_the_last_flush_is_reported() -> None:
    """The broker knows that the controller has recorded the new directory."""
    cluster = cluster_of(1)
    origin, target = hosted(cluster).directory.path, other(cluster)
    accepted_but_not_replaced(cluster, target)
    future = hosted(cluster).future
    assert future is not None
    cluster.run_for(100.0)
    deliver_responses(cluster)
    cluster.run_until(lambda: future.is_accepted)
    assert hosted(cluster).future is future
    alter(cluster, origin)
    cluster.run_until(is_in(cluster, origin))


def test_move_that_is_cancelled_during_the_copy_goes_no_further(caplog: pytest.LogCaptureFixture) -> None:
    """The next chunk would be written to a closed file."""
    cluster = cluster_of(1)
    for _ in range(2):
        assert cluster.produce_and_wait(TOPIC, b"." * COPY_BYTES).error is ErrorCode.NONE
    cluster.controller.append([ConfigRecord(int(ConfigResourceType.BROKER), "1", MOVE_RATE, "10000")])
    cluster.run_for(100.0)
    origin, target = hosted(cluster).directory.path, other(cluster)
    alter(cluster, target)
    cluster.run_for(1_000.0)
    assert 0 < future_log(cluster).end_offset < hosted(cluster).log.end_offset
    alter(cluster, origin)
    cluster.run_for(61_000.0)
    assert (partition_directories(cluster, origin), partition_directories(cluster, target)) == (["0"], [])
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("is_open", [False, True])
def test_confirmed_cancellation_survives_a_power_loss(is_open: bool) -> None:
    """Otherwise the next start would resume the move."""
    cluster = cluster_of(1)
    broker, origin, target = cluster.brokers[1], hosted(cluster).directory.path, other(cluster)
    begun: list[ErrorCode] = []
    errors: list[ErrorCode] = []
    hold_reports(cluster)
    broker.broker.moves.alter(TOPIC, 0, target, begun.append)
    if is_open:
        cluster.run_until(lambda: begun)
    broker.broker.moves.alter(TOPIC, 0, f"{origin}/", errors.append)
    broker.broker.moves.alter(TOPIC, 0, origin, errors.append)
    assert errors == []
    cluster.run_until(lambda: errors)
    assert errors == [ErrorCode.NONE, ErrorCode.NONE]
    broker.kill(loses_power=True)
    broker.start()
    cluster.run_until(lambda: broker.is_unfenced)
    release_reports(cluster)
    cluster.run_for(1_000.0)
    assert hosted(cluster).directory.path == origin
    assert hosted(cluster).future is None


def test_cancellation_is_refused_if_the_directory_of_the_move_fails() -> None:
    cluster = cluster_of(1)
    broker, origin, target = cluster.brokers[1], hosted(cluster).directory.path, other(cluster)
    hold_reports(cluster)
    alter(cluster, target)
    cluster.run_for(1_000.0)
    errors: list[ErrorCode] = []
    broker.disk.fail_directory_sync(1)
    broker.broker.moves.alter(TOPIC, 0, origin, errors.append)
    cluster.run_until(lambda: errors)
    assert errors == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_move_is_given_up_if_its_directory_fails() -> None:
    cluster = cluster_of(1)
    origin, target = hosted(cluster).directory.path, other(cluster)
    accepted_but_not_replaced(cluster, target)
    broker = cluster.brokers[1].broker
    directory = broker.directories.find(target)
    assert directory is not None
    broker.partitions.fail_directory(directory, "a test")
    deliver_responses(cluster)
    cluster.run_until(is_in(cluster, origin))
    cluster.run_until(lambda: cluster.partition(TOPIC).leader == 1)
    assert hosted(cluster).future is None
    assert cluster.produce_and_wait(TOPIC).error is ErrorCode.NONE


def test_move_that_is_cancelled_before_its_log_is_open_leaves_nothing_behind() -> None:
    cluster = cluster_of(1)
    origin, target = hosted(cluster).directory.path, other(cluster)
    alter(cluster, target)
    future = hosted(cluster).future
    assert future is not None
    assert future.log is None
    alter(cluster, origin)
    cluster.run_for(1_000.0)
    assert future.log is not None
    assert (partition_directories(cluster, origin), partition_directories(cluster, target)) == (["0"], [])
