"""The work of an evaluation per slice is bounded, whatever the number of topics and the size of the expressions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorumd.broker.coordinator.regex_evaluator import AUTHORIZATION_UNITS, SIZE_PER_UNIT, regex_task
from quorumd.broker.coordinator.topic_regexes import EvaluatedRegexes, RegexEvaluation
from quorumd.protocol.routes import SlicedTask

NAMES = [f"orders-{number}" for number in range(1_000)]
BUDGET = 400


class Suffix:
    """Stands for an expression of any size; counts the names that it compares."""

    def __init__(self, suffix: str, size: int) -> None:
        self.size = size
        self.compared = 0
        self._suffix = suffix

    def matches(self, text: str) -> bool:
        self.compared += 1
        return text.endswith(self._suffix)


def evaluation(
    regex: Suffix, done: Callable[[EvaluatedRegexes], None], may_describe: Callable[[str], bool]
) -> SlicedTask:
    return regex_task(RegexEvaluation("g", ["pattern"], may_describe), NAMES, 7, lambda pattern: regex, done)


@pytest.mark.parametrize("size", [10, 400, 100_000])
def test_names_per_slice_are_bounded_by_the_size_of_the_expression(size: int) -> None:
    regex = Suffix("-7", size)
    results: list[EvaluatedRegexes] = []
    task = evaluation(regex, results.append, lambda name: True)
    while not task.is_done:
        before = regex.compared
        task.advance(BUDGET)
        assert (regex.compared - before) * size <= max(BUDGET * SIZE_PER_UNIT, size)
    assert results == [EvaluatedRegexes("g", {"pattern": frozenset({"orders-7"})}, 7)]
    assert regex.compared == len(NAMES), "once per name"


def test_authorizations_per_slice_are_bounded() -> None:
    checked: list[str] = []

    def may_describe(name: str) -> bool:
        checked.append(name)
        return False

    results: list[EvaluatedRegexes] = []
    task = evaluation(Suffix("", 1), results.append, may_describe)
    while not task.is_done:
        before = len(checked)
        task.advance(BUDGET)
        assert len(checked) - before <= BUDGET // AUTHORIZATION_UNITS
    assert checked == NAMES
    assert results == [EvaluatedRegexes("g", {"pattern": frozenset()}, 7)]
