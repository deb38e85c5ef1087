"""Virtual time and the trace hash."""

from collections.abc import Callable
from functools import partial

from quorumd.simulator.environment.clock import MachineTime, SimulatedClock
from quorumd.simulator.environment.entropy import SimulatedEntropy, Streams
from quorumd.simulator.environment.event_heap import EventHeap, Process


def run_to_end(heap: EventHeap, until_ms: float = 1e9) -> None:
    while heap.step(until_ms):
        pass


def test_callbacks_run_by_deadline_then_in_order_of_scheduling() -> None:
    heap = EventHeap()
    seen: list[str] = []
    for name, deadline in (("late", 5.0), ("first", 1.0), ("second", 1.0), ("at once", -3.0)):
        heap.call_at(deadline, partial(seen.append, name), b"test")
    run_to_end(heap, until_ms=2.0)
    assert seen == ["at once", "first", "second"]
    assert heap.now_ms == 2.0
    run_to_end(heap)
    assert seen[-1] == "late"


def test_cancelled_callback_is_not_called() -> None:
    heap = EventHeap()
    seen: list[int] = []
    heap.call_at(1.0, lambda: seen.append(1), b"test").cancel()
    run_to_end(heap)
    assert seen == []
    assert heap.events == 0


def test_callbacks_of_an_ended_process_are_dropped() -> None:
    heap = EventHeap()
    process = Process("node", 1, 1)
    seen: list[int] = []
    heap.call_at(1.0, lambda: seen.append(1), b"test", process)
    heap.call_at(2.0, lambda: seen.append(2), b"test", process)
    heap.call_at(1.5, lambda: setattr(process, "alive", False), b"kill")
    run_to_end(heap)
    assert seen == [1]


def trace_of(schedule: Callable[[EventHeap], object]) -> str:
    heap = EventHeap()
    schedule(heap)
    run_to_end(heap)
    return heap.trace_hash()


def test_trace_hash_covers_time_kind_process_and_payload() -> None:
    def nothing() -> None:
        return None

    variants = [
        trace_of(lambda heap: heap.call_at(1.0, nothing, b"data", Process("a", 1, 1), b"x")),
        trace_of(lambda heap: heap.call_at(1.1, nothing, b"data", Process("a", 1, 1), b"x")),
        trace_of(lambda heap: heap.call_at(1.0, nothing, b"timer", Process("a", 1, 1), b"x")),
        trace_of(lambda heap: heap.call_at(1.0, nothing, b"data", Process("b", 1, 1), b"x")),
        trace_of(lambda heap: heap.call_at(1.0, nothing, b"data", Process("a", 1, 2), b"x")),
        trace_of(lambda heap: heap.call_at(1.0, nothing, b"data", Process("a", 1, 1), b"y")),
    ]
    assert len(set(variants)) == len(variants)
    assert trace_of(lambda heap: heap.call_at(1.0, nothing, b"data", Process("a", 1, 1), b"x")) == variants[0]


def test_clock_with_offset_and_drift_never_fires_before_its_own_deadline() -> None:
    for rate in (0.9, 0.999, 1.0, 1.0001, 1.37):
        heap = EventHeap()
        clock = SimulatedClock(heap, Process("node"), MachineTime(offset_ms=123_456.789, rate=rate))
        early: list[float] = []

        def note(deadline: float, clock: SimulatedClock = clock, early: list[float] = early) -> None:
            if clock.now_ms() < deadline:
                early.append(deadline)

        for step in range(200):
            deadline = 123_456.789 + step * 0.37
            clock.call_at(deadline, partial(note, deadline))
        run_to_end(heap)
        assert early == []
        assert heap.events == 200


def test_fast_clock_sees_its_deadline_earlier() -> None:
    heap = EventHeap()
    clock = SimulatedClock(heap, Process("node"), MachineTime(rate=2.0))
    at: list[float] = []
    clock.call_at(100.0, lambda: at.append(heap.now_ms))
    run_to_end(heap)
    assert at == [50.0]


def test_streams_of_one_seed_are_independent_and_repeatable() -> None:
    streams = Streams(7)
    first = [streams.stream("disk", 1).random() for _ in range(2)]
    assert first[0] == first[1]
    assert streams.stream("disk", 1).random() != streams.stream("disk", 2).random()
    assert streams.stream("disk", 1).random() != Streams(8).stream("disk", 1).random()


def test_entropy_implements_the_port() -> None:
    entropy = SimulatedEntropy(Streams(1).stream("node"))
    assert {entropy.randrange(3) for _ in range(100)} == {0, 1, 2}
    assert entropy.randrange(1) == 0
    uuids = [entropy.uuid() for _ in range(500)]
    assert len(set(uuids)) == 500
    assert not any(str(uuid).startswith("-") for uuid in uuids)


def test_due_callbacks_of_a_busy_process_wait_in_order() -> None:
    heap = EventHeap()
    process = Process("node", 1, 1)
    seen: list[tuple[str, float]] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: seen.append((name, heap.now_ms))

    process.busy_until_ms = 5.0
    heap.call_at(1.0, note("timer"), b"test", process)
    heap.call_at(2.0, note("bytes"), b"test", runs_on=process)
    heap.call_at(5.0, note("later"), b"test", process)
    heap.call_at(3.0, note("another"), b"test", Process("other", 2, 1))
    run_to_end(heap)
    assert seen == [("another", 3.0), ("timer", 5.0), ("bytes", 5.0), ("later", 5.0)]


def test_callbacks_of_a_slow_process_queue_up() -> None:
    heap = EventHeap()
    process = Process("node", 1, 1)
    process.callback_ms = 2.0
    seen: list[float] = []

    def callback() -> None:
        heap.touched = process
        seen.append(heap.now_ms)

    for deadline in (1.0, 1.5, 2.0, 9.0):
        heap.call_at(deadline, callback, b"test", runs_on=process)
    run_to_end(heap)
    assert seen == [1.0, 3.0, 5.0, 9.0]


def test_bytes_for_a_busy_process_that_ends_still_arrive() -> None:
    heap = EventHeap()
    process = Process("node", 1, 1)
    process.busy_until_ms = 5.0
    seen: list[float] = []
    heap.call_at(1.0, lambda: seen.append(heap.now_ms), b"test", runs_on=process)
    heap.call_at(2.0, lambda: setattr(process, "alive", False), b"kill")
    run_to_end(heap)
    assert seen == [5.0]


def test_work_delays_only_its_own_process() -> None:
    heap, worker, other = EventHeap(), Process("worker"), Process("other")
    came: list[tuple[str, float]] = []

    def work() -> None:
        heap.spend(worker, 5.0)
        heap.call_later(1.0, lambda: came.append(("sent behind the work", heap.now_ms)), b"", other)

    heap.call_at(10.0, work, b"", worker)
    heap.call_at(11.0, lambda: came.append(("other", heap.now_ms)), b"", other)
    heap.call_at(12.0, lambda: came.append(("worker", heap.now_ms)), b"", worker)
    assert heap.step(100.0)
    assert (heap.now_ms, heap.ended_ms) == (10.0, 15.0)
    while heap.step(100.0):
        pass
    assert came == [("other", 11.0), ("worker", 15.0), ("sent behind the work", 16.0)]


def test_work_takes_longer_on_a_slow_machine() -> None:
    heap, process = EventHeap(), Process("node")
    process.slowness, process.request_ms, process.byte_ms = 3.0, 1.0, 0.25

    def work() -> None:
        heap.transfer(process, 4, 1)
        heap.spend(process, 5.0)

    heap.call_at(10.0, work, b"", process)
    assert heap.step(100.0)
    assert (heap.ended_ms, heap.transfer_ms, heap.now_ms) == (31.0, 6.0, 10.0)
    assert process.busy_until_ms == 31.0
