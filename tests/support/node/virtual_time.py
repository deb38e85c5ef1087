"""The Clock port for tests of one component: time passes when a test says so."""

from __future__ import annotations

from quorumd.simulator.environment.clock import MachineTime, SimulatedClock
from quorumd.simulator.environment.event_heap import EventHeap, Process


class VirtualTime:
    """`clock` for the component under test, `pass_ms` for the test."""

    def __init__(self) -> None:
        self.heap = EventHeap()
        self.clock = SimulatedClock(self.heap, Process("test"), MachineTime(offset_ms=1000.0))

    def pass_ms(self, duration_ms: float) -> None:
        """All that is due by then happens, in order."""
        until = self.heap.now_ms + duration_ms
        while self.heap.step(until):
            pass

    def end_turn(self) -> None:
        """What was asked for with call_soon happens."""
        self.pass_ms(0)
