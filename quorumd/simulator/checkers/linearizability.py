"""Linearizability of histories of concurrent calls (Herlihy and Wing; search by Wing and Gong).

An operation takes effect at one instant between its call and its return. A call that never returned may take effect
at any later instant, or never. Each step of the search takes an operation that no remaining operation precedes;
failed (taken, state) pairs are memoized (Lowe).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeVar

State = TypeVar("State", bound=Hashable)


@dataclass(slots=True)
class Operation:
    """One call of a client. `returned_ms` is inf while the outcome is unknown.

    For a register, `value` is the value written or read; None if the register was never set.
    """

    client: int
    kind: str
    key: str
    value: Any
    called_ms: float
    returned_ms: float = inf

    def __str__(self) -> str:
        returned = "never returned" if self.returned_ms == inf else f"{self.returned_ms:.1f} ms"
        what = f"client {self.client} {self.kind} {self.key}={self.value!r}"
        return f"{what} [{self.called_ms:.1f} ms, {returned}]"


def register(state: str | None, operation: Operation) -> tuple[bool, str | None]:
    """Sequential model of a register: whether the operation is possible in this state, and the next state."""
    if operation.kind == "write":
        return True, operation.value
    return state == operation.value, state


def linearize(
    history: Sequence[Operation],
    initial: State,
    apply: Callable[[State, Operation], tuple[bool, State]],
) -> list[Operation] | None:
    """Return an order that explains the history, None if there is none. `apply` is the sequential model."""
    operations = sorted(history, key=lambda operation: (operation.called_ms, operation.returned_ms))
    count = len(operations)
    must_return = sum(1 << at for at, operation in enumerate(operations) if operation.returned_ms != inf)
    tried: set[tuple[int, State]] = set()
    path: list[tuple[int, State]] = []
    state, done, at = initial, 0, 0
    while done & must_return != must_return:
        deadline = inf
        chosen = -1
        for index in range(_first_open(done), count):
            operation = operations[index]
            if done >> index & 1:
                continue
            if operation.called_ms > deadline:
                break
            deadline = min(deadline, operation.returned_ms)
            if index >= at:
                possible, after = apply(state, operation)
                if possible and (done | 1 << index, after) not in tried:
                    chosen = index
                    break
        if chosen >= 0:
            path.append((chosen, state))
            done, state, at = done | 1 << chosen, after, 0
            tried.add((done, state))
            continue
        if not path:
            return None
        index, state = path.pop()
        done, at = done & ~(1 << index), index + 1
    return [operations[index] for index, _ in path]


def _first_open(done: int) -> int:
    """Return the index of the lowest bit that is not set."""
    return (~done & (done + 1)).bit_length() - 1


def check_register(history: Sequence[Operation], initial: str | None = None) -> bool:
    """Return whether the operations on one key linearize as a register. All written values must differ.

    Calls of unknown outcome are resolved first where possible, to bound the search: an unobserved write is equivalent
    to one that comes last, an observed one took effect before that read returned.
    """
    seen: dict[Any, float] = {}
    for operation in history:
        if operation.kind == "read" and operation.returned_ms != inf:
            seen[operation.value] = min(seen.get(operation.value, inf), operation.returned_ms)
    settled = []
    for operation in history:
        if operation.returned_ms != inf:
            settled.append(operation)
        elif operation.kind == "write" and operation.value in seen:
            settled.append(
                Operation(operation.client, "write", operation.key, operation.value, operation.called_ms,
                          seen[operation.value])
            )  # fmt: skip
    return linearize(settled, initial, register) is not None


def first_contradiction(
    history: Sequence[Operation], check: Callable[[Sequence[Operation]], bool] = check_register
) -> list[Operation] | None:
    """Return the shortest prefix of a history that no order explains, None if the whole history has an order.

    Operations that return after the prefix ends are in it as calls of unknown outcome.
    """
    if check(history):
        return None
    ends = sorted(operation.returned_ms for operation in history if operation.returned_ms != inf)
    good, bad = -1, len(ends) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if check(_until(history, ends[middle])):
            good = middle
        else:
            bad = middle
    return _until(history, ends[bad])


def _until(history: Sequence[Operation], end_ms: float) -> list[Operation]:
    return [
        operation if operation.returned_ms <= end_ms else replace(operation, returned_ms=inf)
        for operation in history
        if operation.called_ms <= end_ms
    ]
