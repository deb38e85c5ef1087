"""The files of config/three-nodes-secure with other ports and paths: nodes authenticate with SASL over TLS."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.processes.daemons import Daemon, run_quorumd, wait_for
from tests.support.processes.secured import HOST, NODES, SecureExample, is_ready

EPOCH = "quorumd_raft_current_epoch "
HANDSHAKES = 'quorumd_requests_total{api="SaslHandshake"} '
EXPIRY = 'quorumd_certificate_expiry_timestamp_seconds{listener="CONTROLLER"} '


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureExample]:
    cluster = SecureExample(tmp_path_factory.mktemp("secure"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def metric(daemon: Daemon, name: str) -> float:
    with urlopen(f"http://{HOST}:{daemon.http_port}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    return next((float(line.removeprefix(name)) for line in lines if line.startswith(name)), 0.0)


def expiry(daemon: Daemon) -> float:
    return metric(daemon, EXPIRY)


def test_nodes_authenticate_again_without_an_election(cluster: SecureExample) -> None:
    leader = cluster.leader()
    epoch, begun = metric(leader, EPOCH), metric(leader, HANDSHAKES)
    wait_for("both followers to reauthenticate twice", lambda: metric(leader, HANDSHAKES) >= begun + 4)
    assert metric(leader, EPOCH) == epoch
    assert cluster.leader() is leader


def test_quorum_survives_the_loss_of_its_leader(cluster: SecureExample) -> None:
    cluster.set_quota("before")
    first = cluster.leader()
    first.kill()
    assert cluster.leader(first.node_id) is not first
    cluster.set_quota("after")
    first.start()
    cluster.await_ready()
    listed = cluster.quorumd("quotas", "list")
    assert "before" in listed
    assert "after" in listed
    assert "leader" in cluster.quorumd("status")


def test_node_with_a_wrong_password_does_not_take_part(cluster: SecureExample) -> None:
    leader = cluster.leader()
    other = next(daemon for daemon in cluster if daemon is not leader)
    right = other.config.read_text()
    failed = "authentication of the client at"
    before = leader.log_text().count(failed)
    other.stop()
    other.config.write_text(right.replace(f'password="node-{other.node_id}-secret"', 'password="guessed"'))
    other.start()
    wait_for("the refusal", lambda: leader.log_text().count(failed) > before)
    assert not is_ready(other)
    other.stop()
    other.config.write_text(right)
    other.start()
    cluster.await_ready()


def test_certificates_are_replaced_without_restart(cluster: SecureExample) -> None:
    before = {daemon: expiry(daemon) for daemon in cluster}
    pids = {daemon: daemon.pid for daemon in cluster}
    expires = datetime.now(UTC) + timedelta(days=20)
    for daemon in cluster:
        cluster.certificates.issue(f"node-{daemon.node_id}", expires=expires)
        daemon.signal(signal.SIGHUP)
        wait_for("the new certificate", lambda daemon=daemon: expiry(daemon) != before[daemon])
        assert expiry(daemon) == int(expires.timestamp())
    first = cluster.leader()
    cluster.set_quota("renewed")
    first.kill()
    cluster.leader(first.node_id)
    first.start()
    cluster.await_ready()
    assert {daemon: daemon.pid for daemon in cluster if daemon is not first} == {
        daemon: pid for daemon, pid in pids.items() if daemon is not first
    }
    wait_for("the warning", lambda: "expires in" in first.log_text())


def test_status_of_the_nodes_needs_a_login(cluster: SecureExample) -> None:
    rows = json.loads(cluster.quorumd("status", "--output", "json"))
    assert [(row["nodeId"], row["responds"], row["ready"]) for row in rows] == [
        (node, True, True) for node in NODES
    ]
    plain = run_quorumd("status", "--bootstrap-server", cluster.bootstrap, "--timeout", "1s")
    assert plain.returncode != 0


def test_unauthenticated_clients_are_rejected(cluster: SecureExample, tmp_path: Path) -> None:
    plain = run_quorumd("quotas", "list", "--bootstrap-server", cluster.bootstrap, "--timeout", "1s")
    assert plain.returncode != 0
    client_file = tmp_path / "client.properties"
    client_file.write_text(cluster.client_file.read_text().replace("admin-secret", "guessed"))
    wrong = ("--bootstrap-server", cluster.bootstrap, "--command-config", client_file, "--timeout", "1s")
    refused = run_quorumd("quotas", "list", *wrong)
    assert refused.returncode != 0
    assert "SASL_AUTHENTICATION_FAILED" in refused.stderr
