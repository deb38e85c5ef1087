"""Runs blocking disk operations in order, on the flush thread, or on the event thread while the disk is fast.

To run an operation on another thread costs two thread switches and contention for the GIL, on a fast disk more than
the operation itself. After a series of fast operations the next ones therefore run on the event thread, until one of
them is slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any

FAST_OPERATION_S = 0.0005
"""Operations shorter than this count as fast."""
FAST_STREAK = 64
"""Number of fast operations in a row after which the next ones run on the event thread."""

_Operation = Callable[[], Any]
_Done = Callable[[Any], None]


class DiskOperations:
    """Runs operations one after the other, and calls `done` on the event thread with the result or exception.

    `call_threadsafe` runs a callback on the event thread, like asyncio's `call_soon_threadsafe`, and raises
    RuntimeError once the event thread has ended. `call_soon` does the same, but is called on the event thread;
    without it every operation runs on the flush thread.
    """

    def __init__(
        self,
        call_threadsafe: Callable[[Callable[[], None]], object],
        call_soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self._call_threadsafe = call_threadsafe
        self._call_soon = call_soon
        self._on_this_thread: deque[tuple[_Operation, _Done]] = deque()
        self._jobs: SimpleQueue[tuple[_Operation, _Done] | None] = SimpleQueue()
        self._queued_on_thread = 0
        self._fast_streak = 0
        self._flush_thread: Thread | None = None

    def submit(self, operation: _Operation, done: _Done) -> None:
        """See `ports.Disk`. Returns before the operation starts, so that pending messages can be sent first."""
        if self._on_this_thread or (
            self._fast_streak >= FAST_STREAK and not self._queued_on_thread and self._call_soon
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
        self._fast_streak = self._fast_streak + 1 if elapsed_s < FAST_OPERATION_S else 0

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
