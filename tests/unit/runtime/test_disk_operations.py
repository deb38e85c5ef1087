"""Operations run in order on the flush thread, or on the event thread while the disk is fast."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import current_thread
from typing import Any

import pytest

from quorumd.runtime import disk_operations
from quorumd.runtime.disk_operations import FAST_OPERATION_S, FAST_STREAK, DiskOperations

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
        for _ in range(FAST_STREAK):
            assert self.do() == "flush"

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


def test_one_slow_operation_sends_the_next_to_the_flush_thread(machine: Machine) -> None:
    machine.warm_up()
    assert machine.do(FAST_OPERATION_S * 2) == current_thread().name
    machine.warm_up()
    assert machine.do() == current_thread().name
    machine.operations.close()


def test_slow_disk_is_never_waited_for(machine: Machine) -> None:
    assert {machine.do(FAST_OPERATION_S * 2) for _ in range(FAST_STREAK * 2)} == {"flush"}
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
