"""Decodes large requests in slices: ten thousand partitions take a tenth of a second."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.protocol.connection import Request
from quorumd.protocol.wire import Message

STEPS_PER_UNIT = 4
"""Elements of a request whose decoding takes as long as one unit of other tasks."""


class DecodingTask:
    """A `SlicedTask` that decodes one request.

    `continue_decoding(request, steps)` decodes up to `steps` elements and returns their number. `on_done()` is called
    once the request is decoded or rejected.
    """

    def __init__(
        self,
        request: Request[Message],
        continue_decoding: Callable[[Request[Message], int], int],
        on_done: Callable[[], None],
    ) -> None:
        self._request = request
        self._continue_decoding = continue_decoding
        self._on_done = on_done

    @property
    def is_done(self) -> bool:
        return self._request.is_whole

    def cancel(self) -> None:
        """End the task: the client has disconnected."""
        self._request.decoding = None

    def advance(self, budget: int) -> int:
        if self.is_done:
            return 0
        steps = self._continue_decoding(self._request, budget * STEPS_PER_UNIT)
        if self._request.is_whole:
            self._on_done()
        return steps // STEPS_PER_UNIT
