"""Operations run in order on the flush thread, or on the event thread while the disk is fast."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import current_thread
from typing import Any

import pytest

from quorumd.runtime import disk_operations
from quorumd.runtime.disk_operations import AVERAGED_OPERATIONS, FAST_OPERATION_S, DiskOperations

PATIENCE_S = 300.0


class Machine:
    """An event thread that a test drives, and a disk whose operations take a given time."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._from_thread: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._soon: list[Callable[[], None]] = []
        self.now_s = 0.0
        patch.setattr(disk_operations, "perf_counter", lambda: self.now_s)
        self.operations = DiskOperations(self._from_thread.put, self._soon.append)
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
            self._from_thread.get(timeout=PATIENCE_S)()
        return self.ran_on[-1]

    def turn(self) -> None:
        callbacks, self._soon[:] = list(self._soon), []
        for callback in callbacks:
            callback()

    def warm_up(self) -> None:
        for _ in range(10 * AVERAGED_OPERATIONS):
            if self.do() != "flush":
                return
        pytest.fail("fast operations stay on the flush thread")

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
    assert machine.do() == current_thread().name
    assert machine.do(FAST_OPERATION_S / 2) == current_thread().name
    machine.operations.close()


def test_first_operations_run_on_the_flush_thread(machine: Machine) -> None:
    assert {machine.do() for _ in range(AVERAGED_OPERATIONS // 2)} == {"flush"}
    machine.operations.close()


def test_few_slow_operations_do_not_move_the_others(machine: Machine) -> None:
    machine.warm_up()
    for number in range(20 * AVERAGED_OPERATIONS):
        is_slow = number % 32 == 31
        assert machine.do(5 * FAST_OPERATION_S if is_slow else 0.0) == current_thread().name
    machine.operations.close()


def test_few_slow_operations_do_not_keep_the_others_on_the_flush_thread(machine: Machine) -> None:
    ran_on = [
        machine.do(5 * FAST_OPERATION_S if number % 32 == 31 else 0.0)
        for number in range(4 * AVERAGED_OPERATIONS)
    ]
    assert ran_on[-1] == current_thread().name
    machine.operations.close()


def test_one_very_slow_operation_sends_the_next_to_the_flush_thread(machine: Machine) -> None:
    machine.warm_up()
    assert machine.do(2 * AVERAGED_OPERATIONS * FAST_OPERATION_S) == current_thread().name
    assert machine.do() == "flush"
    machine.warm_up()
    machine.operations.close()


def test_disk_that_becomes_slow_is_left_to_the_flush_thread(machine: Machine) -> None:
    machine.warm_up()
    ran_on = [machine.do(2 * FAST_OPERATION_S) for _ in range(4 * AVERAGED_OPERATIONS)]
    assert ran_on[-1] == "flush"
    machine.operations.close()


def test_slow_disk_is_never_waited_for(machine: Machine) -> None:
    assert {machine.do(FAST_OPERATION_S * 2) for _ in range(AVERAGED_OPERATIONS * 2)} == {"flush"}
    machine.operations.close()


def test_begins_after_submit_has_returned_and_keeps_the_order(machine: Machine) -> None:
    machine.warm_up()
    del machine.results[:]
    machine.submit(FAST_OPERATION_S * 2, result=1)
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
