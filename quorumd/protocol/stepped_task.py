"""Runs the steps of a generator in slices: sorting the names in a large request, matching regular expressions."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

T = TypeVar("T")


class SteppedTask(Generic[T]):
    """A `SlicedTask` whose steps yield their units of work; it calls `on_done` with the result of the steps."""

    def __init__(self, steps: Generator[int, None, T], on_done: Callable[[T], None]) -> None:
        self.is_done = False
        self._steps = steps
        self._on_done = on_done

    def cancel(self) -> None:
        """End the task without a result: the client has disconnected."""
        self.is_done = True
        self._steps.close()

    def advance(self, budget: int) -> int:
        """See `SlicedTask`."""
        units = 0
        while units < budget and not self.is_done:
            try:
                units += next(self._steps)
            except StopIteration as end:
                self.is_done = True
                self._on_done(end.value)
        return units
