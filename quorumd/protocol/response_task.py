"""Builds and encodes large responses in slices: ten thousand ACLs take 80 milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import islice
from typing import Final

from quorumd.errors import UnsupportedVersion
from quorumd.protocol.connection import Request, encode_response_in_steps
from quorumd.protocol.routes import Session, SlicedTask
from quorumd.protocol.wire import Message

STEPS_PER_UNIT: Final = 2
"""Elements of a response that are built or encoded in the time of one unit of other tasks."""


class ResponseTask:
    """A `SlicedTask` that sends the response that `build` returns, one step per element or less. The session is
    blocked until then (`Session.block`)."""

    def __init__(
        self, session: Session, request: Request[Message], build: Generator[None, None, Message]
    ) -> None:
        self.is_done = False
        self._session = session
        self._request = request
        self._steps = self._build_and_send(build)

    def _build_and_send(self, build: Generator[None, None, Message]) -> Generator[None, None, None]:
        message = yield from build
        session = self._session.extend(message)
        try:
            encoded = yield from encode_response_in_steps(self._request, message)
        except (UnsupportedVersion, ValueError):
            # The session cannot encode it either; it logs the error and closes the connection.
            self.is_done = True
            session.respond(self._request, message)
        else:
            self.is_done = True
            session.respond_encoded(self._request, encoded)

    def cancel(self) -> None:
        """End the task without a response: the client has disconnected."""
        if not self.is_done:
            self.is_done = True
            self._steps.close()

    def advance(self, budget: int) -> int:
        taken = 0
        for _ in islice(self._steps, budget * STEPS_PER_UNIT):
            taken += 1
        return -(-taken // STEPS_PER_UNIT)


def begin_response(
    session: Session,
    request: Request[Message],
    build: Generator[None, None, Message],
    begin: Callable[[SlicedTask], None],
) -> None:
    """Send the response that `build` returns, while later requests of the session wait. `begin` runs a task in
    slices."""
    task = ResponseTask(session, request, build)
    session.block(request, task.cancel)
    begin(task)


def built(response: Message) -> Generator[None, None, Message]:
    """The steps of a response that is built already: none."""
    yield from ()
    return response
