from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from quorumd.node.sessions.slice_scheduler import TASKS_AT_ONCE, SliceScheduler


class Count:
    """Work of a number of units, which logs the turns in which they were done."""

    def __init__(self, units: int, log: list[tuple[str, int]], name: str) -> None:
        self._left = units
        self._log = log
        self._name = name

    @property
    def is_done(self) -> bool:
        return self._left == 0

    def advance(self, budget: int) -> int:
        done = min(budget, self._left)
        self._left -= done
        self._log.append((self._name, done))
        return done


def test_one_slice_per_turn_is_shared_by_all_work_in_rotation() -> None:
    turns: list[Callable[[], None]] = []
    done: list[tuple[str, int]] = []
    sliced = SliceScheduler(turns.append, 4)
    sliced.begin(Count(6, done, "a"))
    sliced.begin(Count(5, done, "b"))
    assert done == [("a", 4)], "one slice per turn over all work"
    per_turn = []
    while turns:
        (turn,) = turns
        turns.clear()
        before = len(done)
        turn()
        per_turn.append(sum(units for _, units in done[before:]))
    assert max(per_turn) <= 4
    assert done == [("a", 4), ("a", 2), ("b", 2), ("b", 3)]


def test_small_work_runs_at_once_within_the_slice_of_its_turn() -> None:
    turns: list[Callable[[], None]] = []
    done: list[tuple[str, int]] = []
    sliced = SliceScheduler(turns.append, 4)
    for name in "abc":
        sliced.begin(Count(2, done, name))
    assert done == [("a", 2), ("b", 2)]
    turns.pop()()
    assert done[2:] == [("c", 2)]


def test_later_work_begins_once_enough_other_work_has_ended() -> None:
    """Unfinished work needs memory: a hundred pages of topics that grew at once took 100 MiB."""
    turns: list[Callable[[], None]] = []
    done: list[tuple[str, int]] = []
    sliced = SliceScheduler(turns.append, 1)
    names = [str(number) for number in range(3 * TASKS_AT_ONCE)]
    for name in names:
        sliced.begin(Count(2, done, name))
    while turns:
        turns.pop()()
    units: Counter[str] = Counter()
    unfinished = []
    for name, taken in done:
        units[name] += taken
        unfinished.append(sum(1 for each in units.values() if each < 2))
    assert list(units) == names
    assert set(units.values()) == {2}
    assert max(unfinished) == TASKS_AT_ONCE
