"""Answers about the metadata leave once they are true: never from a node that was replaced, nor of what may never be
committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quorumd.errors import ErrorCode
from quorumd.node.error_answers import MAY_BE_FORWARDED, counting
from quorumd.node.proposals import Outcome, Proposals
from quorumd.node.server_session import Session
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.connection import Request
from quorumd.protocol.wire import Message

AnswerHook = Callable[[Any], None]
"""May add to an answer that comes from another node."""


class CommittedAnswers:
    """`when_confirmed(outcome)` calls `outcome(True)` when the image is fresh enough to answer a read that came now.
    `forward(session, request, hook)` has the leader answer."""

    def __init__(
        self,
        statistics: NodeStatistics,
        proposals: Proposals,
        when_confirmed: Callable[[Outcome], None],
        forward: Callable[..., None],
    ) -> None:
        self.when_confirmed = when_confirmed
        self._error_answer = counting(statistics)
        self._proposals = proposals
        self._forward = forward

    def answering(self, session: Session, request: Request, answer: Message) -> Outcome:
        """Gives the answer once what was written is committed; if that is lost, nobody knows whether it will be."""

        def outcome(committed: bool) -> None:
            if not committed:
                self.refuse(session, request, ErrorCode.NOT_CONTROLLER)
            else:
                session.answer(request, answer)

        return outcome

    def answer_when_confirmed(self, session: Session, request: Request, answer: Message) -> None:
        """Nothing is to be done, which is as much of a statement about the image as a read is: a leader that was
        replaced and does not know it yet must not make it."""

        def fresh(confirmed: bool) -> None:
            if confirmed:
                self.answer_when_settled(session, request, answer)
            else:
                self.not_leader(session, request)

        self.when_confirmed(fresh)

    def answer_when_settled(
        self, session: Session, request: Request, answer: Message, hook: AnswerHook | None = None
    ) -> None:
        """What the image holds may be uncommitted: nobody may see that before it is, or if it never will be."""
        self._proposals.when_settled(self._settled(session, request, answer, hook))

    def answer_in_passing(self, session: Session, request: Request, answer: Message) -> None:
        """As `answer_when_settled`, for answers that nobody is in a hurry for and that many wait for: what gathers
        for the next batch goes on gathering."""
        self._proposals.follow(self._settled(session, request, answer, None))

    def _settled(
        self, session: Session, request: Request, answer: Message, hook: AnswerHook | None
    ) -> Outcome:
        def settled(committed: bool) -> None:
            if committed:
                session.answer(request, answer)
            else:
                self.not_leader(session, request, hook)

        return settled

    def not_leader(self, session: Session, request: Request, hook: AnswerHook | None = None) -> None:
        """The request had no effect here, so another node may be asked: by whoever finds the leader without help, or
        by this one for it."""
        if session.asked_as_controller_client or request.api_key not in MAY_BE_FORWARDED:
            session.answer_not_leader(request, self._error_answer(request, ErrorCode.NOT_CONTROLLER))
        else:
            self._forward(session, request, hook)

    def refuse(self, session: Session, request: Request, error: ErrorCode) -> None:
        """Tell the error in every place where this request's API has one."""
        session.answer(request, self._error_answer(request, error))
