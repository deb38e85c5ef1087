"""A full disk: appends are rejected, the leader hands over and still serves reads, and free space heals it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.log.log_files import bytes_below
from tests.support.processes import full_disk
from tests.support.processes.daemons import Cluster, Daemon, wait_for
from tests.support.processes.requests import get_registers
from tests.support.processes.workload import Workload, lost_writes
from tests.support.text import shows

SMALL_SEGMENTS = "metadata.log.segment.bytes=64KiB\nmetadata.log.reserve.bytes=1MiB\n"


@pytest.fixture
def filling(tmp_path: Path) -> Iterator[Cluster]:
    """Three daemons whose disks are full while a file `full` is next to their properties."""
    shim = str(Path(next(iter(full_disk.__path__))))
    cluster = Cluster(tmp_path, extra=SMALL_SEGMENTS)
    try:
        for daemon in cluster:
            daemon.start({"PYTHONPATH": shim, "FULL_DISK_WHILE_EXISTS": str(_flag(daemon))})
        cluster.leader()
        yield cluster
    finally:
        cluster.stop()


def _flag(daemon: Daemon) -> Path:
    return daemon.config.with_name("full")


def test_leader_with_a_full_disk_hands_over_serves_reads_and_recovers(filling: Cluster) -> None:
    full = filling.leader()
    with Workload(filling.addresses) as load:
        wait_for("writes to flow", lambda: load.acknowledged > 100)
        _flag(full).touch()
        filling.leader(besides=full.node_id)
        before = load.acknowledged
        wait_for("writes to flow at another leader", lambda: load.acknowledged > before + 500)
        assert full.child is not None
        assert full.child.poll() is None, full.log_text()[-2000:]
        with full.connect() as wire:
            name = load.writers[0].name
            assert int(get_registers(wire, name)[name]) > 0
        assert shows(full.log_text(), "no space")
        assert filling.leader() is not full
        _flag(full).unlink()
        high_watermark = filling.leader_quorum().high_watermark
        wait_for(
            "the healed node to catch up", lambda: _end_offset_at_leader(filling, full) >= high_watermark
        )
    high_watermark = filling.wait_until_level()
    for daemon in filling:
        assert lost_writes(load, daemon.partition_directory, high_watermark) == {}
    assert len({bytes_below(daemon.partition_directory, high_watermark) for daemon in filling}) == 1
    assert all("Traceback" not in daemon.log_text() for daemon in filling)


def _end_offset_at_leader(cluster: Cluster, daemon: Daemon) -> int:
    return cluster.leader_quorum().voters.get(daemon.node_id, -1)
