"""Whether a history of concurrent calls can be put in one order (Herlihy and Wing; search by Wing and Gong).

An operation takes effect at one moment between its call and its return. A call that never returned may have
taken effect at any moment after it, or never. The search takes, again and again, one of the operations that
no remaining one finished before, and remembers which (taken, state) were tried in vain (Lowe's memo).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeVar

State = TypeVar("State", bound=Hashable)


@dataclass(slots=True)
class Operation:
    """One call of a client. `returned_ms` is inf while the outcome is not known.

    For a register: a write's `value` is what it sets, a read's what it saw; None is a register never set.
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
    """A register: whether the operation is possible in this state, and the state after it."""
    if operation.kind == "write":
        return True, operation.value
    return state == operation.value, state


def linearize(
    history: Sequence[Operation],
    initial: State,
    apply: Callable[[State, Operation], tuple[bool, State]],
) -> list[Operation] | None:
    """An order that explains the history, or None if there is none. `apply` is the sequential model."""
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
    """The lowest bit that is not set."""
    return (~done & (done + 1)).bit_length() - 1


def check_register(history: Sequence[Operation], initial: str | None = None) -> bool:
    """Whether the operations of one key, with all written values different, are those of a register.

    Calls of unknown outcome are settled first where they can be, so that they do not blow up the search: a
    write that nobody saw is as good as one that comes last, one that was seen took effect before that read
    returned.
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
    """The shortest beginning of a history that no order explains, None if there is one for all.

    Operations that return after its end are in it as calls of unknown outcome.
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
