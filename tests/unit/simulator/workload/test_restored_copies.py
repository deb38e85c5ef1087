"""Copies of directories are damaged as the model says, and recovered or refused accordingly."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.protocol.batch_header import read_header
from quorumd.protocol.record_batch import encode_batch
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.workload import restored_copies as module
from quorumd.simulator.workload.copied_disk import CopiedDisk, segment_path, snapshot_path
from quorumd.simulator.workload.copy_damages import DAMAGES, Damage, interrupted_installation
from quorumd.simulator.workload.kept_records_writer import KeptRecordsWriter
from quorumd.simulator.workload.restored_copies import RestoredCopies, require_lock
from tests.support.simulator.simulated_cluster import elect, make_cluster, run


def filled() -> tuple[Cluster, Machine]:
    """Run a cluster until its leader has several segments and snapshots."""
    cluster = make_cluster(
        3, segment_bytes=1000, snapshot_bytes=1500, maintenance_interval_ms=100.0, retention_bytes=100_000
    )
    leader = elect(cluster)
    writer = KeptRecordsWriter(cluster, Random(1), 50.0, 4)
    writer.start()
    run(cluster, 6000.0)
    writer.running = False
    run(cluster, 1000.0)
    return cluster, leader


@pytest.fixture(scope="module")
def cluster_and_leader() -> tuple[Cluster, Machine]:
    return filled()


def test_model_is_that_of_the_files(cluster_and_leader: tuple[Cluster, Machine]) -> None:
    cluster, leader = cluster_and_leader
    copy = CopiedDisk(cluster, leader)
    assert leader.node is not None
    assert len(copy.bases) > 3
    assert len(copy.snapshots) > 1
    assert copy.end == leader.node.log.end_offset
    assert copy.recovered_end() == copy.end
    end = copy.boundaries[-3]
    assert copy.snapshots[0].offset < end
    del copy.snapshots[1:]
    copy.known = end
    copy.cut(end, 5)
    assert copy.recovered_end() == end
    copy.known += 1
    assert copy.recovered_end() is None


@pytest.mark.parametrize("damage", dict.fromkeys(DAMAGES), ids=lambda damage: damage.__name__)
def test_damaged_copies_are_recovered_or_refused(
    cluster_and_leader: tuple[Cluster, Machine], damage: Damage
) -> None:
    cluster, leader = cluster_and_leader
    before = leader.disk.contents()
    copies = RestoredCopies(cluster, Random(1), 100.0)
    for _ in range(25):
        copies.recover(leader, damage)
    assert copies.counters["copies recovered"] + copies.counters["copies refused"] == 25
    assert leader.disk.contents() == before


def test_some_copies_are_refused(cluster_and_leader: tuple[Cluster, Machine]) -> None:
    copies = RestoredCopies(cluster_and_leader[0], Random(2), 100.0)
    for _ in range(60):
        copies.recover(cluster_and_leader[1])
    assert copies.counters["copies refused"] > 3
    assert copies.counters["copies recovered"] > 20
    assert copies.counters["snapshots of copies"] > 20


def test_snapshot_ahead_of_the_log_is_installed(cluster_and_leader: tuple[Cluster, Machine]) -> None:
    cluster, leader = cluster_and_leader
    ends = set()
    for seed in range(40):
        copy = CopiedDisk(cluster, leader)
        newest = copy.snapshots[-1]
        interrupted_installation(copy, Random(seed))
        assert copy.end < newest.offset
        ends.add(copy.recovered_end() == newest.offset)
    assert ends == {False, True}


def lose_records(copy: CopiedDisk, random: Random) -> None:
    copy.disk.remove(segment_path(copy.bases[-1]))


def damage_snapshots(copy: CopiedDisk, random: Random) -> None:
    for base in copy.bases[:-1]:
        copy.disk.remove(segment_path(base))
    for snapshot in copy.snapshots:
        copy.replace(snapshot_path(snapshot), b"damaged")


@pytest.mark.parametrize("damage", [lose_records, damage_snapshots])
def test_other_outcome_is_a_violation(cluster_and_leader: tuple[Cluster, Machine], damage: Damage) -> None:
    cluster, leader = cluster_and_leader
    with pytest.raises(InvariantViolation):
        RestoredCopies(cluster, Random(1), 100.0).recover(leader, damage)


def test_tool_cannot_use_the_directory_of_a_running_node() -> None:
    cluster = make_cluster(1)
    leader = elect(cluster)
    require_lock(leader)
    leader.disk.unlock("/data/.lock")
    with pytest.raises(InvariantViolation, match="a tool has locked the directory of node 1"):
        require_lock(leader)


def test_reader_that_returns_damaged_batches_is_a_violation(
    cluster_and_leader: tuple[Cluster, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, leader = cluster_and_leader
    copies = RestoredCopies(cluster, Random(2), 100.0)
    altered = encode_batch(0, 1, 0, [b"altered"])
    monkeypatch.setattr(module, "read_log", lambda *log: [(altered, read_header(altered, 0))])
    with pytest.raises(InvariantViolation, match="gets damaged batches"):
        copies.recover(leader)
