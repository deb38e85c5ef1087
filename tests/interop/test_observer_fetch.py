"""Fetches of the metadata log as from a stock 4.x broker, which halts after unexpected responses."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.log.log_files import bytes_below
from tests.support.processes.daemons import Cluster, Daemon
from tests.support.processes.observer import BROKER, VERSIONS, end_of, epoch_of, fetch, partition_of
from tests.support.processes.requests import set_register
from tests.support.processes.wire import Wire

NONE, NOT_LEADER, FENCED_EPOCH, UNKNOWN_EPOCH, UNKNOWN_TOPIC_ID = 0, 6, 74, 75, 100
UNKNOWN_TOPIC, INVALID_REQUEST, INCONSISTENT_CLUSTER_ID = 3, 42, 104


LONG_MS = 30_000
"""A maximum wait that is longer than the timeout of the tests."""
LONG_S = LONG_MS / 1000


@pytest.fixture
def leader(cluster: Cluster) -> Daemon:
    daemon = cluster.leader()
    with daemon.connect() as wire:
        set_register(wire, "observed", "1")
    return daemon


@pytest.fixture
def wire(leader: Daemon) -> Iterator[Wire]:
    with leader.connect() as connected:
        yield connected


def _assert_names_leader(response: Any, version: int, leader: Daemon, epoch: int) -> None:
    """Every response must have CurrentLeader and, from v16 on, the leader's endpoint: otherwise a broker halts."""
    partition = partition_of(response)
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (
        leader.node_id,
        epoch,
    )
    if version >= 16:
        endpoints = {(node.node_id, node.host, node.port) for node in response.node_endpoints}
        assert (leader.node_id, "127.0.0.1", leader.port) in endpoints


@pytest.mark.parametrize("version", VERSIONS)
def test_observer_copies_the_log_byte_for_byte(
    cluster: Cluster, leader: Daemon, wire: Wire, version: int
) -> None:
    quorum = leader.await_quorum()
    copied, high_watermark, offset, last_epoch = b"", -1, 0, 0
    while high_watermark < quorum.high_watermark or offset < high_watermark:
        response = fetch(wire, version, quorum.epoch, offset, last_epoch)
        _assert_names_leader(response, version, leader, quorum.epoch)
        partition = partition_of(response)
        assert partition.error_code == NONE
        assert partition.high_watermark >= high_watermark, "a broker halts when the high watermark decreases"
        assert partition.log_start_offset == 0
        high_watermark = partition.high_watermark
        if partition.records:
            copied += partition.records
            offset, last_epoch = end_of(partition.records)
    cluster.wait_until_level()
    assert bytes_below(leader.partition_directory, offset) == copied


@pytest.mark.parametrize("version", VERSIONS)
def test_error_depends_on_the_epoch_of_the_request_and_every_response_names_the_leader(
    cluster: Cluster, leader: Daemon, wire: Wire, version: int
) -> None:
    epoch = leader.await_quorum().epoch
    stale = fetch(wire, version, epoch - 1, 0, 0)
    _assert_names_leader(stale, version, leader, epoch)
    assert partition_of(stale).error_code == FENCED_EPOCH
    future = fetch(wire, version, epoch + 1, 0, 0)
    _assert_names_leader(future, version, leader, epoch)
    assert partition_of(future).error_code == UNKNOWN_EPOCH

    for follower in cluster.others(leader):
        with follower.connect() as other:
            elsewhere = fetch(other, version, epoch, 0, 0)
            fresh = fetch(other, version, 0, 0, 0)
        _assert_names_leader(elsewhere, version, leader, epoch)
        assert partition_of(elsewhere).error_code == NOT_LEADER
        assert not partition_of(elsewhere).records
        _assert_names_leader(fresh, version, leader, epoch)
        assert partition_of(fresh).error_code == FENCED_EPOCH


@pytest.mark.parametrize("version", VERSIONS)
def test_diverging_position_gets_the_diverging_epoch(leader: Daemon, wire: Wire, version: int) -> None:
    quorum = leader.await_quorum()
    end = quorum.voters[leader.node_id]
    response = fetch(wire, version, quorum.epoch, end + 100, quorum.epoch)
    _assert_names_leader(response, version, leader, quorum.epoch)
    partition = partition_of(response)
    assert partition.error_code == NONE
    assert not partition.records
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (quorum.epoch, end)
    assert partition.diverging_epoch.end_offset >= partition.high_watermark


@pytest.mark.parametrize("version", VERSIONS)
def test_fetch_at_the_end_waits_and_a_new_record_wakes_it(
    cluster: Cluster, leader: Daemon, version: int
) -> None:
    cluster.wait_until_level()
    quorum = leader.await_quorum()
    end = quorum.voters[leader.node_id]

    def write() -> None:
        with leader.connect() as other:
            set_register(other, "observed", f"woken {version}")

    later = threading.Timer(0.1, write)
    later.start()
    known = {"high_watermark": quorum.high_watermark} if version >= 18 else {}
    with Wire(leader.address, LONG_S * 0.8) as hasty:
        response = fetch(hasty, version, quorum.epoch, end, quorum.epoch, max_wait_ms=LONG_MS, **known)
    later.join()
    partition = partition_of(response)
    assert partition.records or partition.high_watermark > quorum.high_watermark


def test_newer_high_watermark_is_returned_at_once(cluster: Cluster, leader: Daemon) -> None:
    """Fetch v18 has the high watermark that the observer knows; a newer high watermark is returned at once."""
    cluster.wait_until_level()
    quorum = leader.await_quorum()
    end = quorum.voters[leader.node_id]
    with Wire(leader.address, LONG_S * 0.8) as hasty:
        response = fetch(hasty, 18, quorum.epoch, end, quorum.epoch, max_wait_ms=LONG_MS, high_watermark=1)
    assert partition_of(response).high_watermark == quorum.high_watermark


@pytest.mark.parametrize("version", VERSIONS)
def test_other_cluster_and_other_topic_are_refused_without_halting_a_broker(
    leader: Daemon, wire: Wire, version: int
) -> None:
    epoch = leader.await_quorum().epoch
    response = fetch(wire, version, epoch, 0, 0, cluster_id="not-this-cluster-at-all")
    assert response.error_code == INCONSISTENT_CLUSTER_ID
    stranger = {"topic": "orders"} if version < 13 else {"topic_id": uuid.UUID(int=0xFEED)}
    response = fetch(wire, version, epoch, 0, 0, topic=stranger)
    codes = {int(response.error_code)} | {
        int(p.error_code) for topic in response.responses for p in topic.partitions
    }
    assert codes & {UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID}, codes
    assert INVALID_REQUEST not in codes, "a broker halts on INVALID_REQUEST"


def test_observer_is_listed_and_its_fetches_do_not_count_towards_the_majority(
    leader: Daemon, wire: Wire
) -> None:
    quorum = leader.await_quorum()
    fetch(wire, 17, quorum.epoch, quorum.high_watermark, quorum.epoch)
    described = leader.await_quorum()
    assert described.observers[BROKER] == quorum.high_watermark
    assert BROKER not in described.voters


def test_high_watermark_never_goes_down_over_a_change_of_leaders(cluster: Cluster) -> None:
    """A new leader returns -1 until it has committed a record of its own epoch."""
    old = cluster.leader()
    seen = old.await_quorum().high_watermark
    old.kill()
    try:
        watermarks = []
        while not watermarks or watermarks[-1] < seen:
            for daemon in cluster.others(old):
                with daemon.connect() as wire:
                    partition = partition_of(fetch(wire, 17, epoch_of(wire), 0, 0))
                if partition.error_code == NONE:
                    watermarks.append(partition.high_watermark)
        assert all(mark == -1 or mark >= seen for mark in watermarks), watermarks
    finally:
        old.start()
        cluster.wait_until_level()
