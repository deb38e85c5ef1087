"""The Clock port on virtual time: each machine's clocks have their own offset and rate; the wall clock can be set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nextafter

from quorumd.simulator.environment.event_heap import EventHeap, Process, Scheduled


@dataclass(slots=True)
class MachineTime:
    """The two clocks of a machine, each `offset + virtual time * rate`. They outlive its processes.

    The wall clock can be set: `wall_offset_ms` changes. The monotonic clock cannot.
    """

    offset_ms: float = 0.0
    rate: float = 1.0
    wall_offset_ms: float = 1_700_000_000_000.0


class SimulatedClock:
    """The Clock port of one process on a machine."""

    def __init__(
        self, heap: EventHeap, process: Process, time: MachineTime | None = None, record_ms: float = 0.0
    ) -> None:
        time = time or MachineTime()
        self._heap = heap
        self._process = process
        self._time = time
        self._offset_ms = time.offset_ms
        self._rate = time.rate
        self._record_ms = record_ms

    def now_ms(self) -> float:
        return self._offset_ms + self._heap.now_ms * self._rate

    def wall_ms(self) -> int:
        return int(self._time.wall_offset_ms + self._heap.now_ms * self._rate)

    def call_at(self, deadline_ms: float, callback: Callable[[], None]) -> Scheduled:
        due = max((deadline_ms - self._offset_ms) / self._rate, self._heap.now_ms)
        while self._offset_ms + due * self._rate < deadline_ms:
            # A callback must not see a time before its deadline because of rounding: it would rearm endlessly.
            due = nextafter(due, inf)
        return self._heap.call_at(due, callback, b"timer", self._process)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._heap.call_at(self._heap.now_ms, callback, b"soon", self._process)

    def charge(self, records: int) -> None:
        if self._record_ms and records:
            self._heap.spend(self._process, records * self._record_ms)
