"""An event loop whose time does not run while the machine stands still: for tests with short timeouts."""

from __future__ import annotations

import asyncio
from typing import Any

TURN_S = 0.0001
"""What passes with every turn of the loop, however long it took."""
GRACE_S = 0.02
"""How long nothing may have happened, really, before the loop takes its next timer for due."""


def be_patient(loop: asyncio.AbstractEventLoop) -> None:
    """From now on time passes for `loop`, one of asyncio's own, with its turns and while it has nothing to do.

    A response from within the same loop is in time then, and a missing one times out immediately.
    """
    selector: Any = loop._selector  # type: ignore[attr-defined]  # there is no other way to its waiting
    really_select = selector.select
    now = loop.time()

    def select(timeout: float | None = None) -> Any:
        nonlocal now
        now += TURN_S
        events = really_select(timeout if timeout is None else min(timeout, GRACE_S))
        if not events and timeout:
            now += timeout
        return events

    selector.select = select
    loop.time = lambda: now  # type: ignore[method-assign]  # of this one loop
