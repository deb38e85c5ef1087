"""The directory of a local cluster: its layout, its properties files, and the processes it may stop."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from quorumd.cli.local_cluster import AddressInUse, LocalCluster, LocalNode, is_free
from quorumd.cli.private_files import write
from quorumd.client.tls import build_contexts
from quorumd.config import load
from quorumd.config.client import load_client
from quorumd.errors import ConfigError

WAIT_FOR_A_SIGNAL = "import signal; print('ready', flush=True); signal.pause()"
IGNORE_SIGTERM = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\n"
    "while True: signal.pause()"
)


def made(directory: Path, nodes: int | None = None, base_port: int | None = None) -> LocalCluster:
    cluster = LocalCluster.open_or_plan(directory, nodes, base_port)
    cluster.create()
    return cluster


def run_as_daemon_of(node: LocalNode, code: str) -> subprocess.Popen[bytes]:
    """A process that looks like the daemon of `node`, with its pid file, and already runs `code`: a new process
    has no command line for a moment."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, "start", "--config", str(node.config)], stdout=subprocess.PIPE
    )
    node.record(process.pid)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_every_node_gets_valid_properties(tmp_path: Path) -> None:
    cluster = made(tmp_path / "c", 3, 9300)
    settings = [load(str(node.config)) for node in cluster.nodes]
    assert [each.node_id for each in settings] == [0, 1, 2]
    assert [each.listener.port for each in settings] == [9300, 9301, 9302]
    assert [each.metrics_listener for each in settings] == [("127.0.0.1", 9400 + i) for i in range(3)]
    assert len({each.quorum_voters for each in settings}) == 1
    assert [voter.port for voter in settings[0].quorum_voters] == [9300, 9301, 9302]
    assert {Path(each.data_directory).parent for each in settings} == {
        node.directory for node in cluster.nodes
    }
    assert cluster.bootstrap == "127.0.0.1:9300,127.0.0.1:9301,127.0.0.1:9302"


@pytest.mark.parametrize(("nodes", "replicas", "min_isr"), [(1, 1, 1), (2, 2, 2), (5, 3, 2)])
def test_every_node_of_a_cluster_with_brokers_is_one(
    tmp_path: Path, nodes: int, replicas: int, min_isr: int
) -> None:
    cluster = LocalCluster.open_or_plan(tmp_path / "c", nodes, 9300, brokers=True)
    cluster.create()
    for node, settings in ((node, load(str(node.config))) for node in cluster.nodes):
        assert settings.is_broker
        assert settings.is_controller
        assert settings.listener.port == node.port
        (clients,) = settings.client_listeners
        assert clients.port == node.client_port == node.port + 200
        assert settings.offsets_topic_replication_factor == replicas
        assert (settings.transaction_log_replication_factor, settings.transaction_log_min_isr) == (
            replicas,
            min_isr,
        )
        assert settings.warnings() == ()
    assert cluster.bootstrap.startswith("127.0.0.1:9500")
    assert LocalCluster.open(tmp_path / "c").layout.brokers
    assert LocalCluster.open_or_plan(tmp_path / "c").layout.brokers


def test_brokers_are_not_added_to_an_existing_cluster(tmp_path: Path) -> None:
    made(tmp_path, 3, 9300)
    with pytest.raises(ConfigError, match="--brokers"):
        LocalCluster.open_or_plan(tmp_path, brokers=True)


@pytest.mark.parametrize("brokers", [False, True])
def test_secure_cluster_has_no_plain_listener(tmp_path: Path, brokers: bool) -> None:
    directory = tmp_path / "c"
    cluster = LocalCluster.open_or_plan(directory, 2, 9300, brokers, secure=True)
    cluster.create()
    assert (
        LocalCluster.open(directory).layout == LocalCluster.open_or_plan(directory).layout == cluster.layout
    )
    token_secrets: set[str] = set()
    for node, settings in ((node, load(str(node.config))) for node in cluster.nodes):
        assert settings.warnings() == ()
        listeners = {each.name: (settings.protocol_of(each.name), each.port) for each in settings.listeners}
        expected = {"CONTROLLER": ("SSL", node.port), "CLIENTS": ("SASL_SSL", node.port + 200)}
        if brokers:
            expected["REPLICATION"] = ("SSL", node.port + 300)
            assert settings.inter_broker_listener == "REPLICATION"
        assert listeners == expected
        assert settings.super_users == {"User:admin", "User:node-0", "User:node-1"}
        assert settings.node_settings().authorizer is not None
        token_secrets.add(settings.token_secret_key)
        tls = settings.security()["CONTROLLER"].tls
        assert tls is not None
        contexts = build_contexts(tls)
        assert contexts.server is not None
        assert contexts.server.verify_mode == ssl.CERT_REQUIRED
    (token_secret,) = token_secrets
    assert len(token_secret) >= 32
    client = load_client(str(directory / "security/client.properties"), {})
    assert client.tls is not None
    assert client.login is not None
    assert client.login[0] == "SCRAM-SHA-512"
    assert cluster.bootstrap == "127.0.0.1:9500,127.0.0.1:9501"


def test_files_of_a_cluster_are_private(tmp_path: Path) -> None:
    cluster = LocalCluster.open_or_plan(tmp_path / "c", 1, 9300, secure=True)
    cluster.create()
    found = [cluster.directory, *cluster.directory.rglob("*")]
    assert {oct(path.stat().st_mode & 0o777) for path in found if path.is_dir()} == {"0o700"}
    assert {oct(path.stat().st_mode & 0o777) for path in found if path.is_file()} == {"0o600"}


def test_plain_cluster_is_not_made_secure_afterwards(tmp_path: Path) -> None:
    made(tmp_path, 3, 9300)
    with pytest.raises(ConfigError, match="--secure"):
        LocalCluster.open_or_plan(tmp_path, secure=True)


def test_planted_symlinks_are_not_followed(tmp_path: Path) -> None:
    """In a directory that others may write to they lead to files of this user."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    cluster = LocalCluster.open_or_plan(tmp_path / "c", 1, 9300)
    node = cluster.nodes[0]
    node.directory.mkdir(parents=True)
    for path in (cluster.directory / "cluster.json", node.pid_file):
        path.symlink_to(precious)
    cluster.create()
    write(node.pid_file, "1")
    node.log.symlink_to(precious)
    with pytest.raises(ConfigError, match=r"daemon\.log"):
        cluster.start(node)
    assert precious.read_text() == "mine"


def test_directory_that_is_a_symlink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    cluster = LocalCluster.open_or_plan(tmp_path / "c", 1, 9300)
    cluster.directory.mkdir()
    cluster.nodes[0].directory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="node-0"):
        cluster.create()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_creating_again_keeps_cluster(tmp_path: Path) -> None:
    node = made(tmp_path, 5, 9300).nodes[4]
    node.config.write_text(node.config.read_text() + "log.level=DEBUG\n")
    again = made(tmp_path)
    assert again.layout == LocalCluster.open(tmp_path).layout
    assert len(again.nodes) == 5
    assert "DEBUG" in again.nodes[4].config.read_text()


@pytest.mark.parametrize(("nodes", "base_port"), [(4, None), (None, 9301)])
def test_other_layout_in_same_directory_is_rejected(
    tmp_path: Path, nodes: int | None, base_port: int | None
) -> None:
    made(tmp_path, 3, 9300)
    with pytest.raises(ConfigError, match=r"\b3 nodes.*\b9300\b"):
        LocalCluster.open_or_plan(tmp_path, nodes, base_port)


@pytest.mark.parametrize("content", [None, "", "[]", '{"nodes": 3}'])
def test_directory_without_cluster_is_reported(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "cluster.json").write_text(content)
    with pytest.raises(ConfigError, match="quorumd cluster up"):
        LocalCluster.open(tmp_path)


def test_process_of_another_user_is_not_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user may start a process with the arguments of a daemon; its id may be in an old pid file."""
    node = made(tmp_path).nodes[0]
    process = run_as_daemon_of(node, WAIT_FOR_A_SIGNAL)
    try:
        assert node.pid() == process.pid
        monkeypatch.setattr(os, "getuid", lambda: 12_345)
        assert node.pid() is None
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("content", ["{own}", "999999999", "", "not a pid"])
def test_stale_pid_file_counts_as_stopped(tmp_path: Path, content: str) -> None:
    node = made(tmp_path, 1, 9300).nodes[0]
    node.started_file.write_text("another boot 7\n")
    node.pid_file.write_text(content.format(own=os.getpid()))
    assert node.pid() is None


def test_stop_ends_only_daemons_of_the_cluster(tmp_path: Path) -> None:
    """A process with the arguments of a daemon and the id of one that ended is not that daemon."""
    cluster = made(tmp_path, 2, 9300)
    ours, other = (run_as_daemon_of(node, WAIT_FOR_A_SIGNAL) for node in cluster.nodes)
    try:
        cluster.nodes[1].started_file.write_text("another boot 7\n")
        assert [node.id for node in cluster.stop(lambda text: None)] == [0]
        assert ours.wait() == -15
        assert other.poll() is None
        assert not list(cluster.nodes[0].directory.glob("pid*"))
    finally:
        for each in (ours, other):
            each.kill()
            each.communicate()


def test_daemon_that_does_not_stop_is_killed_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorumd.cli.local_cluster.STOP_TIMEOUT_S", 0.1)
    cluster = made(tmp_path, 1, 9300)
    process = run_as_daemon_of(cluster.nodes[0], IGNORE_SIGTERM)
    reported: list[str] = []
    cluster.stop(reported.append)
    process.communicate()
    assert process.returncode == -9
    assert "killed" in reported[0]


def test_environment_overrides_do_not_reach_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, str]] = []

    class Process:
        pid = 1

        def __init__(self, command: list[str], *, env: dict[str, str], **options: object) -> None:
            started.append(env)

    monkeypatch.setenv("QUORUMD_NODE_ID", "7")
    monkeypatch.setattr(subprocess, "Popen", Process)
    cluster = made(tmp_path, 3, 9300)
    cluster.start(cluster.nodes[0])
    (environment,) = started
    assert "QUORUMD_NODE_ID" not in environment
    assert environment["PATH"] == os.environ["PATH"]


def test_address_in_use_is_reported_before_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cluster = LocalCluster.open_or_plan(tmp_path, 1, port)
        assert not is_free(port)
        with pytest.raises(AddressInUse, match=f"127.0.0.1:{port}.*--base-port"):
            cluster.check_addresses(cluster.nodes)
    assert not list(tmp_path.iterdir())
    assert is_free(port)
