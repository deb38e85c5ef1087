"""Founding and finding a quorum: real daemons with wiped disks, old properties and new addresses."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.processes.daemons import QUICK, Cluster, Daemon, readyz, run_quorumd, wait_for
from tests.support.processes.ports import free_port
from tests.support.processes.requests import get_registers, set_register


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[list[Daemon]]:
    """Node 0, formatted with --standalone and the only one in its quorum.voters; nodes 1 and 2, which join it."""
    ports = [free_port() for _ in range(3)]
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    extra = f"bootstrap.servers={servers}\n{QUICK}"
    founder = Daemon(tmp_path / "node-0", 0, ports[0], {0: ports[0]}, extra)
    joined = [Daemon(tmp_path / f"node-{number}", number, ports[number], {}, extra) for number in (1, 2)]
    daemons = [founder, *joined]
    yield daemons
    for daemon in daemons:
        daemon.stop()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, extra=QUICK)
    cluster.start()
    yield cluster
    cluster.stop()


def is_ready(daemon: Daemon) -> bool:
    return readyz(daemon)[0] == 200


def wipe(daemon: Daemon) -> None:
    daemon.kill()
    shutil.rmtree(daemon.data)


def meta(daemon: Daemon, key: str) -> str | None:
    """The value of a key in a node's meta.properties."""
    lines = (daemon.data / "meta.properties").read_text().splitlines()
    return next((line.removeprefix(f"{key}=") for line in lines if line.startswith(f"{key}=")), None)


def recorded_ports(cluster: Cluster) -> set[int]:
    """The voters' ports in the voter record."""
    result = run_quorumd(
        "quorum", "describe", "replication", "--bootstrap-server", cluster.bootstrap, "--output", "json"
    )
    return {int(port) for port in re.findall(r":(\d+)\"", result.stdout)}


def make_all_voters(daemons: list[Daemon]) -> None:
    """Make nodes 0, 1 and 2 the voters."""
    servers = ",".join(f"127.0.0.1:{daemon.port}" for daemon in daemons)
    result = run_quorumd(
        "quorum",
        "alter",
        "--bootstrap-server",
        servers,
        "--voters",
        "0,1,2",
        "--wait",
        "--wait-timeout",
        "60s",
    )
    assert result.returncode == 0, result.stderr
    assert "CurrentVoters:  [0, 1, 2]" in result.stdout


def test_founder_with_a_replaced_disk_joins_the_quorum_it_founded(daemons: list[Daemon]) -> None:
    founder, *joined = daemons
    for daemon in daemons:
        daemon.start()
    wait_for("two nodes to join", lambda: all(daemon.follows() == 0 for daemon in joined))
    make_all_voters(daemons)
    cluster_id, old = meta(founder, "cluster.id"), meta(founder, "directory.id")
    assert cluster_id
    wipe(founder)
    wait_for("another leader", lambda: joined[0].follows() in (1, 2))
    founder.start()
    wait_for("node 0 to report its lost vote", lambda: "node 0 does not vote" in readyz(founder)[1])
    code, text = readyz(founder)
    assert code == 503
    assert "quorumd quorum alter --voters 0,1,2 --wait" in text
    assert old
    assert old in text
    wait_for("node 0 to adopt the cluster id", lambda: meta(founder, "cluster.id") == cluster_id)
    assert founder.follows() in (1, 2)
    make_all_voters(daemons)
    wait_for("all nodes to be ready", lambda: all(is_ready(daemon) for daemon in daemons))


def test_two_wiped_disks_of_three_elect_no_leader_and_all_nodes_report_why(cluster: Cluster) -> None:
    survivor, *wiped = cluster
    cluster.at_leader(lambda wire: set_register(wire, "written", "kept"))
    cluster.wait_until_level()
    for daemon in wiped:
        wipe(daemon)

    def reports(daemon: Daemon, *words: str) -> bool:
        code, text = readyz(daemon)
        return code == 503 and all(word in text for word in words)

    # A survivor that still leads would serve them its log, and they would be observers of its epoch.
    wait_for("the survivor to resign", lambda: reports(survivor, "cannot elect a leader"))
    for daemon in wiped:
        daemon.start()
    lost = [f"node {daemon.node_id} has another log directory" for daemon in wiped]
    wait_for("the survivor to report why", lambda: reports(survivor, "cannot elect a leader", *lost))
    for daemon in wiped:
        wait_for("a blank node to report why", partial(reports, daemon, "part of an existing quorum"))
    result = run_quorumd("status", "--bootstrap-server", cluster.bootstrap, "--output", "json")
    assert result.returncode == 1
    rows = json.loads(result.stdout)
    # The survivor may report its previous leader, but no node leads.
    assert [(row["responds"], row["ready"]) for row in rows] == 3 * [(True, False)]
    assert all(row["leaderId"] != row["nodeId"] for row in rows)


def test_moved_quorum_restarts_without_seeds(cluster: Cluster) -> None:
    cluster.at_leader(lambda wire: set_register(wire, "written", "kept"))
    for daemon in cluster:
        daemon.stop()
        daemon.port = daemon.voters[daemon.node_id] = free_port()
        daemon.configure(QUICK)
        daemon.start()
        wait_for("the node to be ready", partial(is_ready, daemon))
    wait_for("the new ports in voter records", lambda: recorded_ports(cluster) >= {d.port for d in cluster})
    cluster.stop()
    for daemon in cluster:
        daemon.voters.clear()
        daemon.configure(QUICK)
    cluster.start()
    assert cluster.at_leader(lambda wire: get_registers(wire, "written")) == {"written": "kept"}
