"""systemd's notification protocol, against a real datagram socket."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorumd.runtime.notify import notify, watchdog_interval_s


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)
        receiver.settimeout(5)
        yield receiver


def test_one_datagram_a_message(manager: socket.socket) -> None:
    assert notify("READY=1", "STATUS=follower of node 2")
    assert notify("STOPPING=1")
    assert manager.recv(1000) == b"READY=1\nSTATUS=follower of node 2"
    assert manager.recv(1000) == b"STOPPING=1"


def test_name_outside_the_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"quorumd-test-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name}")
        receiver.settimeout(5)
        assert notify("READY=1")
        assert receiver.recv(100) == b"READY=1"


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/at/all"])
def test_socket_without_listener(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert not notify("READY=1")


def test_without_a_service_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")


@pytest.mark.parametrize(
    ("microseconds", "watched", "interval"),
    [
        ("10000000", "self", 5.0),
        ("10000000", "another", None),
        ("10000000", None, 5.0),
        ("0", None, None),
        ("soon", None, None),
        (None, None, None),
    ],
)
def test_watchdog(
    microseconds: str | None, watched: str | None, interval: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = {"self": str(os.getpid()), "another": "1"}.get(watched or "")
    for name, value in (("WATCHDOG_USEC", microseconds), ("WATCHDOG_PID", pid)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert watchdog_interval_s() == interval
