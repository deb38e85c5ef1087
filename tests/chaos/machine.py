"""The machine below the cluster: how long its own disk and scheduler stand still, which no quorum can help.

A flush that takes longer than an election timeout keeps every election from ending, whoever runs it. So bounds of
time are bounds of time in which the machine worked, and the report tells how much it did not.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

INTERVAL_S = 0.1
STALL_S = 0.25
"""Half of an election timeout; a look that takes longer is a stall, all of it."""
LONGEST_PATIENCE = 10
"""No bound becomes more than so many times as long, however the machine stands."""


@dataclass(slots=True)
class Stall:
    """Times of time.monotonic()."""

    began: float
    ended: float


class MachineWatch:
    """Looks again and again, in a thread: sleeps a moment, and flushes a file as a node saves its vote."""

    def __init__(self, folder: Path) -> None:
        self.stalls: list[Stall] = []
        self._path = folder / "flushed"
        self._look_began = time.monotonic()
        self._stop = Event()
        self._thread = Thread(target=self._watch, name="machine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more looks."""
        self._stop.set()
        self._thread.join()

    def stalled_s(self, since: float, now: float) -> float:
        """How much of this time the machine stood still, what is not over yet included."""
        stalls = [*self.stalls, *([Stall(self._look_began, now)] if now - self._look_began > STALL_S else [])]
        return sum(max(0.0, min(stall.ended, now) - max(stall.began, since)) for stall in stalls)

    def told(self) -> str:
        """For the report."""
        lengths = [stall.ended - stall.began for stall in self.stalls]
        if not lengths:
            return f"never stood still for more than {STALL_S} s"
        return (
            f"stood still {len(lengths)} times for more than {STALL_S} s, {sum(lengths):.0f} s in all, "
            f"{max(lengths):.1f} s at the longest"
        )

    def _watch(self) -> None:
        while not self._stop.is_set():
            self._look_began = time.monotonic()
            self._look()
            ended = time.monotonic()
            if ended - self._look_began > STALL_S:
                self.stalls.append(Stall(self._look_began, ended))

    def _look(self) -> None:
        time.sleep(INTERVAL_S)
        temporary = self._path.with_suffix(".tmp")
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, b"%d" % time.monotonic_ns(), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class Patience:
    """A bound of time in which the machine worked."""

    def __init__(self, seconds: float, machine: MachineWatch) -> None:
        self._seconds = seconds
        self._machine = machine
        self._began = time.monotonic()

    @property
    def is_over(self) -> bool:
        now = time.monotonic()
        passed = now - self._began
        if passed > self._seconds * LONGEST_PATIENCE:
            return True
        return passed - self._machine.stalled_s(self._began, now) > self._seconds
