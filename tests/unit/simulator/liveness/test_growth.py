"""Bounds of files and objects of nodes without faults."""

from __future__ import annotations

import pytest

from quorumd.log.meta_properties import partition_directory
from quorumd.node.sessions.connections import RejectedConnection
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers import CommittedDataIsImmutable, InvariantViolation
from quorumd.simulator.cluster import DATA_DIRECTORY, Cluster
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.inspection.log_mirror import Batch
from quorumd.simulator.liveness.growth import require_bounded_disks, require_bounded_memory
from quorumd.simulator.workload.request_connection import RequestConnection
from tests.support.simulator.simulated_cluster import leader_of, make_cluster, run

DIRECTORY = partition_directory(DATA_DIRECTORY)


@pytest.fixture
def cluster() -> Cluster:
    made = make_cluster(1, maintenance_interval_ms=100.0, snapshot_bytes=1000, retention_bytes=2000)
    run(made, 3000.0, lambda: leader_of(made) is not None)
    run(made, 500.0)
    return made


def require(cluster: Cluster, committed: list[Batch]) -> None:
    known = CommittedDataIsImmutable()
    known.batches.extend(committed)
    require_bounded_disks(cluster, known, lambda until_ms: run(cluster, until_ms - cluster.heap.now_ms))


def test_small_log_needs_no_snapshot(cluster: Cluster) -> None:
    require(cluster, cluster.machines[1].mirror.batches)


def test_missing_snapshot_is_a_violation(cluster: Cluster) -> None:
    batch = cluster.machines[1].mirror.batches[0]
    large = batch._replace(data=batch.data + bytes(1000))
    with pytest.raises(InvariantViolation, match=r"\b1000\b"):
        require(cluster, [large, batch])


def test_obsolete_snapshots_are_a_violation(cluster: Cluster) -> None:
    node = cluster.machines[1].node
    assert node is not None
    node.core.snapshots.stop()
    for end_offset in (1, 2, 3):
        cluster.machines[1].disk.put(f"{DIRECTORY}/{end_offset:020d}-{1:010d}.checkpoint", bytes(1000))
    with pytest.raises(InvariantViolation, match="2000"):
        require(cluster, [])


def test_excess_of_a_growing_log_may_be_followed_by_another(cluster: Cluster) -> None:
    machine, offsets = cluster.machines[1], [1, 2, 3]
    assert machine.node is not None
    machine.node.core.snapshots.stop()
    names = [f"{DIRECTORY}/{end_offset:020d}-{1:010d}.checkpoint" for end_offset in (1, 2, 3, 4)]
    for name in names[:3]:
        machine.disk.put(name, bytes(1000))

    def replace_oldest(until_ms: float) -> None:
        run(cluster, until_ms - cluster.heap.now_ms)
        if offsets == [1, 2, 3]:
            offsets.append(4)
            machine.disk.put(names[3], bytes(1000))
            machine.disk.remove(names[0])

    require_bounded_disks(cluster, CommittedDataIsImmutable(), replace_oldest)
    assert offsets == [1, 2, 3, 4]


def test_unfinished_files_are_a_violation(cluster: Cluster) -> None:
    for number in (1, 2):
        cluster.machines[1].disk.put(f"{DIRECTORY}/{number:020d}-{1:010d}.checkpoint.part", b"")
    with pytest.raises(InvariantViolation, match="unfinished files"):
        require(cluster, [])


def test_growing_collection_is_a_violation(cluster: Cluster) -> None:
    require_bounded_memory(cluster)
    leader = leader_of(cluster)
    assert leader is not None
    assert leader.node is not None
    leader.node.context.peers.discovery._seeds.extend([("host", 1)] * 100)
    with pytest.raises(InvariantViolation, match=r"objects in node\.context\.peers\.discovery._seeds"):
        require_bounded_memory(cluster)


def test_session_of_a_closed_connection_is_a_violation(cluster: Cluster) -> None:
    leader = leader_of(cluster)
    assert leader is not None
    assert leader.node is not None
    sessions = leader.node.core.incoming._sessions
    own = len(sessions)
    client = cluster.network.host("client", Process("client"))
    for _ in range(100):
        client.connect(leader.host, leader.port, RejectedConnection())
    run(cluster, 1000.0)
    assert len(sessions) == own
    require_bounded_memory(cluster)
    for _ in range(100):
        client.connect(
            leader.host, leader.port, RequestConnection("client", ApiVersionsRequest("", ""), 0, ignore)
        )
    run(cluster, 1000.0)
    assert len(sessions) == own + 100
    require_bounded_memory(cluster)
    leader.node.core.incoming.accept("CONTROLLER")
    with pytest.raises(InvariantViolation, match=rf"has {own + 101} objects in .*_sessions, "):
        require_bounded_memory(cluster)


def ignore(message: Message | None) -> None:
    """Ignore a response."""
