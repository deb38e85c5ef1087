"""The real clock: never early, in order, cancellable; on uvloop and on asyncio's own loop."""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
import uvloop

from quorumd.runtime.clock import LoopClock


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    make: Callable[[], asyncio.AbstractEventLoop] = request.param
    loop = make()
    yield loop
    loop.close()


def test_timer_is_never_early_regardless_of_the_fraction_of_its_deadline(
    loop: asyncio.AbstractEventLoop,
) -> None:
    clock = LoopClock(loop)
    late_by: list[float] = []
    begin = clock.now_ms()
    deadlines = [begin + tenths / 10 for tenths in range(0, 100, 3)]
    for deadline in deadlines:

        def note(deadline: float = deadline) -> None:
            late_by.append(clock.now_ms() - deadline)
            if len(late_by) == len(deadlines):
                loop.stop()

        clock.call_at(deadline, note)
    loop.run_forever()
    assert min(late_by) >= 0


class HastyLoop:
    """Keeps scheduled callbacks, so that a test can call them early."""

    def __init__(self) -> None:
        self.scheduled: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.scheduled.append((delay, callback))


def test_early_timer_is_rescheduled() -> None:
    loop = HastyLoop()
    clock = LoopClock(loop)  # type: ignore[arg-type]  # all that a timer needs of a loop
    calls: list[str] = []
    clock.call_at(clock.now_ms() + 50_000, lambda: calls.append("called"))
    for _ in range(3):
        delay, callback = loop.scheduled[-1]
        assert 0 < delay <= 50
        callback()
    assert len(loop.scheduled) == 4
    assert calls == []


def test_past_deadline_is_called_back_asynchronously(
    loop: asyncio.AbstractEventLoop,
) -> None:
    clock = LoopClock(loop)
    calls: list[str] = []
    clock.call_at(clock.now_ms() - 1000, lambda: calls.append("timer"))
    clock.call_soon(lambda: calls.append("soon"))
    assert calls == []
    clock.call_at(clock.now_ms() + 1, loop.stop)
    loop.run_forever()
    assert sorted(calls) == ["soon", "timer"]


def test_cancelled_timer_is_not_called_and_late_cancel_is_harmless(
    loop: asyncio.AbstractEventLoop,
) -> None:
    clock = LoopClock(loop)
    calls: list[str] = []
    cancelled = clock.call_at(clock.now_ms() + 1, lambda: calls.append("cancelled"))
    cancelled.cancel()
    kept = clock.call_at(clock.now_ms() + 1, lambda: calls.append("kept"))
    clock.call_at(clock.now_ms() + 4, loop.stop)
    loop.run_forever()
    kept.cancel()
    assert calls == ["kept"]


def test_wall_time_is_unix_time_in_milliseconds(loop: asyncio.AbstractEventLoop) -> None:
    clock = LoopClock(loop)
    before, reported, after = time.time_ns(), clock.wall_ms(), time.time_ns()
    assert before // 1_000_000 <= reported <= after // 1_000_000
