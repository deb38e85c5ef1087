"""The commands of the quickstart on real daemons."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.documented_output import assert_as_documented
from tests.support.processes.daemons import run_quorumd, wait_for
from tests.support.processes.ports import free_base_port


@cache
def base_port() -> int:
    return free_base_port(nodes=3)


class Started(NamedTuple):
    """A running, detached cluster of three nodes."""

    directory: Path
    output: str
    """What the command printed that started it."""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    directory = tmp_path_factory.mktemp("cluster")

    def up() -> str:
        result = run_quorumd("cluster", "up", "--dir", directory, "--base-port", base_port(), "--detach")
        assert result.returncode == 0 or "no leader within" in result.stderr, result.stderr
        if result.returncode:
            run_quorumd("cluster", "down", "--dir", directory)
        return result.stdout if result.returncode == 0 else ""

    try:
        yield Started(directory, wait_for("a start of the cluster within its timeout", up))
    finally:
        stopped = run_quorumd("cluster", "down", "--dir", directory)
    assert_as_documented("quorumd cluster down", stopped.stdout)


@pytest.fixture
def directory(started: Started) -> Path:
    return started.directory


def run(*arguments: object) -> str:
    """Run a command that must succeed, and return its output."""
    result = run_quorumd(*map(str, arguments))
    assert result.returncode == 0, result.stderr
    return result.stdout


def server(node: int) -> tuple[str, str]:
    return "--bootstrap-server", f"127.0.0.1:{base_port() + node}"


def test_up_prints_the_documented_output(started: Started) -> None:
    assert_as_documented("quorumd cluster up", started.output)


def test_up_returns_with_a_leader_and_status_shows_it(directory: Path) -> None:
    def shown() -> tuple[list[str], set[str], int] | None:
        result = run_quorumd("cluster", "status", "--dir", directory, "--output", "json")
        if result.returncode:
            return None
        rows = json.loads(result.stdout)
        roles = sorted(row["role"] for row in rows)
        return roles, {row["state"] for row in rows}, len({row["epoch"] for row in rows})

    # A leader that stalls for two seconds loses its followers, and another one is elected soon.
    assert wait_for("status to show the cluster", shown) == (
        ["follower", "follower", "leader"],
        {"running"},
        1,
    )
    assert "already running" in run("cluster", "up", "--dir", directory, "--detach")


@pytest.mark.parametrize("node", range(3))
def test_any_node_describes_the_quorum(directory: Path, node: int) -> None:
    def agree() -> bool:
        """The leader may change between two commands, and a new one has the high watermark -1 at first."""
        status = dict(line.split(":") for line in run("quorum", "describe", *server(node)).splitlines())
        rows = json.loads(run("quorum", "describe", "replication", *server(node), "--output", "json"))
        assert sorted(json.loads(status["CurrentVoters"])) == [0, 1, 2]
        assert [row["status"] for row in rows] == ["Leader", "Follower", "Follower"]
        return int(status["HighWatermark"]) > 0 and int(status["LeaderId"]) == rows[0]["replicaId"]

    wait_for("both commands to agree", agree)


def test_config_is_set_read_through_another_node_and_deleted(directory: Path) -> None:
    orders = ("--type", "group", "--name", "orders")
    key = "consumer.session.timeout.ms"
    run("configs", "set", *server(0), *orders, f"{key}=45000")
    for node in range(3):
        assert f"{key}=45000" in run("configs", "get", *server(node), *orders).splitlines()
    run("configs", "delete", *server(1), *orders, key)
    assert run_quorumd("configs", "get", *server(2), *orders, key).returncode == 1


def test_log_of_a_running_node_can_be_dumped(directory: Path) -> None:
    run("configs", "set", *server(0), "--type", "client-metrics", "--name", "dumped", "metrics=a")
    pieces = json.loads(run("log", "dump", "--output", "json", directory / "node-0" / "data"))
    records = [record for piece in pieces for record in piece.get("records", ())]
    assert records[0]["type"] == "LeaderChangeMessage" or "VotersRecord" in {
        record["type"] for record in records
    }
    assert any(record["data"].get("resourceName") == "dumped" for record in records)


def test_short_bench_commits(directory: Path) -> None:
    def bench() -> list[dict[str, float]] | None:
        options = ("--in-flight", "1,8", "--duration", "500ms", "--output", "json")
        result = run_quorumd("bench", *server(0), *options)
        stood_still = "measure for longer" in result.stderr or "NOT_CONTROLLER" in result.stderr
        assert result.returncode == 0 or stood_still, result.stderr
        rows: list[dict[str, float]] = json.loads(result.stdout) if result.returncode == 0 else []
        return rows

    rows = wait_for("half a second without a stall of the machine", bench)
    assert [row["inFlight"] for row in rows] == [1, 8]
    assert all(row["writesPerSecond"] > 0 and row["p50Ms"] <= row["p99Ms"] for row in rows)


def test_address_in_use_is_reported_before_any_node_starts(directory: Path, tmp_path: Path) -> None:
    result = run_quorumd("cluster", "up", "--dir", tmp_path, "--base-port", str(base_port() + 2), "--detach")
    assert result.returncode == 5
    assert f"127.0.0.1:{base_port() + 2}" in result.stderr
    assert not list(tmp_path.glob("node-*/pid"))


def test_signals_stop_every_node_of_a_foreground_cluster(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "quorumd", "cluster", "up", "--dir", str(tmp_path)]
    process = subprocess.Popen(
        [*command, "--nodes", "1", "--base-port", str(free_base_port())],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    assert any("running until Ctrl-C" in line for line in lines)
    pid = int((tmp_path / "node-0" / "pid").read_text())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        process.send_signal(number)
    rest, errors = process.communicate()
    assert process.returncode == 0
    assert "stopped: node 0" in rest
    assert "Traceback" not in errors
    wait_for("the node to end", lambda: not Path(f"/proc/{pid}/cmdline").exists())


def test_secure_cluster_creates_delegation_tokens(tmp_path: Path) -> None:
    directory = tmp_path / "secure"
    base = free_base_port(nodes=1)
    options = ("--dir", directory, "--nodes", "1", "--base-port", base)
    try:
        shown = run("cluster", "up", *options, "--secure", "--detach")
        (command,) = (line.split() for line in shown.splitlines() if "tokens create" in line)
        created = json.loads(run(*command[1:], "--output", "json"))
        assert created["tokenId"] in run("tokens", "list", *command[command.index("--bootstrap-server") :])
    finally:
        run_quorumd("cluster", "down", "--dir", directory)
