"""Operations run in order on the flush thread, or on the event thread while the disk is fast on average."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import current_thread
from typing import Any

import pytest

from quorumd.runtime import disk_operations
from quorumd.runtime.disk_operations import (
    FAST_MEAN_S,
    LATE_S,
    LATE_SWITCH_S,
    SWITCH_S,
    DiskOperations,
)

PATIENCE_S = 300.0


class Machine:
    """An event thread that a test drives, and a disk whose operations take a given time."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._from_thread: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._soon: list[Callable[[], None]] = []
        self.now_s = 0.0
        patch.setattr(disk_operations, "perf_counter", lambda: self.now_s)
        self.switch_s = SWITCH_S
        patch.setattr(disk_operations, "setswitchinterval", self._set_switch)
        self.checks: list[Callable[[], None]] = []
        self.operations = DiskOperations(self._from_thread.put, self._soon.append, self._later)
        self.ran_on: list[str] = []
        self.results: list[Any] = []

    def submit(self, takes_s: float = 0.0, result: object = None) -> None:
        self.operations.submit(lambda: self._operation(takes_s, result), self.results.append)

    def do(self, takes_s: float = 0.0) -> str:
        """Run one operation to its end; returns the name of its thread."""
        expected = len(self.results) + 1
        self.submit(takes_s)
        if self._soon:
            self.turn()
        while len(self.results) < expected:
            self.end()
        return self.ran_on[-1]

    def end(self) -> None:
        """Run the callback of an operation that the flush thread has completed."""
        self._from_thread.get(timeout=PATIENCE_S)()

    def _set_switch(self, seconds: float) -> None:
        self.switch_s = seconds

    def _later(self, seconds: float, callback: Callable[[], None]) -> None:
        assert seconds == LATE_S
        self.checks.append(callback)

    def check(self) -> None:
        """Let LATE_S pass."""
        (due,) = self.checks
        self.checks.clear()
        due()

    def turn(self) -> None:
        callbacks, self._soon[:] = list(self._soon), []
        for callback in callbacks:
            callback()

    def warm_up(self) -> None:
        """Run fast operations until they run on the event thread."""
        operations = 1
        while self.do() == "flush":
            operations += 1
        assert 32 < operations < 64

    def _operation(self, takes_s: float, result: object) -> object:
        self.ran_on.append(current_thread().name)
        self.now_s += takes_s
        if isinstance(result, BaseException):
            raise result
        return result


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_fast_disk_runs_on_the_event_thread(machine: Machine) -> None:
    machine.warm_up()
    assert {machine.do(FAST_MEAN_S * 0.9) for _ in range(1000)} == {current_thread().name}
    machine.operations.close()


def test_rare_slow_operations_stay_on_the_event_thread(machine: Machine) -> None:
    machine.warm_up()
    durations = [FAST_MEAN_S * 0.3] * 39 + [FAST_MEAN_S * 4]
    assert {machine.do(each) for each in durations * 10} == {current_thread().name}
    machine.operations.close()


@pytest.mark.parametrize("durations", [[FAST_MEAN_S * 2], [0, FAST_MEAN_S * 4], [0, 0, 0, FAST_MEAN_S * 8]])
def test_disk_that_becomes_slow_on_average_gets_the_flush_thread(
    machine: Machine, durations: list[float]
) -> None:
    machine.warm_up()
    ran_on = [machine.do(each) for each in durations * 32]
    assert ran_on[0] == current_thread().name
    assert set(ran_on[-16:]) == {"flush"}
    machine.operations.close()


def test_one_stall_sends_the_next_operations_to_the_flush_thread(machine: Machine) -> None:
    machine.warm_up()
    assert machine.do(FAST_MEAN_S * 40) == current_thread().name
    assert {machine.do() for _ in range(16)} == {"flush"}
    assert {machine.do() for _ in range(64)} == {"flush", current_thread().name}
    machine.operations.close()


def test_slow_disk_is_never_waited_for(machine: Machine) -> None:
    assert {machine.do(FAST_MEAN_S * 1.1) for _ in range(1000)} == {"flush"}
    machine.operations.close()


def test_flush_thread_gets_the_gil_sooner_only_while_an_operation_is_late(machine: Machine) -> None:
    assert machine.do() == "flush"
    machine.submit()
    machine.check()
    assert machine.switch_s == SWITCH_S
    machine.check()
    assert machine.switch_s == LATE_SWITCH_S
    machine.end()
    assert machine.switch_s == SWITCH_S
    machine.check()
    assert machine.checks == []
    machine.submit()
    machine.check()
    assert machine.switch_s == LATE_SWITCH_S
    machine.end()
    machine.operations.close()


def test_begins_after_submit_has_returned_and_keeps_the_order(machine: Machine) -> None:
    machine.warm_up()
    del machine.results[:]
    machine.submit(FAST_MEAN_S * 40, result=1)
    machine.submit(result=2)
    assert machine.results == []
    machine.turn()
    assert machine.results == [1, 2]
    machine.operations.close()


def test_raised_exception_is_the_result(machine: Machine) -> None:
    machine.warm_up()
    failure = OSError(5, "Input/output error")
    machine.submit(result=failure)
    machine.turn()
    assert machine.results[-1] is failure
    machine.operations.close()


def test_close_runs_pending_operations(machine: Machine) -> None:
    machine.warm_up()
    machine.submit(result="done")
    machine.operations.close()
    assert machine.results[-1] == "done"
    machine.turn()
    assert machine.results.count("done") == 1
