"""Runs blocking disk operations in order, on the flush thread, or on the event thread while the disk is fast.

To run an operation on another thread costs two thread switches and contention for the GIL, on a fast disk more than
the operation itself. Operations therefore run on the event thread while the recent ones were fast on average: a slow
one now and then costs less than the thread switches of all others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from sys import setswitchinterval
from threading import Thread
from time import perf_counter
from typing import Any, Final

FAST_MEAN_S: Final = 0.0005
"""Operations run on the event thread while their mean duration is less than this."""
WEIGHT: Final = 1 / 32
"""The weight of the newest duration in the mean."""
FIRST_MEAN_S: Final = 4 * FAST_MEAN_S
"""The mean before the first operation: about 50 fast ones have to show that the disk is fast."""
SWITCH_S: Final = 0.0005
"""The time after which the waiting flush thread makes the event thread give up the GIL."""
LATE_SWITCH_S: Final = 0.00002
"""The same while an operation is late. That time starts over whenever the event thread releases the GIL for a system
call: with 0.5 ms, an event thread that writes to logs all the time kept a flush waiting for 30 ms and more. Always
20 us would cost a busy node with flushes of a millisecond a sixth of its CPU time."""
LATE_S: Final = 0.004
"""An operation is late if none was completed within this time."""

_Operation = Callable[[], Any]
_Done = Callable[[Any], None]


class DiskOperations:
    """Runs operations one after the other, and calls `done` on the event thread with the result or exception.

    `call_threadsafe` runs a callback on the event thread, like asyncio's `call_soon_threadsafe`, and raises
    RuntimeError once the event thread has ended. `call_soon` does the same, but is called on the event thread;
    without it every operation runs on the flush thread. `call_later(seconds, callback)`: without it no operation
    counts as late.
    """

    def __init__(
        self,
        call_threadsafe: Callable[[Callable[[], None]], object],
        call_soon: Callable[[Callable[[], None]], object] | None = None,
        call_later: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        self._call_threadsafe = call_threadsafe
        self._call_soon = call_soon
        self._call_later = call_later
        self._is_watched = False
        """Whether a check for late operations is scheduled."""
        self._completed = 0
        """The number of operations that the flush thread has completed; below it the number at the last check."""
        self._completed_before = 0
        self._is_late = False
        self._on_this_thread: deque[tuple[_Operation, _Done]] = deque()
        self._jobs: SimpleQueue[tuple[_Operation, _Done] | None] = SimpleQueue()
        self._queued_on_thread = 0
        self._mean_s = FIRST_MEAN_S
        self._flush_thread: Thread | None = None

    def submit(self, operation: _Operation, done: _Done) -> None:
        """See `ports.Disk`. Returns before the operation starts, so that pending messages can be sent first."""
        if self._on_this_thread or (
            self._mean_s < FAST_MEAN_S and not self._queued_on_thread and self._call_soon
        ):
            self._on_this_thread.append((operation, done))
            if self._call_soon is not None:
                self._call_soon(self._run_inline)
            return
        if self._flush_thread is None:
            self._flush_thread = Thread(target=self._work, name="flush", daemon=True)
            self._flush_thread.start()
        self._queued_on_thread += 1
        self._jobs.put((operation, done))
        if not self._is_watched:
            self._watch()

    def close(self) -> None:
        """Complete the submitted operations and end the flush thread."""
        while self._on_this_thread:
            self._run_inline()
        if self._flush_thread is not None:
            self._jobs.put(None)
            self._flush_thread.join()
            self._flush_thread = None

    def _run_inline(self) -> None:
        if self._on_this_thread:
            operation, done = self._on_this_thread.popleft()
            outcome, elapsed_s = _run(operation)
            self._count(elapsed_s)
            done(outcome)

    def _count(self, elapsed_s: float) -> None:
        self._mean_s += (elapsed_s - self._mean_s) * WEIGHT

    def _watch(self) -> None:
        if self._call_later is not None:
            self._is_watched = True
            self._completed_before = self._completed
            self._call_later(LATE_S, self._check_late)

    def _check_late(self) -> None:
        self._is_watched = False
        if self._queued_on_thread:
            self._set_late(self._completed == self._completed_before)
            self._watch()

    def _set_late(self, is_late: bool) -> None:
        if is_late is not self._is_late:
            self._is_late = is_late
            setswitchinterval(LATE_SWITCH_S if is_late else SWITCH_S)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            operation, done = job
            outcome, elapsed_s = _run(operation)
            try:
                self._call_threadsafe(partial(self._ended, done, outcome, elapsed_s))
            except RuntimeError:
                # The event thread has ended; the remaining operations still have to run.
                continue

    def _ended(self, done: _Done, outcome: Any, elapsed_s: float) -> None:
        self._queued_on_thread -= 1
        self._completed += 1
        self._set_late(False)
        self._count(elapsed_s)
        done(outcome)


def _run(operation: _Operation) -> tuple[Any, float]:
    """Return the result or exception of an operation, and the seconds it took."""
    started_at = perf_counter()
    outcome: Any
    try:
        outcome = operation()
    except BaseException as error:
        outcome = error
    return outcome, perf_counter() - started_at
