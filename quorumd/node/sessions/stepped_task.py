"""Runs work in steps before a response is begun, such as sorting the names in a large request."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

T = TypeVar("T")


class SteppedTask(Generic[T]):
    """A `SlicedTask` that takes one step per unit, and then calls `on_done` with the result."""

    def __init__(self, steps: Generator[None, None, T], on_done: Callable[[T], None]) -> None:
        self.is_done = False
        self._steps = steps
        self._on_done = on_done

    def cancel(self) -> None:
        """End the task without a result: the client has disconnected."""
        self.is_done = True
        self._steps.close()

    def advance(self, budget: int) -> int:
        if self.is_done:
            return 0
        for taken in range(budget):
            try:
                next(self._steps)
            except StopIteration as end:
                self.is_done = True
                self._on_done(end.value)
                return taken + 1
        return budget
