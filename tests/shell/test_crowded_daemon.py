"""A daemon whose clients take all connections that it has: it stays up, and serves those who can still reach it."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest

from quorumd.runtime.http_endpoint import MAX_CLIENTS, MAX_THREADS
from tests.support.processes.daemons import PATIENCE_S, Cluster, Daemon, wait_for
from tests.support.processes.requests import set_register

OPEN_FILES = 256
CROWD = 2 * OPEN_FILES
SCRAPERS = 3 * MAX_THREADS
OTHER_THREADS = 16
"""Threads of the daemon besides those of HTTP clients, at most."""


def few_open_files() -> None:
    """In the child process, whose hard limit cannot be raised."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    cluster = Cluster(tmp_path, size=1)
    try:
        cluster[1].start(limits=few_open_files)
        cluster.leader()
        yield cluster[1]
        assert "Traceback" not in cluster[1].log_text()
    finally:
        cluster.stop()


def crowd(opened: ExitStack, port: int, count: int) -> list[socket.socket]:
    """Connections that send nothing."""
    return [
        opened.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S)) for _ in range(count)
    ]


def is_closed(client: socket.socket) -> bool:
    """Wait until the daemon closes the connection."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def open_files(daemon: Daemon) -> int:
    return len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))


def threads(daemon: Daemon) -> int:
    return len(list(Path(f"/proc/{daemon.pid}/task").iterdir()))


def is_healthy(daemon: Daemon) -> bool:
    with urlopen(f"http://127.0.0.1:{daemon.http_port}/healthz", timeout=PATIENCE_S) as response:
        return int(response.status) == 200


def test_more_connections_than_open_files_do_not_stop_the_daemon(daemon: Daemon) -> None:
    with daemon.connect() as before, ExitStack() as opened:
        clients = crowd(opened, daemon.port, CROWD)
        assert is_closed(clients[-1])
        assert open_files(daemon) < OPEN_FILES
        set_register(before, "written", "while no client can connect")
        assert is_healthy(daemon), "descriptors are left for other purposes"
    wait_for("the daemon to accept connections again", daemon.describe_quorum)
    daemon.stop()
    assert daemon.wait() == 0


def test_slow_metrics_clients_have_few_threads(daemon: Daemon) -> None:
    with ExitStack() as opened:
        clients = crowd(opened, daemon.http_port, SCRAPERS)
        for client in clients:
            client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        assert is_healthy(daemon), "it has seen all others before"
        assert threads(daemon) <= MAX_THREADS + OTHER_THREADS
        assert is_closed(clients[-MAX_CLIENTS - 1]), "replaced by a newer one"
        assert daemon.describe_quorum() is not None
