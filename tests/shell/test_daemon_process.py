"""A daemon process: exit codes, HTTP endpoint, readiness, notifications and log dump."""

from __future__ import annotations

import json
import re
import signal
import socket
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from tests.support.log.log_files import batches
from tests.support.processes.daemons import PATIENCE_S, QUICK, Cluster, Daemon, run_quorumd, wait_for
from tests.support.processes.ports import free_port
from tests.support.processes.requests import set_register

USAGE, ADDRESS_UNAVAILABLE = 2, 5
# A leader must soon detect that its followers are gone.
PROPERTIES = QUICK

METRICS = {
    "current_state", "current_leader", "current_vote", "current_epoch", "high_watermark", "log_end_offset",
    "log_end_epoch", "unknown_voter_connections", "commit_latency", "election_latency", "fetched_records",
    "appended_records", "event_loop_idle",
}  # fmt: skip


def _http(daemon: Daemon, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{daemon.http_port}{path}", timeout=PATIENCE_S
        ) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_graceful_shutdown_has_exit_code_0(single: Cluster) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        single[1].signal(number)
        assert single[1].wait() == 0
        single.start()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("quorum.voterz=1", ["quorum.voterz", "node.properties:10"]),
        ("quorum.fetch.timeout.ms=soon", ["quorum.fetch.timeout.ms", "soon"]),
        ("broker.id=7", ["broker.id", "node.id"]),
    ],
)
def test_invalid_configuration_has_exit_code_2_and_names_file_line_and_key(
    tmp_path: Path, line: str, names: list[str]
) -> None:
    port = free_port()
    daemon = Daemon(tmp_path / "node", 1, port, {1: port}, extra=f"{line}\n")
    result = run_quorumd("start", "--config", daemon.config)
    assert result.returncode == USAGE
    assert str(daemon.config) in result.stderr
    for name in names:
        assert name in result.stderr
    assert "Traceback" not in result.stderr


def test_port_in_use_has_exit_code_5(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        daemon = Daemon(tmp_path / "node", 1, port, {1: port})
        daemon.format()
        result = run_quorumd("start", "--config", daemon.config)
    assert result.returncode == ADDRESS_UNAVAILABLE
    assert str(port) in result.stderr
    assert "Traceback" not in result.stderr


def test_metrics_health_and_readiness_over_http(cluster: Cluster) -> None:
    for number in range(10):
        cluster.at_leader(lambda wire, number=number: set_register(wire, "counted", str(number)))
    cluster.wait_until_level()

    for daemon in cluster:
        assert _http(daemon, "/healthz")[0] == 200
        wait_for(f"node {daemon.node_id} to be ready", lambda at=daemon: _http(at, "/readyz")[0] == 200)
        # A follower learns the newest high watermark with its next fetch.
        wait_for(f"node {daemon.node_id} to show the quorum", partial(_shows_the_quorum, cluster, daemon))
        status, text = _http(daemon, "/metrics")
        assert status == 200
        for metric in METRICS:
            assert metric in text, f"no {metric} in the metrics of node {daemon.node_id}:\n{text}"
    leader = cluster.leader()
    assert _http(leader, "/nothing-here")[0] == 404

    for other in cluster.others(leader):
        other.kill()
    wait_for("the node not to be ready", lambda: _http(leader, "/readyz")[0] == 503)
    assert _http(leader, "/healthz")[0] == 200


def _shows_the_quorum(cluster: Cluster, daemon: Daemon) -> bool:
    """Whether the daemon's metrics have the leader and its high watermark."""
    quorum, metrics = cluster.leader_quorum(), _http(daemon, "/metrics")[1]
    shown = _value(metrics, r"\w*current_leader"), _value(metrics, r"\w*high_watermark")
    return shown == (quorum.leader, quorum.high_watermark)


def _value(metrics: str, name: str) -> float:
    found = re.search(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", metrics, re.MULTILINE)
    assert found, f"no {name} in\n{metrics}"
    return float(found[1])


def test_systemd_is_notified_of_readiness_and_stop(tmp_path: Path) -> None:
    port = free_port()
    daemon = Daemon(tmp_path / "node", 1, port, {1: port})
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(path))
        systemd.settimeout(PATIENCE_S)
        daemon.start({"NOTIFY_SOCKET": str(path)})
        try:
            _receive_until(systemd, "READY=1")
            assert daemon.await_quorum().leader == 1, "ready without a leader"
            daemon.signal(signal.SIGTERM)
            _receive_until(systemd, "STOPPING=1")
            assert daemon.wait() == 0
        finally:
            daemon.stop()


def _receive_until(systemd: socket.socket, line: str) -> None:
    """Read notifications to systemd up to a line; raises TimeoutError if it does not arrive."""
    while line not in systemd.recv(4096).decode().splitlines():
        pass


def test_log_dump_finds_every_batch_of_every_node_valid(own_cluster: Cluster) -> None:
    cluster = own_cluster
    for number in range(10):
        cluster.at_leader(lambda wire, text=f"dumped-{number}": set_register(wire, "dumped", text))
    cluster.wait_until_level()
    for daemon in cluster:
        daemon.signal(signal.SIGTERM)
    for daemon in cluster:
        assert daemon.wait() == 0
        files = sorted(daemon.partition_directory.glob("*.log"))
        result = run_quorumd("log", "dump", *files)
        assert result.returncode == 0, result.stderr
        assert "dumped-9" in result.stdout
        result = run_quorumd("log", "dump", "--output", "json", *files)
        assert result.returncode == 0, result.stderr
        assert "dumped-9" in json.dumps(json.loads(result.stdout))

    damaged = sorted(cluster[1].partition_directory.glob("*.log"))[-1]
    last = batches(damaged)[-1]
    data = bytearray(damaged.read_bytes())
    data[last.position + len(last.data) - 2] ^= 0xFF
    damaged.write_bytes(data)
    result = run_quorumd("log", "dump", damaged)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
