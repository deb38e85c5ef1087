"""Large requests are decoded in slices: ten thousand partitions take a tenth of a second."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.protocol.connection import Request

STEPS_A_UNIT = 4
"""Elements of a request that take as long to decode as a unit of other sliced work."""


class SlicedDecoding:
    """Satisfies `sliced_work.Work`. `decode_on` is that of the request or of its connection; `done()` is called once
    the request is whole, or cannot be."""

    def __init__(
        self, request: Request, decode_on: Callable[[Request, int], int], done: Callable[[], None]
    ) -> None:
        self._request = request
        self._decode_on = decode_on
        self._done = done

    @property
    def is_done(self) -> bool:
        return self._request.is_whole

    def advance(self, room: int) -> int:
        taken = self._decode_on(self._request, room * STEPS_A_UNIT)
        if self._request.is_whole:
            self._done()
        return taken // STEPS_A_UNIT
