"""The daemon's monitor, which runs once per second."""

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quorumd.controller.broker_sessions import BrokerSessions
from quorumd.controller.cluster_image import ClusterImage
from quorumd.node.readiness import NodeStatus
from quorumd.runtime import monitor as monitor_module
from quorumd.runtime.monitor import STALLED_AFTER_S, STARTING_INTERVAL_S, Monitor
from tests.support.text import shows

STANDING = NodeStatus(1, "follower", 4, 2, 0.0, 2500.0, 42, 42, 10, True, True)


class Loop:
    """Records calls; those from another thread run immediately, unless the loop stands still."""

    stands_still = False

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        if not self.stands_still:
            callback()

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.callbacks: list[Callable[[], None]] = []
        self.cancelled = False

    def call_later(self, delay: float, callback: Callable[[], None]) -> "Loop":
        self.delays.append(delay)
        self.callbacks.append(callback)
        return self

    def cancel(self) -> None:
        self.cancelled = True


class Clocks:
    now_s = 100.0
    cpu_s = 5.0
    wall_s = 72.5


def make_node(**engine: Any) -> Any:
    state = {"is_leader": False, "epoch": 4, "role_name": "follower", "leader_id": 2}
    return SimpleNamespace(
        engine=SimpleNamespace(**(state | engine)),
        log=SimpleNamespace(has_free_space=lambda: True),
        monitor=SimpleNamespace(node_status=lambda: STANDING),
        state_machine=SimpleNamespace(image=ClusterImage(), applied_offset=42, applied_timestamp_ms=70_000),
        has_pending_proposals=False,
        broker=None,
        controller=SimpleNamespace(
            is_active=False,
            controller=SimpleNamespace(
                image=ClusterImage(), sessions=BrokerSessions(9000.0), now_ms=lambda: 0.0
            ),
        ),
    )


def make_monitor(node: Any, clocks: Clocks, watchdog_s: float | None = None) -> tuple[Monitor, Loop]:
    loop = Loop()
    times = (lambda: clocks.now_s, lambda: clocks.cpu_s, lambda: clocks.wall_s)
    monitor = Monitor(loop, node, watchdog_s, *times)  # type: ignore[arg-type]  # what it uses of a loop
    return monitor, loop


@pytest.mark.parametrize(("cpu_used", "idle"), [(0.0, 1.0), (0.5, 0.75), (2.0, 0.0), (2.5, 0.0)])
def test_idle_ratio_is_the_share_of_time_without_cpu(cpu_used: float, idle: float) -> None:
    clocks = Clocks()
    monitor, _ = make_monitor(make_node(), clocks)
    clocks.now_s += 2.0
    clocks.cpu_s += cpu_used
    monitor.sample()
    assert monitor.sampled.idle_ratio == pytest.approx(idle)


@pytest.mark.parametrize(
    ("took_s", "pauses"), [(0.0, [0, 1, 1, 1]), (0.0029, [0, 3, 3, 3]), (1.0, [0, 10, 10])]
)
def test_broker_with_many_replicas_is_looked_at_less_often(
    monkeypatch: pytest.MonkeyPatch, took_s: float, pauses: list[int]
) -> None:
    clocks, looks = Clocks(), []

    def collect(node: object) -> Any:
        looks.append(clocks.now_s)
        clocks.cpu_s += took_s
        return len(looks)

    monkeypatch.setattr(monitor_module, "collect_broker_statistics", collect)
    monitor, _ = make_monitor(make_node(), clocks)
    began = clocks.now_s
    for _ in range(sum(pauses) + 1):
        monitor.sample()
        clocks.now_s += 1.0
    assert looks == [began + sum(pauses[: n + 1]) for n in range(len(pauses))]
    assert monitor.sampled.broker == len(looks)


def test_figures_of_the_image_are_those_of_the_last_look() -> None:
    node = make_node()
    monitor, _ = make_monitor(node, Clocks())
    assert monitor.sampled.image.applied_offset == 0
    monitor.sample()
    assert monitor.sampled.image.applied_offset == 42


def test_lag_of_the_image_is_the_age_of_its_last_record_and_none_on_the_leader() -> None:
    node = make_node()
    monitor, _ = make_monitor(node, Clocks())
    monitor.sample()
    assert monitor.sampled.applied_lag_s == pytest.approx(2.5)
    node.controller.is_active = True
    monitor.sample()
    assert monitor.sampled.applied_lag_s == 0.0
    node.controller.is_active = False
    node.state_machine.applied_timestamp_ms = 0
    monitor.sample()
    assert monitor.sampled.applied_lag_s == 0.0, "nothing is applied"


def test_loop_delay_is_the_lateness_of_its_check() -> None:
    clocks = Clocks()
    monitor, loop = make_monitor(make_node(), clocks)
    monitor.start()
    clocks.now_s += loop.delays[-1] + 0.25
    loop.callbacks[-1]()
    delays = monitor.sampled.loop_delay_ms
    assert (sum(delays.counts), delays.total) == (1, pytest.approx(250.0))


def test_observers_are_counted_where_the_node_leads() -> None:
    description = SimpleNamespace(observers=("a", "b"))
    node = make_node(is_leader=True, describe=lambda now_ms: description)
    monitor, _ = make_monitor(node, Clocks())
    monitor.sample()
    assert monitor.sampled.observers == 2
    node.engine.is_leader = False
    monitor.sample()
    assert monitor.sampled.observers == 0


def test_loop_that_does_not_turn_is_not_healthy() -> None:
    clocks = Clocks()
    monitor, _ = make_monitor(make_node(), clocks)
    monitor.sample()
    clocks.now_s += STALLED_AFTER_S
    assert monitor.health() == (True, "ok")
    clocks.now_s += 1
    ok, text = monitor.health()
    assert not ok
    assert shows(text, "event loop", "11 s")


def test_full_disk_is_not_healthy() -> None:
    node = make_node()
    monitor, _ = make_monitor(node, Clocks())
    node.log.has_free_space = lambda: False
    ok, text = monitor.health()
    assert not ok
    assert "disk is full" in text


def test_readiness_is_the_decision_of_the_event_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    node = make_node()
    monitor, loop = make_monitor(node, Clocks())
    ok, text = monitor.readiness()
    assert ok
    assert shows(text, "follower", "epoch 4", "node 2")
    node.monitor.node_status = lambda: replace(STANDING, leader_id=-1, contact_ms=inf)
    ok, text = monitor.readiness()
    assert not ok
    assert shows(text, "not ready", "follower", "epoch 4", "no leader")
    monkeypatch.setattr(monitor_module, "RESPONSE_LIMIT_S", 0.001)
    loop.stands_still = True
    ok, text = monitor.readiness()
    assert not ok
    assert shows(text, "not ready", "event loop")


def test_systemd_is_notified_of_status_and_watchdog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.setblocking(False)
        node = make_node()
        monitor, loop = make_monitor(node, Clocks(), watchdog_s=0.25)
        searching = replace(STANDING, role="unattached", leader_id=-1, contact_ms=inf)
        for node_status in (searching, STANDING, STANDING, searching, replace(STANDING, epoch=5)):
            node.monitor.node_status = lambda node_status=node_status: node_status
            monitor.start()
        reported = [receiver.recv(1000).decode() for _ in range(11)]
    ready = f"READY=1\nMAINPID={os.getpid()}"
    searching, follows = "STATUS=unattached in epoch 4", "STATUS=follower in epoch"
    assert [text.partition(", ")[0] for text in reported] == [
        *(searching, "EXTEND_TIMEOUT_USEC=60000000", "WATCHDOG=1"),
        *(f"{follows} 4", ready, "WATCHDOG=1"),
        "WATCHDOG=1",
        *(searching, "WATCHDOG=1"),
        *(f"{follows} 5", "WATCHDOG=1"),
    ]
    assert loop.delays == [STARTING_INTERVAL_S, 0.25, 0.25, 0.25, 0.25]
    monitor.stop()
    assert loop.cancelled


def test_readiness_of_a_starting_node_is_checked_often_at_first() -> None:
    clocks, node = Clocks(), make_node()
    node.monitor.node_status = lambda: replace(STANDING, contact_ms=inf)
    monitor, loop = make_monitor(node, clocks)
    monitor.start()
    for elapsed_s in (0.05, 0.5, 5.0, 500.0):
        clocks.now_s = Clocks.now_s + elapsed_s
        loop.callbacks[-1]()
    assert loop.delays == [STARTING_INTERVAL_S, *map(pytest.approx, (STARTING_INTERVAL_S, 0.05, 0.5, 1.0))]


def test_slow_watchdog_does_not_slow_the_look() -> None:
    monitor, loop = make_monitor(make_node(), Clocks(), watchdog_s=inf)
    monitor.start()
    assert loop.delays == [1.0]
