"""Measure how long the disk and the scheduler of the machine stall, so that timeouts can exclude this time.

No election completes while flushes take longer than an election timeout. Timeouts therefore exclude lost time, and
the report states it: stalls, gaps between two stalls that are too short for an election, and the delay of samples
that are slow but not stalls.
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
"""A longer sample is a stall: half of an election timeout."""
CALM_S = 2.0
"""A shorter gap between two stalls is lost too, since an election may not complete in it: four election timeouts."""
LONGEST_PATIENCE = 10
"""Maximum factor by which a timeout is extended."""


@dataclass(slots=True)
class Sample:
    """A sample; times are values of time.monotonic()."""

    began: float
    ended: float

    @property
    def length_s(self) -> float:
        return self.ended - self.began


class MachineWatch:
    """Takes samples in a thread: it sleeps briefly, and replaces and flushes a file like a node that saves a vote."""

    def __init__(self, directory: Path) -> None:
        self.late: list[Sample] = []
        """Samples that took longer than USUAL_S, in chronological order."""
        self._path = directory / "flushed"
        self._began = self._sample_began = time.monotonic()
        self._stop = Event()
        self._thread = Thread(target=self._watch, name="machine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._stop.set()
        self._thread.join()

    def lost_s(self, since: float, now: float) -> float:
        """Return the time lost in an interval, including a sample in progress."""
        first = bisect_left(self.late, since - CALM_S, key=lambda sample: sample.ended)
        late = [
            *self.late[first:],
            *([Sample(self._sample_began, now)] if now - self._sample_began > USUAL_S else []),
        ]
        lost, since_stall, stalled_until = 0.0, 0.0, -inf
        for sample in late:
            if sample.began >= now:
                break
            if sample.length_s > STALL_S:
                began = sample.began
                if began - stalled_until < CALM_S:
                    began = stalled_until
                    lost -= since_stall
                lost += max(0.0, min(sample.ended, now) - max(began, since))
                since_stall, stalled_until = 0.0, sample.ended
            else:
                overdue = max(0.0, min(sample.ended, now) - max(sample.began + USUAL_S, since))
                lost += overdue
                since_stall += overdue
        return lost

    def summary(self) -> str:
        """Return a summary for the report, whose subject is the machine."""
        stalls = [sample.length_s for sample in self.late if sample.length_s > STALL_S]
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
            self._sample_began = time.monotonic()
            self._take_sample()
            sample = Sample(self._sample_began, time.monotonic())
            if sample.length_s > USUAL_S:
                self.late.append(sample)

    def _take_sample(self) -> None:
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
    """A timeout that excludes time lost by the machine, up to LONGEST_PATIENCE times its length."""

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
