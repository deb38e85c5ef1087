"""Holds responses that depend on uncommitted metadata until it is committed; if this node loses leadership first, the
client gets an error or its request is forwarded."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.errors import ErrorCode
from quorumd.node.api.error_responses import ENVELOPE_APIS, counted_error_responses
from quorumd.node.api.forwarding import ResponseHook
from quorumd.node.state.proposals import CommitCallback, Proposals
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.connection import Request
from quorumd.protocol.routes import Session
from quorumd.protocol.wire import Message


class ResponsePurgatory:
    """Sends responses once their content is committed, and redirects requests if this node does not lead.

    `confirm_read(callback)` calls `callback(True)` once a linearizable read that arrives now may use the image.
    `forward(session, request, hook)` sends the request to the leader.
    """

    def __init__(
        self,
        statistics: NodeStatistics,
        proposals: Proposals,
        confirm_read: Callable[[CommitCallback], None],
        forward: Callable[[Session, Request[Message], ResponseHook | None], None],
    ) -> None:
        self.confirm_read = confirm_read
        self.error_response = counted_error_responses(statistics)
        """Builds the response with an error in every error field of the request's API."""
        self._proposals = proposals
        self._forward = forward

    def on_commit_respond(
        self, session: Session, request: Request[Message], response: Message
    ) -> CommitCallback:
        """Return a callback that responds once the records are committed, and with an error if their outcome is
        unknown."""

        def on_commit(committed: bool) -> None:
            if not committed:
                self.refuse(session, request, ErrorCode.NOT_CONTROLLER)
            else:
                session.respond(request, response)

        return on_commit

    def respond_after_read(self, session: Session, request: Request[Message], response: Message) -> None:
        """Respond to a request without effect as to a read: the response depends on the image, which may be stale on
        a deposed leader."""

        def on_read_confirmed(confirmed: bool) -> None:
            if confirmed:
                self.respond_on_commit(session, request, response)
            else:
                self.not_leader(session, request)

        self.confirm_read(on_read_confirmed)

    def respond_on_commit(
        self, session: Session, request: Request[Message], response: Message, hook: ResponseHook | None = None
    ) -> None:
        """Respond once the current content of the image is committed."""
        self._proposals.on_commit(self._respond_or_redirect(session, request, response, hook))

    def respond_deferred(self, session: Session, request: Request[Message], response: Message) -> None:
        """As `respond_on_commit`, for frequent responses that are not urgent: does not append the pending batch."""
        self._proposals.on_commit_deferred(self._respond_or_redirect(session, request, response, None))

    def _respond_or_redirect(
        self, session: Session, request: Request[Message], response: Message, hook: ResponseHook | None
    ) -> CommitCallback:
        def on_commit(committed: bool) -> None:
            if committed:
                session.respond(request, response)
            else:
                self.not_leader(session, request, hook)

        return on_commit

    def not_leader(
        self, session: Session, request: Request[Message], hook: ResponseHook | None = None
    ) -> None:
        """Redirect a request that had no effect: clients that find the leader themselves get an error, requests of
        other clients are forwarded."""
        if not is_forwarded(session, request):
            session.respond_not_leader(request, self.error_response(request, ErrorCode.NOT_CONTROLLER))
        else:
            self._forward(session, request, hook)

    def refuse(self, session: Session, request: Request[Message], error: ErrorCode) -> None:
        """Respond with the error in every error field of the request's API."""
        session.respond(request, self.error_response(request, error))


def is_forwarded(session: Session, request: Request[Message]) -> bool:
    """Whether a node that does not lead forwards the request. Other clients find the leader themselves."""
    return not session.origin.is_controller_client and request.api_key in ENVELOPE_APIS
