"""Answers about the metadata leave once they are true: never from a node that was replaced, nor of what may never be
committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quorumd.errors import ErrorCode
from quorumd.node.api.error_responses import FORWARDABLE, counted_error_responses
from quorumd.node.sessions.server_session import Session
from quorumd.node.state.proposals import CommitCallback, Proposals
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.connection import Request
from quorumd.protocol.wire import Message

ResponseHook = Callable[[Any], None]
"""May add to an answer that comes from another node."""


class ResponsePurgatory:
    """`confirm_read(outcome)` calls `outcome(True)` when the image is fresh enough to answer a read that came now.
    `forward(session, request, hook)` has the leader answer."""

    def __init__(
        self,
        statistics: NodeStatistics,
        proposals: Proposals,
        confirm_read: Callable[[CommitCallback], None],
        forward: Callable[..., None],
    ) -> None:
        self.confirm_read = confirm_read
        self._error_response = counted_error_responses(statistics)
        self._proposals = proposals
        self._forward = forward

    def on_commit_respond(
        self, session: Session, request: Request[Message], response: Message
    ) -> CommitCallback:
        """Gives the answer once what was written is committed; if that is lost, nobody knows whether it will be."""

        def outcome(committed: bool) -> None:
            if not committed:
                self.refuse(session, request, ErrorCode.NOT_CONTROLLER)
            else:
                session.respond(request, response)

        return outcome

    def respond_after_read(self, session: Session, request: Request[Message], response: Message) -> None:
        """Nothing is to be done, which is as much of a statement about the image as a read is: a leader that was
        replaced and does not know it yet must not make it."""

        def on_read_confirmed(confirmed: bool) -> None:
            if confirmed:
                self.respond_on_commit(session, request, response)
            else:
                self.not_leader(session, request)

        self.confirm_read(on_read_confirmed)

    def respond_on_commit(
        self, session: Session, request: Request[Message], response: Message, hook: ResponseHook | None = None
    ) -> None:
        """What the image holds may be uncommitted: nobody may see that before it is, or if it never will be."""
        self._proposals.on_commit(self._respond_or_redirect(session, request, response, hook))

    def respond_deferred(self, session: Session, request: Request[Message], response: Message) -> None:
        """As `respond_on_commit`, for answers that nobody is in a hurry for and that many wait for: what gathers
        for the next batch goes on gathering."""
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
        """The request had no effect here, so another node may be asked: by whoever finds the leader without help, or
        by this one for it."""
        if session.is_controller_client or request.api_key not in FORWARDABLE:
            session.respond_not_leader(request, self._error_response(request, ErrorCode.NOT_CONTROLLER))
        else:
            self._forward(session, request, hook)

    def refuse(self, session: Session, request: Request[Message], error: ErrorCode) -> None:
        """Tell the error in every place where this request's API has one."""
        session.respond(request, self._error_response(request, error))
