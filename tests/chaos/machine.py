"""The machine below the cluster: how long its own disk and scheduler stand still, which no quorum can help.

A flush that takes longer than an election timeout keeps every election from ending, whoever runs it. So bounds of
time are bounds of time in which the machine worked, and the report tells how much it did not. Lost are: a stall;
what lies between two stalls that follow each other too quickly for an election; and, on a machine that is slow
without standing still, what a look took longer than it should.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from dataclasses import dataclass
from math import inf
from pathlib import Path
from threading import Event, Thread

INTERVAL_S = 0.1
USUAL_S = 0.15
"""What a look takes at most where nothing is wrong: the interval and two flushes."""
STALL_S = 0.25
"""Half of an election timeout; a look that takes longer is a stall, all of it."""
CALM_S = 2.0
"""Four election timeouts. A shorter time between two stalls is lost with them: nobody may get elected in it."""
LONGEST_PATIENCE = 10
"""No bound becomes more than so many times as long, however the machine stands."""


@dataclass(slots=True)
class Look:
    """Times of time.monotonic()."""

    began: float
    ended: float

    @property
    def length_s(self) -> float:
        return self.ended - self.began


class MachineWatch:
    """Looks again and again, in a thread: sleeps a moment, and flushes a file as a node saves its vote."""

    def __init__(self, folder: Path) -> None:
        self.late: list[Look] = []
        """The looks that took longer than usual, in the order of time."""
        self._path = folder / "flushed"
        self._began = self._look_began = time.monotonic()
        self._stop = Event()
        self._thread = Thread(target=self._watch, name="machine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more looks."""
        self._stop.set()
        self._thread.join()

    def lost_s(self, since: float, now: float) -> float:
        """How much of this time was lost, what is not over yet included."""
        first = bisect_left(self.late, since - CALM_S, key=lambda look: look.ended)
        late = [
            *self.late[first:],
            *([Look(self._look_began, now)] if now - self._look_began > USUAL_S else []),
        ]
        lost, since_stall, stalled_until = 0.0, 0.0, -inf
        for look in late:
            if look.began >= now:
                break
            if look.length_s > STALL_S:
                began = look.began
                if began - stalled_until < CALM_S:
                    began = stalled_until
                    lost -= since_stall
                lost += max(0.0, min(look.ended, now) - max(began, since))
                since_stall, stalled_until = 0.0, look.ended
            else:
                overdue = max(0.0, min(look.ended, now) - max(look.began + USUAL_S, since))
                lost += overdue
                since_stall += overdue
        return lost

    def told(self) -> str:
        """For the report."""
        stalls = [look.length_s for look in self.late if look.length_s > STALL_S]
        now = time.monotonic()
        share = f"{self.lost_s(self._began, now):.0f} of {now - self._began:.0f} s were lost to its slowness"
        if not stalls:
            return f"never stood still for more than {STALL_S} s; {share}"
        return (
            f"stood still {len(stalls)} times for more than {STALL_S} s, {sum(stalls):.0f} s in all, "
            f"{max(stalls):.1f} s at the longest; {share}"
        )

    def _watch(self) -> None:
        while not self._stop.is_set():
            self._look_began = time.monotonic()
            self._look()
            look = Look(self._look_began, time.monotonic())
            if look.length_s > USUAL_S:
                self.late.append(look)

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
        return passed - self._machine.lost_s(self._began, now) > self._seconds
