"""Runs long tasks in slices: bounds the work of all tasks together per iteration of the event loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from quorumd.node.payers import CurrentPayer, Payer
from quorumd.protocol.routes import SlicedTask

TASKS_AT_ONCE: Final = 8
"""Tasks that take turns, while later ones wait for the end of one. A page of 2,000 partitions needs a megabyte until
it is encoded, so that clients could make a node need as many megabytes as they have connections."""


class SliceScheduler:
    """Runs tasks in turns, `slice_size` units per iteration. `call_soon` calls back in a later iteration. The request
    that is being handled when a task begins pays for all of its slices."""

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], None],
        slice_size: int,
        paying: CurrentPayer | None = None,
    ) -> None:
        self._call_soon = call_soon
        self.slice_size = slice_size
        self._budget = slice_size
        self._paying = CurrentPayer() if paying is None else paying
        self._waiting: deque[tuple[SlicedTask, Payer | None]] = deque()
        """The tasks that take turns, then those that have not begun."""
        self._is_scheduled = False

    def begin(self, task: SlicedTask) -> None:
        """Run the task within the budget of this iteration, and the remainder in later iterations."""
        if not self._waiting and self._budget > 0:
            self._advance(task, self._paying.payer)
        else:
            self._waiting.append((task, self._paying.payer))
        self._schedule()

    def _next_iteration(self) -> None:
        self._is_scheduled = False
        self._budget = self.slice_size
        while self._waiting and self._budget > 0:
            task, payer = self._waiting.popleft()
            self._advance(task, payer)
        self._schedule()

    def _advance(self, task: SlicedTask, payer: Payer | None) -> None:
        self._budget -= max(1, self._paid(task, payer))
        if not task.is_done:
            self._waiting.insert(TASKS_AT_ONCE - 1, (task, payer))

    def _paid(self, task: SlicedTask, payer: Payer | None) -> int:
        """Advance a task, for the request that began it."""
        paying = self._paying
        if payer is None or payer is paying.payer:
            return task.advance(self._budget)
        paying.payer = payer
        payer.resume()
        try:
            return task.advance(self._budget)
        finally:
            payer.pause()
            paying.payer = None

    def _schedule(self) -> None:
        """Schedule the next iteration if tasks wait or the budget is partly used and must be renewed."""
        is_due = bool(self._waiting) or self._budget < self.slice_size
        if is_due and not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._next_iteration)
