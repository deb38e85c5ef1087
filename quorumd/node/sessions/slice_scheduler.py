"""Long work in slices: what one turn of the event loop does of it is bounded, over all works together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol


class SlicedTask(Protocol):
    """Something long that can stop anywhere and go on in a later turn."""

    def advance(self, budget: int) -> int:
        """Do up to `room` units, at least one step. Returns how many units it took."""

    @property
    def is_done(self) -> bool: ...


class SliceScheduler:
    """Works in turns: `slice_size` units per turn of the loop. `soon(callback)` calls back in a later turn."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], None], slice_size: int) -> None:
        self._call_soon = call_soon
        self._slice_size = slice_size
        self._budget = slice_size
        self._waiting: deque[SlicedTask] = deque()
        self._is_scheduled = False

    def begin(self, task: SlicedTask) -> None:
        """Do what this turn has room for, and the rest in later ones."""
        if not self._waiting and self._budget > 0:
            self._advance(task)
        else:
            self._waiting.append(task)
        self._schedule()

    def _next_tick(self) -> None:
        self._is_scheduled = False
        self._budget = self._slice_size
        while self._waiting and self._budget > 0:
            self._advance(self._waiting.popleft())
        self._schedule()

    def _advance(self, task: SlicedTask) -> None:
        self._budget -= max(1, task.advance(self._budget))
        if not task.is_done:
            self._waiting.append(task)

    def _schedule(self) -> None:
        """The room of this turn is used up in part, at the least: the next turn has all of it again."""
        is_due = bool(self._waiting) or self._budget < self._slice_size
        if is_due and not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._next_tick)
