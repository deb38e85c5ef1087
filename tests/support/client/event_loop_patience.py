"""An event loop whose time does not advance while the machine stalls, for tests with short timeouts."""

from __future__ import annotations

import asyncio
from typing import Any

TURN_S = 0.0001
"""Time by which the clock advances with every iteration of the loop, however long the iteration took."""
GRACE_S = 0.02
"""Real time without any event after which the clock advances to the next timer."""


def be_patient(loop: asyncio.AbstractEventLoop) -> None:
    """Let the clock of `loop`, one of asyncio's own, advance only with its iterations and while it is idle.

    A response from within the same loop then always arrives in time, and a missing response times out immediately.
    """
    selector: Any = loop._selector  # type: ignore[attr-defined]  # there is no public access to its selector
    select_in_real_time = selector.select
    now = loop.time()

    def select(timeout: float | None = None) -> Any:
        nonlocal now
        now += TURN_S
        events = select_in_real_time(timeout if timeout is None else min(timeout, GRACE_S))
        if not events and timeout:
            now += timeout
        return events

    selector.select = select
    loop.time = lambda: now  # type: ignore[method-assign]  # only of this loop
