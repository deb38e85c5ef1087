"""Encodes large responses in slices: five thousand topics with all their configs take 150 milliseconds."""

from __future__ import annotations

from quorumd.errors import UnsupportedVersion
from quorumd.protocol.connection import Request, encode_response_in_steps
from quorumd.protocol.routes import Session
from quorumd.protocol.wire import Message

STEPS_PER_UNIT = 8
"""Elements of a response whose encoding takes as long as one unit of other tasks."""


class EncodingTask:
    """A `SlicedTask` that encodes one response. The session is blocked until it is sent (`Session.block`)."""

    def __init__(self, session: Session, request: Request[Message], message: Message) -> None:
        self.is_done = False
        self._session = session
        self._request = request
        self._message = message
        self._steps = encode_response_in_steps(request, message)

    def advance(self, budget: int) -> int:
        steps = self._steps
        try:
            for _ in range(budget * STEPS_PER_UNIT):
                next(steps)
        except StopIteration as end:
            self.is_done = True
            self._session.respond_encoded(self._request, end.value)
        except (UnsupportedVersion, ValueError):
            # The session fails to encode it too, reports that and closes.
            self.is_done = True
            self._session.respond(self._request, self._message)
        return budget
