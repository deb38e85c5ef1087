"""The bootstrapping example of the KIP-595 draft: a quorum of one node grows, then quorum.voters is removed.

The test uses properties files, the command line and SIGTERM like an operator; kafka-python checks each step.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.daemons import Cluster, Daemon, run_quorumd, wait_for
from tests.support.processes.fixtures import without_traceback
from tests.support.processes.kafka_python import describe_by_kafka_python
from tests.support.processes.ports import free_port
from tests.support.processes.requests import get_registers, set_register
from tests.support.text import shows

PATIENT = "quorum.fetch.timeout.ms=30000\n"
"""A long timeout, so that stalls of the machine cause no elections; a killed leader is still replaced at once."""


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Cluster]:
    """Three stopped nodes: node 0 is the quorum, and nodes 1 and 2 only know its address."""
    nodes = Cluster(tmp_path, size=0)
    first = nodes.daemons[0] = Daemon(tmp_path / "node-0", 0, free_port(), {})
    for node_id in (1, 2):
        nodes.daemons[node_id] = Daemon(tmp_path / f"node-{node_id}", node_id, free_port(), {})
        configure(nodes[node_id], f"bootstrap.servers=127.0.0.1:{first.port}\n")
    configure(first, "quorum.voters=0\n")
    first.format("--standalone")
    try:
        with without_traceback(nodes):
            yield nodes
    finally:
        nodes.stop()


def configure(daemon: Daemon, who_else: str) -> None:
    """Write a properties file with the names of the draft."""
    daemon.config.write_text(
        f"broker.id={daemon.node_id}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{daemon.port}\n"
        f"log.dirs={daemon.data}\n"
        f"{who_else}"
        f"{PATIENT}"
    )


def test_bootstrapping_example_of_the_draft(nodes: Cluster) -> None:
    first, *others = nodes
    server = ("--bootstrap-server", f"127.0.0.1:{first.port}")

    first.start()
    assert nodes.leader() is first
    assert status(nodes)["CurrentVoters:"] == "[0]"
    assert describe_by_kafka_python(nodes.bootstrap) == (0, {0}, set())
    with first.connect() as wire:
        set_register(wire, "kept", "by one node")

    for daemon in others:
        daemon.start()
    wait_for("the new nodes to fetch", lambda: describe_by_kafka_python(nodes.bootstrap) == (0, {0}, {1, 2}))

    grown = run_quorumd("quorum", "alter", *server, "--voters", "0,1,2", "--wait")
    assert grown.returncode == 0, grown.stderr
    assert shows(grown.stdout, "CurrentVoters:", "[0, 1, 2]", "TargetVoters:", "[]")
    assert describe_by_kafka_python(nodes.bootstrap) == (0, {0, 1, 2}, set())

    configure(first, "")
    for daemon in (*others, first):
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0
        daemon.start()
        nodes.leader()
        nodes.wait_until_level()
    leader = nodes.leader()
    assert describe_by_kafka_python(nodes.bootstrap) == (leader.node_id, {0, 1, 2}, set())
    with leader.connect() as wire:
        assert get_registers(wire, "kept") == {"kept": "by one node"}
        set_register(wire, "kept", "by three nodes")

    leader.kill()
    successor = nodes.leader(besides=leader.node_id)
    with successor.connect() as wire:
        assert get_registers(wire, "kept") == {"kept": "by three nodes"}
    leader.start()
    nodes.wait_until_level()


def test_voter_change_times_out_and_is_cancelled(nodes: Cluster) -> None:
    """Node 1 runs, and node 2 does not: node 0 remains a voter, since its replacement cannot catch up."""
    first, _, third = nodes
    server = ("--bootstrap-server", f"127.0.0.1:{first.port}")
    for daemon in nodes:
        daemon.config.write_text(daemon.config.read_text().replace(PATIENT, ""))
        daemon.start()
    nodes.leader()
    wait_for("the nodes to fetch", lambda: describe_by_kafka_python(nodes.bootstrap) == (0, {0}, {1, 2}))
    third.kill()
    wait_for("node 2 to be behind", lambda: is_behind(server, 2))

    alter = ("quorum", "alter", *server)
    patient = [*alter, "--voters", "1,2", "--wait", "--wait-timeout", "600"]
    with subprocess.Popen(
        [sys.executable, "-m", "quorumd", *patient], stderr=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stderr is not None
        lines = iter(waiting.stderr.readline, "")
        assert any(shows(line, "1 of 3", "added: 2 (") for line in lines)
        waiting.kill()
    waited = run_quorumd(*alter, "--voters", "1,2", "--wait", "--wait-timeout", "1")
    assert (waited.returncode, waited.stdout) == (1, "")
    assert shows(waited.stderr, "error: ", "[0, 1]", "added: 2 (")

    cancelled = run_quorumd(*alter, "--cancel")
    assert cancelled.returncode == 0, cancelled.stderr
    assert shows(cancelled.stdout, "CurrentVoters:", "[0, 1]", "TargetVoters:", "[]")


def status(nodes: Cluster) -> dict[str, str]:
    described = run_quorumd("quorum", "describe", "--bootstrap-server", nodes.bootstrap)
    assert described.returncode == 0, described.stderr
    return dict(line.split(maxsplit=1) for line in described.stdout.splitlines())


def is_behind(server: tuple[str, ...], node_id: int) -> bool:
    """Return True if a replica has been behind for longer than the fetch timeout, or has never caught up."""
    described = run_quorumd("quorum", "describe", "replication", *server, "--output", "json")
    rows = json.loads(described.stdout) if described.returncode == 0 else []
    return any(row["replicaId"] == node_id and not 0 <= row["lagTimeMs"] <= 2500 for row in rows)
