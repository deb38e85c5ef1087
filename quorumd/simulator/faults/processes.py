"""Processes without enough processor time: paused, stalled or slow."""

from __future__ import annotations

from functools import partial
from random import Random

from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.faults.base import RunningNodeFault


class PausedProcess(RunningNodeFault):
    """SIGSTOP, and later SIGCONT: all events in between are pending then."""

    name = "paused process"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        assert machine.process is not None
        pause_ms = random.random() * random.choice((200.0, 2000.0, 8000.0))
        until_ms = cluster.heap.now_ms + pause_ms
        machine.process.busy_until_ms = max(machine.process.busy_until_ms, until_ms)
        machine.disk.stop_thread(until_ms)


class StalledEventLoop(RunningNodeFault):
    """The event loop is blocked for a while: connections, the disk thread and subprocesses continue. Stalls often
    follow each other, with a few iterations in between."""

    name = "stalled event loop"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        assert machine.process is not None
        longest_ms, delay_ms = random.choice((100.0, 500.0, 2000.0)), 0.0
        for _ in range(random.choice((1, 1, 3, 8))):
            stall_ms = random.random() * longest_ms
            stall = partial(self._stall, cluster, machine.process, stall_ms)
            cluster.heap.call_later(delay_ms, stall, b"stall")
            delay_ms += stall_ms + random.random() * 20.0

    def _stall(self, cluster: Cluster, process: Process, stall_ms: float) -> None:
        if not cluster.is_repaired:
            process.busy_until_ms = max(process.busy_until_ms, cluster.heap.now_ms + stall_ms)


class SlowProcess(RunningNodeFault):
    """A process with little processor time: every callback takes long, and events queue up."""

    name = "slow process"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        assert machine.process is not None
        machine.process.callback_ms = random.random() * random.choice((0.5, 2.0, 10.0))
        cluster.heap.call_later(
            random.random() * 4000.0, partial(self._as_before, machine.process), b"processor"
        )

    def _as_before(self, process: Process) -> None:
        process.callback_ms = 0.0
