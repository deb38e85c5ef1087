"""Large responses that show the image at one moment: their content is taken from it in one step and described in
slices."""

from __future__ import annotations

from collections.abc import Callable, Generator

from quorumd.node.api.context import ApiContext
from quorumd.protocol.connection import Request
from quorumd.protocol.response_task import ResponseTask
from quorumd.protocol.routes import Session
from quorumd.protocol.wire import Message


class SlicedResponses:
    """As `CommittedImage.respond`, for responses that may be large."""

    def __init__(self, context: ApiContext) -> None:
        self._committed_image = context.execution.committed_image
        self._scheduler = context.execution.scheduler

    def respond(
        self,
        session: Session,
        request: Request[Message],
        describe: Callable[[], Generator[None, None, Message]],
    ) -> None:
        """Respond with the content that `describe()` takes from the image, once the content is committed; take it
        again if it may have been rolled back. The session is blocked until the response is sent."""
        task = ResponseTask(session, request, describe())
        session.block(request, task.cancel)

        def on_commit(committed: bool) -> None:
            if committed:
                self._scheduler.begin(task)
            else:
                self.respond(session, request, describe)

        self._committed_image.when_committed(on_commit)
