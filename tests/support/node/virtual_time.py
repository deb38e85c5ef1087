"""The Clock port for tests of one component, in which the test advances time."""

from __future__ import annotations

from quorumd.simulator.environment.clock import MachineTime, SimulatedClock
from quorumd.simulator.environment.event_heap import EventHeap, Process


class VirtualTime:
    """`clock` for the component under test, `pass_ms` for the test."""

    def __init__(self) -> None:
        self.heap = EventHeap()
        self.machine = MachineTime(offset_ms=1000.0)
        self.clock = SimulatedClock(self.heap, Process("test"), self.machine)

    def pass_ms(self, duration_ms: float) -> None:
        """Advance time and run everything that is due, in order."""
        until = self.heap.now_ms + duration_ms
        while self.heap.step(until):
            pass

    def end_turn(self) -> None:
        """Run the callbacks of call_soon."""
        self.pass_ms(0)
