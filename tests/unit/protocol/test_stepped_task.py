"""The steps of a task are taken within its budget of units."""

from __future__ import annotations

from collections.abc import Generator

from quorumd.protocol.stepped_task import SteppedTask


class Steps:
    """Steps of three units each, which know how many have been taken and whether they were closed."""

    def __init__(self) -> None:
        self.taken = 0
        self.is_closed = False

    def run(self) -> Generator[int, None, str]:
        try:
            while self.taken < 5:
                self.taken += 1
                yield 3
        finally:
            self.is_closed = True
        return "result"


def test_steps_are_taken_until_their_units_exhaust_the_budget() -> None:
    steps, results = Steps(), list[str]()
    task = SteppedTask(steps.run(), results.append)
    assert (task.advance(1), steps.taken) == (3, 1)
    assert (task.advance(7), steps.taken) == (9, 4)
    assert (results, task.is_done) == ([], False)
    assert task.advance(100) == 3
    assert (results, task.is_done) == (["result"], True)
    assert task.advance(100) == 0
    assert results == ["result"]


def test_cancelled_task_closes_its_steps_and_has_no_result() -> None:
    steps, results = Steps(), list[str]()
    task = SteppedTask(steps.run(), results.append)
    task.advance(1)
    task.cancel()
    assert (steps.is_closed, task.is_done, task.advance(100)) == (True, True, 0)
    assert results == []
