"""What the daemon looks at once a second, on the event thread: is it turning, how busy is it, who leads."""

from __future__ import annotations

import time
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable

from quorumd.node.node import Node
from quorumd.observability.image_figures import figures_of
from quorumd.observability.node_metric import Gathered
from quorumd.runtime.http_endpoint import Report
from quorumd.runtime.notify import notify

INTERVAL_S = 1.0
STALLED_AFTER_S = 10.0


class Monitor:
    """Measures the event thread and tells systemd of the node's state. Started on the event thread.

    The idle ratio is 1 - (CPU time of the event thread / time passed): cheap, the same under every event loop, and
    honest about a busy interpreter; blocking in a system call counts as idle. Clocks are arguments for tests.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        node: Node,
        watchdog_s: float | None = None,
        now_s: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self.gathered = Gathered()
        self._loop = loop
        self._node = node
        self._now_s = now_s
        self._cpu_s = cpu_s
        self._watchdog = watchdog_s is not None
        self._interval_s = min(INTERVAL_S, watchdog_s) if watchdog_s else INTERVAL_S
        self._last_turn_s = now_s()
        self._last_cpu_s = cpu_s()
        self._status = ""
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Look now, and from then on until `stop`."""
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.look()
        self._timer = self._loop.call_later(self._interval_s, self._look)

    def look(self) -> None:
        """One look."""
        now_s, cpu_s = self._now_s(), self._cpu_s()
        passed_s = now_s - self._last_turn_s
        if passed_s > 0:
            busy = (cpu_s - self._last_cpu_s) / passed_s
            self.gathered.idle_ratio = min(1.0, max(0.0, 1.0 - busy))
        self._last_turn_s, self._last_cpu_s = now_s, cpu_s
        engine = self._node.engine
        if engine.is_leader:
            self.gathered.observers = len(engine.describe(now_s * 1000).observers)
        else:
            self.gathered.observers = 0
        self.gathered.image = figures_of(self._node, self.gathered.image)
        status = status_of(self._node)
        if status != self._status:
            self._status = status
            notify(f"STATUS={status}")
        if self._watchdog:
            notify("WATCHDOG=1")

    def health(self) -> Report:
        """For /healthz, from any thread: the event loop turns and the log takes records."""
        stalled_s = self._now_s() - self._last_turn_s
        if stalled_s > STALLED_AFTER_S:
            return Report(False, f"the event loop has not turned for {stalled_s:.0f} s")
        if not self._node.log.has_room():
            return Report(False, "the disk is full: make room; nothing that was acknowledged is lost")
        return Report(True, "ok")

    def readiness(self) -> Report:
        """For /readyz, from any thread: a leader is known and this node follows it, or is it."""
        if not self._node.is_ready:
            return Report(False, f"not ready: {status_of(self._node)}")
        return Report(True, f"ready: {status_of(self._node)}")


def status_of(node: Node) -> str:
    """One line for people: role, epoch, leader."""
    engine = node.engine
    if engine.is_leader:
        return f"leader of epoch {engine.epoch}"
    leader = f"leader is node {engine.leader_id}" if engine.leader_id >= 0 else "no leader known"
    return f"{engine.role_name} in epoch {engine.epoch}, {leader}"
