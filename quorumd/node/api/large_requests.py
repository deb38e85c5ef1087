"""Executes large requests to the controller in parts, one per iteration of the event loop (see
`request_splitting`)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from itertools import repeat
from typing import Final, TypeVar, cast

from quorumd.controller.controller import Controller
from quorumd.controller.preparation import Preparation
from quorumd.controller.request_context import WHOLE_REQUEST, PartContext
from quorumd.errors import ErrorCode, UnsupportedVersion
from quorumd.node.api.forwarding import READ_ONLY_APIS, ResponseHook
from quorumd.node.api.purgatory import ResponsePurgatory, is_forwarded
from quorumd.node.leader_role import LeaderRole
from quorumd.node.sessions.error_pieces import ERRORS_AT_ONCE, pieces_of
from quorumd.node.sessions.request_splitting import SPLIT_RULES, RequestPart, SplitRule, parts_of
from quorumd.node.sessions.response_merging import MergedResponse
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.protocol.connection import Request
from quorumd.protocol.encoded_items import EncodedItems
from quorumd.protocol.response_task import ResponseTask, begin_response, built
from quorumd.protocol.routes import Session
from quorumd.protocol.wire import Message

M = TypeVar("M", bound=Message)
ExecutePart = Callable[[Session, Request[M], PartContext], None]
"""(session, request or part of one, context of the part)"""


class LargeRequests:
    """Splits large requests. `scheduler` executes their parts of about `max_partitions` each."""

    def __init__(
        self,
        controller: Controller,
        role: LeaderRole,
        purgatory: ResponsePurgatory,
        scheduler: SliceScheduler,
        max_partitions: int = MAX_PARTITIONS_PER_PART,
    ) -> None:
        self.scheduler = scheduler
        self.max_partitions = max_partitions
        self._controller = controller
        self._role = role
        self._purgatory = purgatory

    def handle(
        self,
        session: Session,
        request: Request[M],
        execute: ExecutePart[M],
        hook: ResponseHook | None = None,
    ) -> None:
        """Execute a request to the leader at once, or a large one in parts while later requests of the session wait.
        `hook` extends the response to a read that is forwarded."""
        parts = parts_of(self._controller, request, self.max_partitions)
        if parts is None:
            execute(session, request, WHOLE_REQUEST)
        else:
            self._begin(session, request, parts, execute, hook)

    def not_leader(
        self, session: Session, request: Request[Message], hook: ResponseHook | None = None
    ) -> None:
        """As `ResponsePurgatory.not_leader`, for a request of a client. The errors of its items are built in slices:
        those of 100,000 topics take 0.4 s, and the client needs no rights."""
        rule = SPLIT_RULES.get(request.api_key)
        pieces = None if is_forwarded(session, request) or rule is None else pieces_of(request.message, rule)
        if pieces is None or rule is None:
            self._purgatory.not_leader(session, request, hook)
        else:
            begin_response(session, request, self._errors(request, rule, pieces), self.scheduler.begin)

    def _errors(
        self, request: Request[Message], rule: SplitRule, pieces: Iterator[RequestPart]
    ) -> Generator[None, None, Message]:
        merged = MergedResponse(rule)
        for piece in pieces:
            part = _request_of_part(request, piece.message)
            response = self._purgatory.error_response(part, ErrorCode.NOT_CONTROLLER)
            merged.add(piece, response)
            if getattr(response, "error_code", 0):
                # The error is that of the whole request.
                break
            yield from repeat(None, ERRORS_AT_ONCE)
        return merged.result()

    def _begin(
        self,
        session: Session,
        request: Request[M],
        parts: Iterator[RequestPart | None],
        execute: ExecutePart[M],
        hook: ResponseHook | None,
    ) -> None:
        purgatory = self._purgatory

        def not_leader(no_effect: bool) -> None:
            if no_effect or request.api_key in READ_ONLY_APIS:
                purgatory.not_leader(session, request, hook)
            else:
                purgatory.refuse(session, request, ErrorCode.NOT_CONTROLLER)

        def execute_part(session: Session, part: Request[Message], context: PartContext) -> None:
            if self._role.is_active_controller:
                # The parts are messages of the same class.
                execute(session, cast("Request[M]", part), context)
            else:
                purgatory.not_leader(session, part)

        rule = SPLIT_RULES[request.api_key]
        task = SplitRequestTask(
            session, request, rule, parts, self.scheduler, execute_part, not_leader, self.max_partitions
        )
        session.block(request, task.cancel)
        self.scheduler.begin(task)


def _request_of_part(whole: Request[Message], message: Message) -> Request[Message]:
    return Request(whole.api_key, whole.api_version, whole.correlation_id, whole.client_id, message, b"", 0)


DESCRIPTIONS_AT_ONCE: Final = 2
"""Parts of a request with `SplitRule.describes` that wait for their responses: one read may confirm all of them, and
all are then described in one iteration of the event loop."""


class SplitRequestTask:
    """A `SlicedTask` that executes one part per iteration of the event loop.

    The response is sent once every part has one. `is_done` is also True while no further part may wait for its
    response, and the task begins again then. `not_leader(no_effect)` is called instead if this node no longer
    leads; `no_effect` is True if no part had an effect. Preparations advance by `max_partitions`.
    """

    def __init__(
        self,
        session: Session,
        request: Request[Message],
        rule: SplitRule,
        parts: Iterator[RequestPart | None],
        scheduler: SliceScheduler,
        execute: ExecutePart[Message],
        not_leader: Callable[[bool], None],
        max_partitions: int = MAX_PARTITIONS_PER_PART,
    ) -> None:
        self.is_done = False
        self._session = session
        self._request = request
        self._rule = rule
        self._remaining = parts
        self._scheduler = scheduler
        self._max_partitions = max_partitions
        self._execute = execute
        self._not_leader = not_leader
        self._parts: list[RequestPart] = []
        """The parts whose execution has begun."""
        self._responses: dict[int, Message | None] = {}
        """By part, those that are not merged yet; None if there is none, as to a Produce with acks=0."""
        self._merged_parts = 0
        self._merged = MergedResponse(rule)
        self._encoded = EncodedItems(request, rule.response_path[0]) if rule.describes else None
        self._has_response = True
        self._is_paused = False
        self._has_all_parts = False
        self._preparation: Preparation | None = None
        """The preparation of the last part."""
        self._is_over = False
        """Whether the request has its response, was refused or cancelled."""

    def cancel(self) -> None:
        """Execute no further parts: the request has a response, or its connection is closed."""
        self.is_done = self._is_over = True
        self._remaining = iter(())
        self._parts.clear()
        self._responses.clear()
        self._preparation = None

    def advance(self, budget: int) -> int:
        if self.is_done:
            return 0
        if self._preparation is None:
            try:
                part = next(self._remaining)
            except StopIteration:
                self.is_done = self._has_all_parts = True
                self._respond_if_whole()
                return 1
            if part is None:
                return budget
            self._parts.append(part)
            if part.prepare is not None:
                self._preparation = part.prepare()
                return budget
            self._execute_part(part.context)
        elif not self._preparation.is_done:
            self._preparation.advance(self._max_partitions)
        else:
            context = self._parts[-1].context._replace(prepared=self._preparation.result())
            self._preparation = None
            self._execute_part(context)
        return budget

    def _execute_part(self, context: PartContext) -> None:
        whole, number = self._request, len(self._parts) - 1
        part = _request_of_part(whole, self._parts[number].message)
        self._execute(_PartSession(self._session, self, number), part, context)
        waiting = len(self._parts) - self._merged_parts
        if self._encoded is not None and not self._is_over and waiting >= DESCRIPTIONS_AT_ONCE:
            self.is_done = self._is_paused = True

    def part_responded(self, number: int, response: Message | None) -> None:
        if self._is_over:
            return
        self._responses[number] = response
        while self._merged_parts in self._responses and not self._is_over:
            self._merge(self._responses.pop(self._merged_parts))
        if self._is_paused and not self._is_over:
            self.is_done = self._is_paused = False
            self._scheduler.begin(self)
        self._respond_if_whole()

    def _merge(self, response: Message | None) -> None:
        """Add the response to the next part to that to the request."""
        part = self._parts[self._merged_parts]
        self._merged_parts += 1
        if response is None:
            self._has_response = False
        elif self._encoded is None:
            self._merged.add(part, response)
        else:
            try:
                self._encoded.add(response)
            except (UnsupportedVersion, ValueError):
                # The session cannot encode it either; it logs the error and closes the connection.
                self.cancel()
                self._session.respond(self._request, response)

    def _respond_if_whole(self) -> None:
        if not self._has_all_parts or self._is_over or self._merged_parts < len(self._parts):
            return
        request, self._is_over = self._request, True
        if not self._has_response:
            self._session.respond_nothing(request)
        elif self._encoded is not None:
            self._session.respond_encoded(request, self._encoded.take_response())
        elif self._rule.response_path:
            self._scheduler.begin(ResponseTask(self._session, request, built(self._merged.result())))
        else:
            self._session.respond(request, self._merged.result())

    def part_refused(self) -> None:
        """Skip the remaining parts: this node no longer leads. The refused part had no effect."""
        if not self._is_over:
            had_no_effect = len(self._parts) == 1
            self.cancel()
            self._not_leader(had_no_effect)


class _PartSession:
    """The `Session` of one part, which collects its response."""

    def __init__(self, outer: Session, whole: SplitRequestTask, number: int) -> None:
        # A part cannot be forwarded; the whole request can.
        self.origin = replace(outer.origin, is_controller_client=True)
        self._outer = outer
        self._whole = whole
        self._part = number

    def respond(self, request: Request[Message], message: Message) -> None:
        del request
        self._whole.part_responded(self._part, message)

    def respond_immediately(self, request: Request[Message], message: Message) -> None:
        self.respond(request, message)

    def respond_encoded(self, request: Request[Message], response: bytes) -> None:
        raise AssertionError(f"{request!r} is part of a request and cannot be forwarded")

    def respond_not_leader(self, request: Request[Message], message: Message) -> None:
        del request, message
        self._whole.part_refused()

    def extend(self, message: Message, is_rest: bool = True) -> Session:
        return self

    def respond_nothing(self, request: Request[Message]) -> None:
        del request
        self._whole.part_responded(self._part, None)

    def block(self, request: Request[Message], on_unblocked: Callable[[], None] | None = None) -> None:
        """Do nothing: the whole request blocks the session already."""
        del request
        assert on_unblocked is None

    def close(self) -> None:
        self._outer.close()
