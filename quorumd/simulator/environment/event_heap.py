"""Virtual time: callbacks in the order of (deadline, sequence), and a hash of the trace.

Everything in a simulation runs from this heap, so two runs of one seed make the same calls in the same
order, in any process and with any PYTHONHASHSEED; the trace hash verifies that.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from struct import Struct

_trace_record = Struct("<dII").pack
_TRACE_BUFFER_PARTS = 4096
"""Number of trace entries that are hashed together."""


class Process:
    """One incarnation of a node or client. When it ends, its scheduled callbacks are dropped.

    It runs one callback at a time: while it is busy or paused, due callbacks wait, in order.
    """

    __slots__ = ("alive", "busy_until_ms", "byte_ms", "callback_ms", "incarnation", "name", "node_id", "request_ms",
                 "slowness", "trace_name")  # fmt: skip

    def __init__(self, name: str, node_id: int = -1, incarnation: int = 0) -> None:
        self.name = name
        self.node_id = node_id
        self.incarnation = incarnation
        self.alive = True
        self.busy_until_ms = 0.0
        self.callback_ms = 0.0
        """Duration of each of its callbacks."""
        self.request_ms = 0.0
        """Processor time to receive data once."""
        self.byte_ms = 0.0
        """Processor time per received or sent byte."""
        self.slowness = 1.0
        """Factor of the duration of its work."""
        self.trace_name = f"{name}/{incarnation}".encode()


class Scheduled:
    """One callback on the heap; satisfies `ports.Timer`."""

    __slots__ = ("callback", "kind", "payload", "process", "runs_on")

    def __init__(
        self,
        callback: Callable[[], None],
        kind: bytes,
        process: Process | None,
        payload: bytes,
        runs_on: Process | None,
    ) -> None:
        self.callback: Callable[[], None] | None = callback
        self.kind = kind
        self.process = process
        self.payload = payload
        self.runs_on = runs_on

    def cancel(self) -> None:
        self.callback = None


class EventHeap:
    """The event queue of the simulation. Times are milliseconds from 0."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.ended_ms = 0.0
        """When the last callback ended its work (`spend`)."""
        self.transfer_ms = 0.0
        """Time that the current or last callback spent on sending and receiving."""
        self.is_running = False
        """Whether a callback is running, rather than a checker after it."""
        self.events = 0
        """Callbacks made so far."""
        self.waited = 0
        """Number of callbacks that had to wait for a busy process."""
        self.touched: Process | None = None
        """The process whose state the current (or last) callback may have changed, for the checkers."""
        self._heap: list[tuple[float, int, Scheduled]] = []
        self._sequence = 0
        self._hash = blake2b(digest_size=16)
        self._pending_trace: list[bytes] = []

    def call_at(
        self,
        deadline_ms: float,
        callback: Callable[[], None],
        kind: bytes,
        process: Process | None = None,
        payload: bytes = b"",
        runs_on: Process | None = None,
    ) -> Scheduled:
        """Schedule a callback at `deadline_ms`, or now if that has passed. `kind` and `payload` go into the trace.

        The callback is dropped when `process` ends. `runs_on` is the process that executes it, if it is not
        `process`. The callback waits while `runs_on` is busy, but runs even if `runs_on` has ended.
        """
        scheduled = Scheduled(callback, kind, process, payload, runs_on or process)
        self._sequence += 1
        due_ms = deadline_ms if deadline_ms > self.now_ms else self.now_ms
        heappush(self._heap, (due_ms, self._sequence, scheduled))
        return scheduled

    def call_later(
        self,
        delay_ms: float,
        callback: Callable[[], None],
        kind: bytes,
        process: Process | None = None,
        payload: bytes = b"",
        runs_on: Process | None = None,
    ) -> Scheduled:
        return self.call_at(self.now_ms + delay_ms, callback, kind, process, payload, runs_on)

    def step(self, until_ms: float) -> bool:
        """Run the next callback due by `until_ms`. If none is due, advance the time to it and return False.

        Exceptions of the callback propagate; `touched` is its process.
        """
        heap = self._heap
        while heap and heap[0][0] <= until_ms:
            deadline, sequence, scheduled = heappop(heap)
            callback, process = scheduled.callback, scheduled.process
            if callback is None or (process is not None and not process.alive):
                continue
            runs_on = scheduled.runs_on
            if runs_on is not None and runs_on.busy_until_ms > deadline and runs_on.alive:
                # Keep its sequence number, so that callbacks waiting for one process keep their order.
                heappush(heap, (runs_on.busy_until_ms, sequence, scheduled))
                self.waited += 1
                continue
            scheduled.callback = None
            self.now_ms = deadline
            self.events += 1
            self.touched = process
            self.transfer_ms = 0.0
            name, payload = b"" if process is None else process.trace_name, scheduled.payload
            trace = self._pending_trace
            trace += (_trace_record(deadline, len(name), len(payload)), scheduled.kind, name, payload)
            if len(trace) > _TRACE_BUFFER_PARTS:
                self._hash_pending()
            self.is_running = True
            try:
                callback()
            finally:
                self.is_running = False
                # Time has advanced only for the busy process; for all others it is still the time of the event.
                self.ended_ms, self.now_ms = self.now_ms, deadline
            touched = self.touched
            if touched is not None and touched.callback_ms:
                touched.busy_until_ms = max(touched.busy_until_ms, self.ended_ms + touched.callback_ms)
            return True
        self.now_ms = max(self.now_ms, until_ms)
        return False

    def spend(self, process: Process, duration_ms: float) -> None:
        """Let the current callback take this long: its later sends, writes and timers are delayed by that time,
        during which its process is busy."""
        self.now_ms += duration_ms * process.slowness
        process.busy_until_ms = max(process.busy_until_ms, self.now_ms)

    def transfer(self, process: Process, length: int, calls: int) -> None:
        """Let the current callback take the time to send or receive `length` bytes in `calls` calls."""
        began_ms = self.now_ms
        self.spend(process, calls * process.request_ms + length * process.byte_ms)
        self.transfer_ms += self.now_ms - began_ms

    def trace_hash(self) -> str:
        """Return a hex digest of time, kind, process and payload of every callback so far."""
        self._hash_pending()
        return self._hash.copy().hexdigest()

    def _hash_pending(self) -> None:
        self._hash.update(b"".join(self._pending_trace))
        self._pending_trace.clear()
