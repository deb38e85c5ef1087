"""Measures how long the disk and the scheduler of the machine stall, so that timeouts can exclude that time.

No election completes while flushes take longer than an election timeout. Timeouts therefore count only time in which
the machine worked, and the report has the time lost: stalls, gaps between two stalls that are too short for an
election, and on a slow machine the excess time of samples.
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
"""Maximum normal duration of a sample: the interval and two flushes."""
STALL_S = 0.25
"""Half of an election timeout; a longer sample is a stall."""
CALM_S = 2.0
"""Four election timeouts. A shorter gap between two stalls is lost too, since no election may complete in it."""
LONGEST_PATIENCE = 10
"""Maximum factor by which a timeout is extended."""


@dataclass(slots=True)
class Look:
    """Times of time.monotonic()."""

    began: float
    ended: float

    @property
    def length_s(self) -> float:
        return self.ended - self.began


class MachineWatch:
    """Takes samples in a thread: sleeps briefly, and flushes a file like a node that saves its vote."""

    def __init__(self, directory: Path) -> None:
        self.late: list[Look] = []
        """Samples that took longer than normal, in the order of time."""
        self._path = directory / "flushed"
        self._began = self._look_began = time.monotonic()
        self._stop = Event()
        self._thread = Thread(target=self._watch, name="machine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._stop.set()
        self._thread.join()

    def lost_s(self, since: float, now: float) -> float:
        """Time lost in an interval, including a sample in progress."""
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

    def summary(self) -> str:
        """A summary for the report."""
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
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


class Patience:
    """A timeout that excludes lost time of the machine."""

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
