"""Large answers are encoded in slices: one of five thousand topics with all their configs takes 150 milliseconds."""

from __future__ import annotations

from quorumd.errors import UnsupportedVersion
from quorumd.node.sessions.server_session import Session
from quorumd.protocol.connection import Request, encode_response_in_steps
from quorumd.protocol.wire import Message

STEPS_PER_UNIT = 8
"""Elements of an answer that take as long to encode as a unit of other sliced work."""


class EncodingTask:
    """Satisfies `SlicedTask`. The session waits for this answer (`Session.block`)."""

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
            # In one piece it cannot be encoded either: the session knows what to do then.
            self.is_done = True
            self._session.respond(self._request, self._message)
        return budget
