"""The subprocess jobs of a simulated machine: one at a time, each at one instant."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

from quorumd.ports import MIN_DUTY_CYCLE, Disk
from quorumd.simulator.environment.event_heap import EventHeap, Process, Scheduled

T = TypeVar("T")

JOB_START_MS = (20.0, 400.0)
"""Shortest and longest duration of a subprocess job at the lowest duty cycle."""


class SubprocessJobs:
    """Runs the jobs of the attached process on a disk. They end with the process, but do not wait while it is
    busy."""

    def __init__(self, heap: EventHeap, random: Random, disk: Disk) -> None:
        self._heap = heap
        self._random = random
        self._disk = disk
        self._process: Process | None = None
        self._subprocess: Process | None = None
        self._job: tuple[Scheduled, float, Callable[[], None], float] | None = None
        """The scheduled job: its callback and duty cycle, and when it runs."""

    def attach(self, process: Process) -> None:
        self._process = process
        self._subprocess = Process(f"{process.name} subprocess", process.node_id, process.incarnation)

    def run(self, job: Callable[[Disk], T], done: Callable[[T | BaseException], None]) -> None:
        """Run the job at one later instant, if the process still exists then."""
        runs_at = (
            self._heap.now_ms + JOB_START_MS[0] + self._random.random() * (JOB_START_MS[1] - JOB_START_MS[0])
        )
        process = self._process

        def run() -> None:
            self._job = None
            try:
                outcome: T | BaseException = job(self._disk)
            except Exception as error:  # passed to `done`, as by the real disk
                outcome = error
            self._heap.call_later(1.0, lambda: done(outcome), b"apart done", process)

        self._start(runs_at, run, MIN_DUTY_CYCLE)

    def throttle(self, duty_cycle: float) -> None:
        """Scale the remaining time of the job."""
        if self._job is None:
            return
        scheduled, runs_at, run, before = self._job
        if scheduled.process is self._process and duty_cycle != before:
            scheduled.cancel()
            left_ms = max(0.0, runs_at - self._heap.now_ms) * before / duty_cycle
            self._start(self._heap.now_ms + left_ms, run, duty_cycle)

    def _start(self, runs_at: float, run: Callable[[], None], duty_cycle: float) -> None:
        scheduled = self._heap.call_at(runs_at, run, b"apart run", self._process, runs_on=self._subprocess)
        self._job = (scheduled, runs_at, run, duty_cycle)
