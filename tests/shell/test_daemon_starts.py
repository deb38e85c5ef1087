"""The daemon as a process: start, signals, exit codes, messages and endpoints."""

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import uvloop

from quorumd.cli.local_cluster import format_nodes
from quorumd.config import load
from quorumd.errors import ConfigError, CorruptLog, FlushFailed
from quorumd.observability.metrics import METRICS
from quorumd.runtime.daemon import Daemon, start_failure, with_remedy
from tests.support.processes.daemons import PATIENCE_S, wait_for
from tests.support.text import shows

Process = subprocess.Popen[str]


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (ConfigError("x"), 2),
        (CorruptLog("x"), 3),
        (PermissionError(errno.EACCES, "Permission denied", "/data/x"), 3),
        (OSError(errno.EIO, "Input/output error"), 3),
        (FlushFailed("x"), 4),
        (OSError(errno.EADDRINUSE, "Address already in use"), 5),
        (OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"), 5),
        (PermissionError(errno.EACCES, "Permission denied"), 5),
        (socket.gaierror(-2, "Name or service not known"), 5),
        (ZeroDivisionError("x"), 1),
    ],
)
def test_start_errors_have_exit_codes(error: Exception, exit_code: int) -> None:
    code, text = start_failure(error)
    assert code == exit_code
    assert text


def test_remedy_is_added_to_errors_without_one() -> None:
    assert with_remedy(5, "taken").startswith("taken; ")
    assert with_remedy(3, "absent: run `quorumd format`") == "absent: run `quorumd format`"


class NodeDirectory:
    """The files of one node, and the processes started on them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.properties = path / "node.properties"
        self.processes: list[Process] = []
        self.write("PLAINTEXT://127.0.0.1:0")

    def write(self, listener: str, *lines: str) -> None:
        text = f"node.id=1\nquorum.voters=1\nlog.dirs={self.path}/data\nlisteners={listener}\n"
        self.properties.write_text(text + "\n".join(lines))

    def start(self, *options: str, **environment: str) -> Process:
        if "--format-if-needed" in options and not (self.path / "data").exists():
            format_nodes({1: (self.path / "data", 0)})
        command = [sys.executable, "-m", "quorumd", "start", "--config", str(self.properties), *options]
        process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=os.environ | environment,
        )
        self.processes.append(process)
        return process


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[NodeDirectory]:
    directory = NodeDirectory(tmp_path)
    yield directory
    for process in directory.processes:
        process.kill()
        process.communicate()


def lines_until(process: Process, words: str) -> list[str]:
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line.rstrip())
        if words in line:
            return lines
    raise AssertionError(f"{words!r} never came: {lines}")


def end_of(process: Process) -> tuple[int, str]:
    _, text = process.communicate(timeout=PATIENCE_S)
    return process.returncode, text


def status_of(url: str) -> int:
    try:
        with urlopen(url, timeout=PATIENCE_S) as response:
            return int(response.status)
    except HTTPError as error:
        return error.code


def test_node_serves_metrics_and_shuts_down_gracefully(directory: NodeDirectory) -> None:
    directory.write("PLAINTEXT://127.0.0.1:0", "metrics.listener=127.0.0.1:0")
    process = directory.start("--format-if-needed")
    endpoint = lines_until(process, "/metrics")[-1].split("http://")[1].split("/")[0]
    lines_until(process, "leader in epoch 1")
    wait_for("the node to be ready", lambda: status_of(f"http://{endpoint}/readyz") == 200)
    assert status_of(f"http://{endpoint}/healthz") == 200
    with urlopen(f"http://{endpoint}/metrics", timeout=PATIENCE_S) as response:
        text = response.read().decode()
    for metric in METRICS:
        assert f"# TYPE {metric.exposed_name} {metric.kind}\n" in text
    assert 'quorumd_raft_current_state{state="leader"} 1.0\n' in text
    process.send_signal(signal.SIGHUP)  # does not stop it
    process.send_signal(signal.SIGTERM)
    exit_code, text = end_of(process)
    assert exit_code == 0
    assert shows(text, "stopping", "stopped, exit code 0\n")


@pytest.mark.parametrize(("host", "is_exposed"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_node_that_others_reach_without_tls_warns_in_one_line(
    directory: NodeDirectory, host: str, is_exposed: bool
) -> None:
    directory.write(f"PLAINTEXT://{host}:0", "advertised.listeners=PLAINTEXT://127.0.0.1:0")
    process = directory.start("--format-if-needed")
    lines = lines_until(process, "leader in epoch 1")
    process.send_signal(signal.SIGTERM)
    end_of(process)
    assert len([line for line in lines if "PLAINTEXT://0.0.0.0" in line and "TLS" in line]) == is_exposed


def test_systemd_is_notified_of_each_step(directory: NodeDirectory) -> None:
    address = str(directory.path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(address)
        receiver.settimeout(PATIENCE_S)
        process = directory.start("--format-if-needed", NOTIFY_SOCKET=address, WATCHDOG_USEC="200000")
        messages: list[str] = []

        def hear(words: str) -> None:
            while not messages or words not in messages[-1]:
                messages.append(receiver.recv(1000).decode())

        hear("STATUS=leader of epoch 1")
        assert not any("READY=1" in message for message in messages)
        hear(f"READY=1\nMAINPID={process.pid}")
        hear("WATCHDOG=1")
        process.send_signal(signal.SIGINT)
        hear("STOPPING=1")
        assert end_of(process)[0] == 0


def test_missing_directory_is_an_error(directory: NodeDirectory) -> None:
    exit_code, text = end_of(directory.start())
    assert exit_code == 3
    assert shows(text, "cannot start", f"{directory.path}/data", "`quorumd format`")
    assert "Traceback" not in text


def test_failed_flush_of_any_file_stops_the_node_and_it_restarts_from_disk(directory: NodeDirectory) -> None:
    named = set()
    for flushes in range(1, 6):
        directory.write("PLAINTEXT://127.0.0.1:0", f"internal.fail.flush.after={flushes}")
        exit_code, text = end_of(directory.start("--format-if-needed"))
        assert exit_code == 4
        assert "Traceback" not in text
        named.add(text.split(" could not be flushed")[0].rsplit("/", 1)[-1])
        shutil.rmtree(directory.path / "data")
    assert named == {"quorum-state", "00000000000000000000.log", "leader-epoch-checkpoint", "meta.properties"}


def test_directory_and_address_in_use_are_errors(directory: NodeDirectory, tmp_path: Path) -> None:
    first = directory.start("--format-if-needed")
    line = lines_until(first, "serves")[-1]
    listener = line.split("serves ")[1].split(",")[0]
    exit_code, text = end_of(directory.start())
    assert (exit_code, shows(text, "in use")) == (3, True)

    (tmp_path / "other").mkdir()
    other = NodeDirectory(tmp_path / "other")
    other.write(listener)
    exit_code, text = end_of(other.start("--format-if-needed"))
    assert exit_code == 5
    assert shows(text, "cannot start", f"listeners={listener}", "Address already in use", "stop the process")
    assert len(text.splitlines()) == 1

    other.write(
        f"{listener},CONTROLLER://127.0.0.1:0",
        "process.roles=broker,controller",
        "controller.listener.names=CONTROLLER",
    )
    exit_code, text = end_of(other.start())
    assert exit_code == 5
    assert len(text.splitlines()) == 1

    other.write("PLAINTEXT://127.0.0.1:0", f"metrics.listener={listener.removeprefix('PLAINTEXT://')}")
    exit_code, text = end_of(other.start())
    assert exit_code == 5
    assert "cannot start: metrics.listener=127.0.0.1:" in text
    assert "Traceback" not in text


class StubbornNode:
    """A node whose graceful shutdown never completes."""

    shutdowns = 0

    def shut_down(self) -> None:
        self.shutdowns += 1


@pytest.fixture
def stubborn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Daemon, StubbornNode]]:
    monkeypatch.setattr("quorumd.runtime.daemon.SHUTDOWN_TIMEOUT_S", 0.01)
    loop = uvloop.new_event_loop()
    daemon = Daemon(load(str(NodeDirectory(tmp_path).properties)), loop)
    node = StubbornNode()
    daemon.node = node  # type: ignore[assignment]  # only what a stop needs
    yield daemon, node
    loop.close()


def test_second_signal_stops_at_once(stubborn: tuple[Daemon, StubbornNode]) -> None:
    daemon, node = stubborn
    daemon._stop()
    assert (node.shutdowns, daemon._exit_future.done()) == (1, False)
    daemon._stop()
    assert (node.shutdowns, daemon._exit_future.result()) == (1, 0)


def test_graceful_shutdown_has_a_timeout(stubborn: tuple[Daemon, StubbornNode]) -> None:
    daemon, node = stubborn
    daemon._stop()
    assert daemon._loop.run_until_complete(daemon._exit_future) == 0
    assert node.shutdowns == 1


@pytest.mark.parametrize(
    ("context", "exit_code"),
    [
        ({"message": "Exception in callback", "exception": ZeroDivisionError()}, 1),
        ({"message": "Fatal error: protocol.data_received() call failed.", "exception": OSError()}, 1),
        ({"message": "error status in uv_stream_t.listen callback", "exception": OSError()}, None),
        ({"message": "something without an exception"}, None),
    ],
)
def test_unexpected_exception_ends_the_process(
    context: dict[str, object], exit_code: int | None, stubborn: tuple[Daemon, StubbornNode]
) -> None:
    daemon, _ = stubborn
    daemon._on_exception(daemon._loop, context)
    assert (daemon._exit_future.result() if daemon._exit_future.done() else None) == exit_code


def test_node_that_stops_itself_ends_the_process_with_its_exit_code(
    stubborn: tuple[Daemon, StubbornNode], caplog: pytest.LogCaptureFixture
) -> None:
    daemon, _ = stubborn
    daemon._on_node_stopped(4, "flush failed")
    daemon._on_node_stopped(0, "")
    assert daemon._exit_future.result() == 4
    assert caplog.messages == [with_remedy(4, "flush failed")]
