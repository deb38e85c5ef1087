from __future__ import annotations

from collections.abc import Callable

from quorumd.node.statistics import Histogram
from quorumd.node.tick import Tick


def tick() -> tuple[Tick, list[Callable[[], None]], list[str]]:
    scheduled: list[Callable[[], None]] = []
    return Tick(scheduled.append), scheduled, []


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
    times = [100.0]
    durations = Histogram()
    scheduled: list[Callable[[], None]] = []
    subject = Tick(scheduled.append, lambda: times[0], durations)

    def take(duration_ms: float) -> None:
        times[0] += duration_ms

    subject.begin()
    take(2.0)
    subject.begin()
    subject.defer(lambda: take(3.0))
    subject.end()
    subject.end()
    assert (sum(durations.counts), durations.total) == (1, 5.0)
    subject.defer(lambda: take(7.0))
    scheduled[0]()
    assert sum(durations.counts) == 1, "no event opened that turn"
