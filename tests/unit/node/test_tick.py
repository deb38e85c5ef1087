from __future__ import annotations

from collections.abc import Callable

from quorumd.node.statistics import Histogram
from quorumd.node.tick import Tick
from quorumd.simulator.environment.clock import SimulatedClock
from quorumd.simulator.environment.event_heap import Process
from tests.support.node.virtual_time import VirtualTime


class RecordingClock(SimulatedClock):
    """A clock that keeps the callbacks of the next iteration."""

    def __init__(self, time: VirtualTime) -> None:
        super().__init__(time.heap, Process("test"))
        self.scheduled: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.scheduled.append(callback)


def tick() -> tuple[Tick, list[Callable[[], None]], list[str]]:
    clock = RecordingClock(VirtualTime())
    return Tick(clock, Histogram()), clock.scheduled, []


def test_deferred_callback_runs_at_the_end_of_the_tick() -> None:
    subject, scheduled, done = tick()
    subject.begin()
    subject.defer(lambda: done.append("a"))
    assert (done, scheduled) == ([], [])
    subject.end()
    assert done == ["a"]
    subject.end()
    assert done == ["a"]


def test_without_an_open_turn_the_loop_ends_it_once() -> None:
    subject, scheduled, done = tick()
    subject.defer(lambda: done.append("a"))
    subject.defer(lambda: done.append("b"))
    assert len(scheduled) == 1
    scheduled[0]()
    assert done == ["a", "b"]
    subject.defer(lambda: done.append("c"))
    assert len(scheduled) == 2


def test_callback_deferred_during_the_end_runs_in_the_same_end() -> None:
    subject, _, done = tick()
    subject.begin()
    subject.defer(lambda: subject.defer(lambda: done.append("late")))
    subject.end()
    assert done == ["late"]


def test_event_processing_time_includes_deferred_callbacks() -> None:
    time, durations = VirtualTime(), Histogram()
    clock = RecordingClock(time)
    subject = Tick(clock, durations)

    began_ms = subject.begin()
    assert began_ms == clock.now_ms()
    time.pass_ms(2.0)
    assert subject.begin() == began_ms
    assert subject.busy_ms() == 2.0
    subject.defer(lambda: time.pass_ms(3.0))
    subject.end()
    subject.end()
    assert (sum(durations.counts), durations.total) == (1, 5.0)
    subject.defer(lambda: time.pass_ms(7.0))
    clock.scheduled[0]()
    assert sum(durations.counts) == 1, "no event opened that turn"
    assert subject.busy_ms() == 5.0
