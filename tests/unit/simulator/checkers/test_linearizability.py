"""The linearizability check, on histories with known results, and compared with a naive search."""

from itertools import permutations
from math import inf
from random import Random

import pytest

from quorumd.simulator.checkers.linearizability import (
    Operation,
    check_register,
    first_contradiction,
    register,
)


def write(value: str, called: float, returned: float = inf) -> Operation:
    return Operation(0, "write", "k", value, called, returned)


def read(value: str | None, called: float, returned: float) -> Operation:
    return Operation(1, "read", "k", value, called, returned)


GOOD = {
    "nothing happened": [],
    "a register that was never set": [read(None, 0, 1)],
    "a read after a write": [write("a", 0, 1), read("a", 2, 3)],
    "a read during a write sees it or not": [write("a", 0, 10), read(None, 1, 2), read("a", 3, 4)],
    "two concurrent writes in either order": [write("a", 0, 10), write("b", 1, 9), read("a", 11, 12)],
    "a write without an answer may happen late": [write("a", 0), read(None, 1, 2), read("a", 9, 10)],
    "a write without an answer may never happen": [write("a", 0), read(None, 1, 2), read(None, 9, 10)],
    "a late write comes between": [write("a", 0), write("b", 1, 2), read("b", 3, 4), read("a", 5, 6)],
    "a read without an answer tells nothing": [write("a", 0, 1), read("z", 2, inf)],
}

BAD = {
    "a stale read": [write("a", 0, 1), write("b", 2, 3), read("a", 4, 5)],
    "a lost write": [write("a", 0, 1), read(None, 2, 3)],
    "a value from nowhere": [write("a", 0, 1), read("z", 2, 3)],
    "a value from the future": [read("a", 0, 1), write("a", 2, 3)],
    "a value that comes and goes": [write("a", 0, 10), read("a", 1, 2), read(None, 3, 4)],
    "two readers disagree on the order": [
        write("a", 0, 10),
        write("b", 0, 10),
        read("a", 11, 12),
        read("b", 13, 14),
    ],
    "a late write that comes twice": [
        write("a", 0),
        write("b", 1, 2),
        read("a", 3, 4),
        read("b", 5, 6),
        read("a", 7, 8),
    ],
}


@pytest.mark.parametrize("name", GOOD)
def test_accepts(name: str) -> None:
    assert check_register(GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_refuses(name: str) -> None:
    assert not check_register(BAD[name])


def naive(history: list[Operation]) -> bool:
    """Try every order of every subset with all returned operations."""
    returned = [operation for operation in history if operation.returned_ms != inf]
    pending = [
        operation for operation in history if operation.returned_ms == inf and operation.kind == "write"
    ]
    for chosen in range(1 << len(pending)):
        operations = returned + [one for at, one in enumerate(pending) if chosen >> at & 1]
        for order in permutations(operations):
            if explains(order):
                return True
    return False


def explains(order: tuple[Operation, ...]) -> bool:
    state = None
    for at, operation in enumerate(order):
        if any(later.returned_ms < operation.called_ms for later in order[at + 1 :]):
            return False
        possible, state = register(state, operation)
        if not possible:
            return False
    return True


def test_agrees_with_exhaustive_search_on_random_histories() -> None:
    verdicts = {True: 0, False: 0}
    for seed in range(1500):
        random = Random(seed)
        history = []
        for number in range(random.randrange(1, 7)):
            called = random.randrange(12)
            returned = called + random.randrange(1, 6)
            if random.random() < 0.5:
                history.append(write(f"v{number}", called, inf if random.random() < 0.3 else returned))
            else:
                history.append(read(random.choice([None, "v0", "v1", "v2", "v3"]), called, returned))
        verdict = check_register(history)
        assert verdict == naive(history), [str(operation) for operation in history]
        verdicts[verdict] += 1
    assert min(verdicts.values()) > 200, "the histories were good for nothing"


def test_long_history_with_many_open_writes_is_checked_quickly() -> None:
    history: list[Operation] = []
    for at in range(400):
        history.append(write(f"open{at}", at, inf))
        history.append(write(f"done{at}", at, at + 0.5))
        history.append(read(f"done{at}", at + 0.6, at + 0.7))
    assert check_register(history)
    assert not check_register([*history, read("done7", 500, 501)])


def test_first_contradiction_is_the_shortest_beginning_that_no_order_explains() -> None:
    history = [
        write("a", 0, 1),
        write("b", 2, 3),
        read("b", 4, 5),
        read("a", 6, 7),
        write("c", 6.5, 20),
        read("c", 21, 22),
        read("a", 23, 24),
    ]
    found = first_contradiction(history)
    assert found == [*history[:4], write("c", 6.5)]
    assert first_contradiction(history[:3]) is None
