from __future__ import annotations

from quorumd.node.deadline_timer import LATE_MS, DeadlineTimer
from quorumd.simulator.environment.clock import SimulatedClock
from quorumd.simulator.environment.event_heap import EventHeap, Process


class TimerHarness:
    """A process with a timer and a record of its events in order."""

    def __init__(self) -> None:
        self.heap = EventHeap()
        self.process = Process("node")
        clock = SimulatedClock(self.heap, self.process)
        self.events: list[str] = []
        self.timer = DeadlineTimer(
            clock,
            lambda: self.events.append("expired"),
            lambda late_ms: self.events.append(f"stood still {late_ms:.0f}"),
        )

    def receive_at(self, time_ms: float, name: str) -> None:
        self.heap.call_at(time_ms, lambda: self.events.append(name), b"data", self.process)

    def stand_still_until(self, time_ms: float) -> None:
        self.process.busy_until_ms = time_ms

    def run_until(self, time_ms: float) -> None:
        while self.heap.step(time_ms):
            pass


def test_expires_at_the_deadline() -> None:
    node = TimerHarness()
    node.timer.arm(100)
    node.receive_at(100, "message")
    node.run_until(99)
    assert node.events == []
    node.run_until(100)
    assert node.events == ["expired", "message"]


def test_messages_received_during_a_standstill_are_read_first() -> None:
    node = TimerHarness()
    node.timer.arm(100)
    node.receive_at(60, "early message")
    node.receive_at(150, "late message")
    node.stand_still_until(200)
    node.run_until(200)
    assert node.events == ["stood still 100", "early message", "late message", "expired"]


def test_stall_that_ends_just_after_the_deadline_may_have_delayed_messages() -> None:
    node = TimerHarness()
    node.timer.arm(100)
    node.receive_at(60, "early message")
    node.stand_still_until(100.5)
    node.run_until(200)
    assert node.events == ["early message", "expired"]


def test_stall_during_the_reading_after_a_stall_counts_too() -> None:
    node = TimerHarness()
    node.timer.arm(100)
    node.heap.call_at(60, lambda: node.stand_still_until(350), b"data", node.process)
    node.stand_still_until(200)
    node.run_until(400)
    assert node.events == ["stood still 100", "stood still 150", "expired"]


def test_message_that_rearms_the_timer_does_not_cancel_a_due_deadline() -> None:
    """The timer expires at the earlier deadline; its owner checks which deadlines have passed."""
    node = TimerHarness()
    node.timer.arm(100)
    node.heap.call_at(60, lambda: node.timer.arm(500), b"data", node.process)
    node.stand_still_until(200)
    node.run_until(300)
    assert node.events == ["stood still 100", "expired"]


def test_timer_of_a_node_that_is_always_late_expires() -> None:
    node = TimerHarness()
    node.timer.arm(100)
    node.process.callback_ms = 4 * LATE_MS
    node.stand_still_until(200)
    for number in range(10):
        node.receive_at(150, f"message {number}")
    node.run_until(1000)
    assert node.events[0] == "stood still 100"
    assert node.events[-1] == "expired"
    assert node.events.count("expired") == 1


def test_earliest_deadline_applies_until_it_has_expired() -> None:
    node = TimerHarness()
    node.timer.arm(100)
    node.timer.arm(50)
    node.timer.arm(300)
    node.run_until(200)
    assert node.events == ["expired"]
    node.timer.arm(300)
    node.timer.cancel()
    node.run_until(400)
    assert node.events == ["expired"]


def test_stall_counts_once_when_several_deadlines_passed_in_it() -> None:
    node = TimerHarness()
    node.timer.arm(100)
    node.stand_still_until(200)
    node.run_until(200)
    node.timer.arm(120)
    node.run_until(300)
    assert node.events == ["stood still 100", "expired", "expired"]
