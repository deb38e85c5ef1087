"""Periodic checks on the event thread: whether the loop runs, how busy it is, and whether the node is ready."""

from __future__ import annotations

import gc
import os
import time
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from concurrent.futures import Future

from quorumd.node.node import Node
from quorumd.node.readiness import NodeStatus, readiness, report
from quorumd.observability.broker_statistics import collect_broker_statistics
from quorumd.observability.image_statistics import collect_image_statistics
from quorumd.observability.node_metric import SampledState
from quorumd.runtime.http_endpoint import ProbeResult
from quorumd.runtime.notify import notify

INTERVAL_S = 1.0
STARTING_INTERVAL_S = 0.01
"""The shortest interval until the node is ready for the first time."""
STARTING_SHARE = 0.1
"""Until the node is ready for the first time, the interval is this share of the time since the start, so that no
start is delayed by more."""
BROKER_SHARE, OLDEST_BROKER_S = 0.001, 10.0
"""Collecting the statistics of the broker, which visits every replica, takes at most this share of the time, unless
they would be older than this."""
RESPONSE_LIMIT_S = 2.0
"""A node whose event thread takes longer to report readiness is not ready."""
STARTUP_EXTENSION_S = 60
"""By how much each check extends systemd's start timeout. A node without a majority waits for other nodes or an
operator; restarting it would not help."""
STALLED_AFTER_S = 10.0
"""/healthz fails if the last check is longer ago than this."""


class Monitor:
    """Measures the event thread, on which it must be created, and reports the node's state to systemd.

    The idle ratio is 1 - (CPU time of the event thread / elapsed time), so that blocking in a system call counts as
    idle. The clocks are arguments for tests. `on_ready` is called when the node is ready for the first time.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        node: Node,
        watchdog_s: float | None = None,
        now_s: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.thread_time,
        wall_s: Callable[[], float] = time.time,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        self.sampled = SampledState()
        self._loop = loop
        self._node = node
        self._now_s = now_s
        self._cpu_s = cpu_s
        self._wall_s = wall_s
        self._on_ready = on_ready
        self._watchdog = watchdog_s is not None
        self._interval_s = min(INTERVAL_S, watchdog_s) if watchdog_s else INTERVAL_S
        self._started_s = self._last_tick_s = now_s()
        self._last_cpu_s = cpu_s()
        self._broker_due_s = self._started_s
        """When the statistics of the broker are to be collected again, by `now_s`."""
        self._status = ""
        self._has_started = False
        self._timer: TimerHandle | None = None
        self._due_s: float | None = None
        """When the next check is due, by `now_s`."""

    def start(self) -> None:
        """Run a check now, and then periodically until `stop`."""
        self._tick()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        if self._due_s is not None:
            self.sampled.loop_delay_ms.observe(max(0.0, self._now_s() - self._due_s) * 1000)
        self.sample()
        now_s = self._now_s()
        interval_s = self._interval_s
        if not self._has_started:
            starting_s = max(STARTING_INTERVAL_S, STARTING_SHARE * (now_s - self._started_s))
            interval_s = min(starting_s, interval_s)
        self._due_s = now_s + interval_s
        self._timer = self._loop.call_later(interval_s, self._tick)

    def sample(self) -> None:
        """Run one check."""
        now_s, cpu_s = self._now_s(), self._cpu_s()
        elapsed_s = now_s - self._last_tick_s
        if elapsed_s > 0:
            busy = (cpu_s - self._last_cpu_s) / elapsed_s
            self.sampled.idle_ratio = min(1.0, max(0.0, 1.0 - busy))
        self._last_tick_s, self._last_cpu_s = now_s, cpu_s
        engine = self._node.engine
        if engine.is_leader:
            self.sampled.observers = len(engine.describe(now_s * 1000).observers)
        else:
            self.sampled.observers = 0
        self.sampled.image = image = collect_image_statistics(self._node, self.sampled.image)
        if now_s >= self._broker_due_s:
            self._collect_broker(now_s)
        is_behind = image.applied_timestamp_ms > 0 and not self._node.controller.is_active
        lag_s = self._wall_s() - image.applied_timestamp_ms / 1000 if is_behind else 0.0
        self.sampled.applied_lag_s = max(0.0, lag_s)
        self._notify(self._node.monitor.node_status())
        if self._watchdog:
            notify("WATCHDOG=1")

    def _collect_broker(self, now_s: float) -> None:
        before_s = self._cpu_s()
        self.sampled.broker = collect_broker_statistics(self._node)
        took_s = self._cpu_s() - before_s
        self._broker_due_s = now_s + min(took_s / BROKER_SHARE, OLDEST_BROKER_S)

    def _notify(self, node_status: NodeStatus) -> None:
        """Report the status to systemd, and READY=1 when the node is ready for the first time."""
        reasons = readiness(node_status).reasons
        status = f"{node_status.summary}; {reasons[0]}" if reasons else node_status.summary
        if status != self._status:
            self._status = status
            notify(f"STATUS={status}")
        if not reasons and not self._has_started:
            self._has_started = True
            # The image is loaded. Exclude its long-lived objects from garbage collection.
            gc.freeze()
            notify("READY=1", f"MAINPID={os.getpid()}")
            if self._on_ready is not None:
                self._on_ready()
        elif not self._has_started:
            notify(f"EXTEND_TIMEOUT_USEC={STARTUP_EXTENSION_S * 1_000_000}")

    def health(self) -> ProbeResult:
        """The result of /healthz, on any thread: whether the event loop runs and the log's disk has free space."""
        stalled_s = self._now_s() - self._last_tick_s
        if stalled_s > STALLED_AFTER_S:
            return ProbeResult(False, f"the event loop has not run for {stalled_s:.0f} s")
        if not self._node.log.has_free_space():
            return ProbeResult(False, "the disk is full: free some space; no acknowledged data is lost")
        return ProbeResult(True, "ok")

    def readiness(self) -> ProbeResult:
        """The result of /readyz, which is determined on the event thread; call this on another thread."""
        decided: Future[ProbeResult] = Future()
        try:
            self._loop.call_soon_threadsafe(
                lambda: decided.set_result(probe_result(self._node.monitor.node_status()))
            )
            return decided.result(RESPONSE_LIMIT_S)
        except TimeoutError:
            return ProbeResult(False, f"not ready: the event loop has not run for {RESPONSE_LIMIT_S:.0f} s")
        except RuntimeError:
            return ProbeResult(False, "not ready: the node has stopped")


def probe_result(node_status: NodeStatus) -> ProbeResult:
    """The response to /readyz for a node status."""
    return ProbeResult(readiness(node_status).is_ready, report(node_status))
