"""Output and exit codes of `cluster up|status|down`, with stand-ins for daemons."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorumd.cli import cluster
from quorumd.cli.cluster import leader_of
from quorumd.cli.local_cluster import LocalCluster, LocalNode
from quorumd.cli.metrics_view import MetricsView
from quorumd.cli.root import run
from quorumd.controller.bootstrap_metadata import feature_levels_from
from quorumd.controller.cluster_image import KRAFT_VERSION
from quorumd.controller.metadata_versions import LATEST_VERSION, default_levels
from quorumd.node.state.bootstrap_records import load_new_cluster
from quorumd.runtime.disk import OsDisk

LEADER = MetricsView("leader", 1, 4, 10, 12)
FOLLOWER = MetricsView("follower", 1, 4, 9, 12)
CANDIDATE = MetricsView("candidate", -1, 5, 9, 12)


class StandIns:
    """Processes that look like daemons, and their views of the quorum (None: no response)."""

    def __init__(self) -> None:
        self.code = "import signal; signal.pause()"
        self.views: dict[int, MetricsView | None] = {0: FOLLOWER, 1: LEADER, 2: FOLLOWER}
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, node: LocalNode) -> subprocess.Popen[bytes]:
        with node.log.open("ab") as log:
            command = [sys.executable, "-c", self.code, "start", "--config", str(node.config)]
            process = subprocess.Popen(command, stdout=log, stderr=log)
        node.record(process.pid)
        self.processes.append(process)
        return process

    def query(self, host: str, metrics_port: int) -> MetricsView | None:
        return self.views[metrics_port - 9400]


@pytest.fixture
def daemons(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIns]:
    stand_ins = StandIns()
    monkeypatch.setattr(LocalCluster, "start", lambda self, node: stand_ins.start(node))
    monkeypatch.setattr(LocalCluster, "check_addresses", lambda self, nodes: None)
    monkeypatch.setattr("quorumd.cli.metrics_view.fetch", stand_ins.query)
    yield stand_ins
    for process in stand_ins.processes:
        process.kill()
        process.wait()


def up(directory: Path, *options: str) -> int:
    return run(["cluster", "up", "--dir", str(directory), "--base-port", "9300", "--detach", *options])


@pytest.mark.parametrize(
    ("views", "leader"),
    [
        ([FOLLOWER, LEADER, FOLLOWER], 1),
        ([FOLLOWER, LEADER, CANDIDATE], None),
        ([FOLLOWER, LEADER, None], None),
        ([FOLLOWER, FOLLOWER, FOLLOWER], None),
        ([FOLLOWER, MetricsView("leader", 1, 4, -1, 12)], None),
        ([CANDIDATE, CANDIDATE], None),
        ([LEADER], 1),
    ],
)
def test_leader_requires_agreement_and_a_commit(views: list[MetricsView | None], leader: int | None) -> None:
    assert leader_of(views) == leader


def levels_of(directory: Path) -> list[dict[str, int]]:
    """The initial records of each of three nodes."""
    disk = OsDisk(lambda callback: None)
    try:
        return [
            feature_levels_from(
                load_new_cluster(disk, str(directory / f"node-{node}" / "data"), log_is_empty=True).records
            )
            for node in range(3)
        ]
    finally:
        disk.close()


def levels_of_release(metadata_version: int) -> dict[str, int]:
    """Features with records: without those at level 0 and those of the quorum."""
    levels = default_levels(metadata_version)
    return {name: level for name, level in levels.items() if level and name != KRAFT_VERSION}


def test_new_cluster_has_features_of_release(tmp_path: Path, daemons: StandIns) -> None:
    assert up(tmp_path, "--release-version", "4.1", "--feature", "share.version=1") == 0
    assert levels_of(tmp_path) == [{**levels_of_release(27), "share.version": 1}] * 3


def test_new_cluster_has_newest_features_by_default(tmp_path: Path, daemons: StandIns) -> None:
    assert up(tmp_path) == 0
    assert levels_of(tmp_path) == [levels_of_release(LATEST_VERSION.level)] * 3


def test_existing_cluster_rejects_feature_options(
    tmp_path: Path, daemons: StandIns, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up(tmp_path) == 0
    assert up(tmp_path, "--release-version", "4.1") == 2
    assert "quorumd features upgrade" in capsys.readouterr().err
    assert levels_of(tmp_path) == [levels_of_release(LATEST_VERSION.level)] * 3


def test_unknown_release_creates_no_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert up(tmp_path / "new", "--release-version", "2.8") == 2
    assert "'2.8'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_up_status_and_down_handle_all_nodes(
    tmp_path: Path, daemons: StandIns, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up(tmp_path) == 0
    assert len(daemons.processes) == 3
    assert "bootstrap servers: 127.0.0.1:9300,127.0.0.1:9301,127.0.0.1:9302" in capsys.readouterr().out
    assert run(["cluster", "status", "--dir", str(tmp_path), "--output", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[1] == {
        "node": 1,
        "address": "127.0.0.1:9301",
        "pid": daemons.processes[1].pid,
        "state": "running",
        "role": "leader",
        "epoch": 4,
        "highWatermark": 10,
        "logEndOffset": 12,
    }
    assert run(["cluster", "down", "--dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "stopped: node 0, 1, 2\n"
    assert [process.wait() for process in daemons.processes] == [-15, -15, -15]
    assert run(["cluster", "down", "--dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no node was running\n"


def test_second_up_starts_only_stopped_nodes(
    tmp_path: Path, daemons: StandIns, capsys: pytest.CaptureFixture[str]
) -> None:
    up(tmp_path)
    assert run(["cluster", "up", "--dir", str(tmp_path), "--detach"]) == 0
    assert "already running" in capsys.readouterr().out
    daemons.processes[1].kill()
    daemons.processes[1].wait()
    assert run(["cluster", "up", "--dir", str(tmp_path), "--detach"]) == 0
    assert len(daemons.processes) == 4
    assert LocalCluster.open(tmp_path).nodes[1].pid() == daemons.processes[3].pid


def test_status_shows_stopped_and_unresponsive_nodes(
    tmp_path: Path, daemons: StandIns, capsys: pytest.CaptureFixture[str]
) -> None:
    up(tmp_path)
    daemons.processes[0].kill()
    daemons.processes[0].wait()
    daemons.views[2] = None
    capsys.readouterr()
    assert run(["cluster", "status", "--dir", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["0", "127.0.0.1:9300", "-", "stopped", "-", "-", "-", "-"]
    assert "leader" in lines[2]
    assert "not responding" in lines[3]


def test_daemon_exit_is_reported_with_log_tail(
    tmp_path: Path, daemons: StandIns, capsys: pytest.CaptureFixture[str]
) -> None:
    daemons.code = "import sys; print('the directory is locked'); sys.exit(3)"
    daemons.views = dict.fromkeys(range(3))
    assert up(tmp_path) == 1
    err = capsys.readouterr().err
    assert "exited with code 3" in err
    assert "the directory is locked" in err


def test_missing_leader_is_reported_with_log_tails(
    tmp_path: Path, daemons: StandIns, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "ELECTION_TIMEOUT_S", 0.0)
    assert up(tmp_path) == 1
    err = capsys.readouterr().err
    assert "no leader within" in err
    assert all(f"node-{i}/daemon.log" in err for i in range(3))


def test_attached_up_fails_once_all_nodes_exit(
    tmp_path: Path, daemons: StandIns, capsys: pytest.CaptureFixture[str]
) -> None:
    daemons.code = "print('the disk is gone')"
    assert run(["cluster", "up", "--dir", str(tmp_path), "--base-port", "9300"]) == 1
    err = capsys.readouterr().err
    assert "the disk is gone" in err
