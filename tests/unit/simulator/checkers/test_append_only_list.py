"""The checker of append-only lists accepts valid histories and reports every kind of error."""

from __future__ import annotations

from itertools import permutations
from math import inf
from random import Random

import pytest

from quorumd.simulator.checkers.append_only_list import check_append_only_list
from quorumd.simulator.checkers.linearizability import Operation


def append(value: str, called: float, returned: float = inf) -> Operation:
    return Operation(1, "append", "list", value, called, returned)


def read(values: str, called: float, returned: float = inf) -> Operation:
    return Operation(2, "read", "list", tuple(values), called, returned)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [read("", 0, 1)],
        [append("a", 0, 1), append("b", 2, 3), read("ab", 4, 5)],
        [append("a", 0, 10), append("b", 0, 10), read("b", 5, 6), read("ba", 11, 12)],
        [append("a", 0), read("", 5, 6), read("a", 7, 8)],
        [append("a", 0), read("", 100, 101)],
        [append("a", 0), append("b", 1, 2), read("b", 3, 4), read("ba", 50, 51)],
        [append("a", 0, 1), read("a", 2, 3), append("b", 4, 5), append("c", 4, 5)],
        [append("a", 0, 10), read("a", 1, 2)],
        [append("a", 0, 1), read("", 0.5, 2)],
    ],
)
def test_possible(history: list[Operation]) -> None:
    assert check_append_only_list(history)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([append("a", 0, 1), read("", 2, 3)], id="an acknowledged append is not seen"),
        pytest.param(
            [append("a", 0, 1), append("b", 2, 3), read("b", 4, 5)], id="an acknowledged append is lost"
        ),
        pytest.param(
            [append("a", 0, 1), append("b", 2, 3), read("ba", 4, 5)],
            id="appended in another order than asked",
        ),
        pytest.param(
            [append("a", 0), append("b", 0), read("ab", 1, 2), read("ba", 3, 4)], id="two orders were seen"
        ),
        pytest.param([append("a", 0), read("a", 1, 2), read("", 3, 4)], id="a value went away again"),
        pytest.param([append("a", 0, 1), read("aa", 2, 3)], id="appended twice"),
        pytest.param([read("a", 2, 3)], id="a value that nobody appended"),
        pytest.param([read("a", 0, 1), append("a", 2, 3)], id="seen before it was appended"),
        pytest.param(
            [append("a", 0, 1), append("b", 2, 3), read("a", 4, 5), read("ab", 6, 7)], id="a stale read"
        ),
        pytest.param(
            [append("a", 0), append("b", 5, 6), read("ba", 7, 8), read("b", 9, 10)],
            id="an open append was seen and went away",
        ),
    ],
)
def test_impossible(history: list[Operation]) -> None:
    assert not check_append_only_list(history)


def by_trial(history: list[Operation]) -> bool:
    """Try all orders, with every open call also omitted: the definition, for short histories."""
    open_calls = [each for each in history if each.returned_ms == inf]
    for chosen in range(1 << len(open_calls)):
        dropped = [each for at, each in enumerate(open_calls) if not chosen >> at & 1]
        tried = [each for each in history if each not in dropped]
        for order in permutations(tried):
            values: list[str] = []
            latest_call = -inf
            for each in order:
                latest_call = max(latest_call, each.called_ms)
                if each.returned_ms < latest_call:
                    break
                if each.kind == "append":
                    values.append(each.value)
                elif each.value != tuple(values):
                    break
            else:
                return True
    return False


def test_agrees_with_trying_every_order() -> None:
    random = Random(7)
    verdicts = {True: 0, False: 0}
    for _ in range(1500):
        history = []
        for number in range(random.randint(2, 5)):
            called = random.randint(0, 12)
            returned = inf if random.random() < 0.2 else called + random.randint(1, 8)
            if random.random() < 0.55:
                history.append(append("abcde"[number], called, returned))
            elif returned != inf:
                seen = random.sample("abcde", random.randint(0, 2))
                history.append(read("".join(seen), called, returned))
        expected = by_trial(history)
        verdicts[expected] += 1
        assert check_append_only_list(history) == expected, history
    assert min(verdicts.values()) > 200, verdicts


def test_many_concurrent_appends_are_checked_quickly() -> None:
    values = [f"v{number}" for number in range(400)]
    history = [append(value, number, number + 40) for number, value in enumerate(values)]
    history += [
        Operation(2, "read", "list", tuple(values[: number + 1]), number + 1, number + 39)
        for number in range(0, 400, 9)
    ]
    assert check_append_only_list(history)
    last = Operation(2, "read", "list", tuple(values[:300]), 1000, 1001)
    assert not check_append_only_list([*history, last])
