"""Log directories of three nodes fail under load: replicas leave the ISRs, and no acknowledged record is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorumd.errors import ErrorCode, ExitCode
from tests.support.processes.log_directories import (
    DirectoryCluster,
    TwoDirectories,
    Writing,
    break_directory,
    mend_directory,
)

ALL = {1, 2, 3}
PARTITIONS = range(6)
PATIENCE_S = 60
PROPERTIES = (
    "replica.high.watermark.checkpoint.interval.ms=200\nbroker.heartbeat.interval.ms=200\n"
    "broker.session.timeout.ms=3000\nreplica.lag.time.max.ms=3000\n"
)


def isrs_without(node: TwoDirectories, numbers: set[int]) -> dict[int, set[int]]:
    """Return the ISRs of all partitions if a node lacks its replicas of `numbers`."""
    return {number: ALL - {node.node_id} if number in numbers else ALL for number in PARTITIONS}


def test_acknowledged_records_survive_failing_directories(tmp_path: Path) -> None:
    with DirectoryCluster(tmp_path, 3, PROPERTIES).running() as cluster:
        first, second, _ = cluster.nodes
        cluster.create_topic(len(PARTITIONS), min_insync_replicas="2")
        lost, kept = first.numbers(first.first), first.numbers(first.second)
        assert (len(lost), lost | kept) == (3, set(PARTITIONS))
        led = {number for number, leader in cluster.leaders().items() if leader == 1}
        with Writing(cluster.bootstrap) as writing:
            writing.await_more()
            break_directory(first.first)
            cluster.await_isrs(isrs_without(first, lost))
            leaders = cluster.leaders()
            assert {number for number in PARTITIONS if leaders[number] == 1} == led & kept
            assert first.described(first.first).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            writing.await_more()

            # The directory is still unusable after a restart.
            first.kill()
            first.restart()
            cluster.await_isrs(isrs_without(first, lost))
            assert first.numbers(first.second) == kept
            writing.await_more()

            # The repaired directory has its records.
            first.kill()
            mend_directory(first.first)
            first.restart()
            cluster.await_isrs(isrs_without(first, set()))
            assert (first.numbers(first.first), first.numbers(first.second)) == (lost, kept)
            writing.await_more()

            # A broker stops without its last directory.
            missing = second.numbers(second.first)
            break_directory(second.first)
            cluster.await_isrs(isrs_without(second, missing))
            break_directory(second.second)
            assert second.wait(PATIENCE_S) == ExitCode.DATA_DIRECTORY
            second.start()
            assert second.wait(PATIENCE_S) == ExitCode.DATA_DIRECTORY
            mend_directory(second.second)
            second.restart()
            cluster.await_isrs(isrs_without(second, missing))
            writing.await_more()
        writing.verify()


@pytest.mark.parametrize("fails_at_start", [False, True])
def test_node_stops_without_its_metadata_log(tmp_path: Path, fails_at_start: bool) -> None:
    with DirectoryCluster(tmp_path, 1, PROPERTIES).running() as cluster:
        (node,) = cluster.nodes
        if fails_at_start:
            node.kill()
            break_directory(node.data)
            node.start()
        else:
            break_directory(node.data)
        assert node.wait(PATIENCE_S) == ExitCode.DATA_DIRECTORY
        mend_directory(node.data)
        node.restart()
