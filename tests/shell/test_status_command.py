"""Readiness and `quorumd status` of real daemons: all nodes up, no majority, a wiped disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.daemons import QUICK, Cluster, readyz, run_quorumd, wait_for

POLLS = 60


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, extra=QUICK)
    cluster.start()
    yield cluster
    cluster.stop()


def status(cluster: Cluster) -> tuple[int, list[dict[str, Any]]]:
    result = run_quorumd("status", "--bootstrap-server", cluster.bootstrap, "--output", "json")
    return result.returncode, json.loads(result.stdout)


def test_survivor_without_a_majority_is_never_ready(cluster: Cluster) -> None:
    wait_for("all nodes to be ready", lambda: all(readyz(daemon)[0] == 200 for daemon in cluster))
    wait_for("the status of a healthy cluster", lambda: status(cluster)[0] == 0)
    survivor, *others = cluster
    for other in others:
        other.kill()
    wait_for("the survivor not to be ready", lambda: readyz(survivor)[0] == 503)
    # It campaigns repeatedly meanwhile, and remembers the dead leader after each campaign.
    for _ in range(POLLS):
        code, text = wait_for("another poll", lambda: readyz(survivor))
        assert code == 503, text
    wait_for("both silent nodes to be reported", lambda: readyz(survivor)[1].count("has not responded") == 2)

    def leaderless() -> tuple[int, list[dict[str, Any]]] | None:
        """A leader resigns half a fetch timeout after it stops being ready."""
        exit_code, rows = status(cluster)
        return None if rows[0]["leaderId"] is not None else (exit_code, rows)

    exit_code, rows = wait_for("the survivor to report no leader", leaderless)
    assert exit_code == 1
    assert [row["responds"] for row in rows] == [True, False, False]
    assert (rows[0]["nodeId"], rows[0]["ready"], rows[0]["leaderId"]) == (survivor.node_id, False, None)
    assert sorted(peer["nodeId"] for peer in rows[0]["silentPeers"]) == sorted(o.node_id for o in others)
    result = run_quorumd("topics", "list", "--bootstrap-server", cluster.bootstrap, "--timeout", "1s")
    assert result.returncode == 1
    assert f"node {survivor.node_id} (127.0.0.1:{survivor.port}): " in result.stderr
    assert "do not respond to it" in result.stderr


def test_wiped_voter_is_not_ready_and_reports_the_remedy(cluster: Cluster) -> None:
    wait_for("all nodes to be ready", lambda: all(readyz(daemon)[0] == 200 for daemon in cluster))
    leader = cluster.leader()
    wiped = cluster.others(leader)[0]
    wiped.kill()
    shutil.rmtree(wiped.data)
    wiped.start()
    wait_for("the wiped node to follow again", lambda: wiped.follows() == leader.node_id)
    wait_for("the wiped node to report its lost vote", lambda: "directory id" in readyz(wiped)[1])
    code, text = readyz(wiped)
    assert code == 503
    assert f"node {wiped.node_id} does not vote" in text
    assert readyz(leader)[0] == 200
    exit_code, rows = status(cluster)
    assert exit_code == 1
    (row,) = [row for row in rows if row.get("nodeId") == wiped.node_id]
    assert (row["ready"], row["isVoter"]) == (False, False)
