"""What brokers and clients ask of the controller: planned against the image, answered once it is committed.

All such APIs are alike from here: `controller_apis` says what each of them plans and who may ask.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from quorumd.controller.controller import Controller
from quorumd.controller.plan import Plan
from quorumd.errors import ErrorCode
from quorumd.node.alter_partition_order import AlterPartitionOrder, Standing
from quorumd.node.answer_errors import errors_in
from quorumd.node.committed_answers import CommittedAnswers
from quorumd.node.metadata_writer import MetadataWriter
from quorumd.node.request_parts import LargeRequest, divided
from quorumd.node.request_router import Handler
from quorumd.node.server_session import Session
from quorumd.node.sliced_work import SlicedWork
from quorumd.node.statistics import NodeStatistics
from quorumd.protocol.connection import Request

logger = logging.getLogger("quorumd.controller")

Planner = Callable[[Controller, Any, int], Plan]
"""(controller, request message, its version) -> what is to be done and answered."""


class ControllerApi(NamedTuple):
    """How one API is handled.

    `may_ask(session)`: whether it is allowed. `too_large`: the error where the records are more than one batch takes,
    None where they may be appended in several (see `MetadataWriter.write_in_parts`). `on_arrival`: what the leader
    notes of every request, whatever comes of it. `is_confirmed`: whether an answer without records is a read, for
    which this node makes sure that it still leads. `is_ordered`: whether requests count in the order in which their
    broker sent them (see `alter_partition_order`). `tells_offset`: whether the records tell at which offset they are,
    so that nothing may come before them that was not seen when they were planned.
    """

    plan: Planner
    may_ask: Callable[[Session], bool]
    too_large: ErrorCode | None = ErrorCode.POLICY_VIOLATION
    on_arrival: Callable[[Controller, Any], None] | None = None
    is_confirmed: bool = True
    is_ordered: bool = False
    tells_offset: bool = False


class ControllerRequests:
    """Answers every API of a table while this node leads; otherwise the leader does, for whom brokers look by
    themselves and clients need not."""

    def __init__(
        self,
        apis: Mapping[int, ControllerApi],
        controller: Controller,
        order: AlterPartitionOrder,
        is_leader: Callable[[], bool],
        writer: MetadataWriter,
        answers: CommittedAnswers,
        statistics: NodeStatistics,
        sliced: SlicedWork,
    ) -> None:
        self._apis = apis
        self._controller = controller
        self._order = order
        self._is_leader = is_leader
        self._writer = writer
        self._answers = answers
        self._statistics = statistics
        self._sliced = sliced

    def handlers(self) -> Iterable[tuple[int, Handler]]:
        return [(api_key, self.handle) for api_key in self._apis]

    def handle(self, session: Session, request: Request) -> None:
        """Carry the request out: at once, or a large one in parts, while what comes behind it waits."""
        parts = divided(request)
        if len(parts) == 1:
            self._carry_out(session, request)
            return
        answers = self._answers

        def not_leader(nothing_done: bool) -> None:
            if nothing_done:
                answers.not_leader(session, request)
            else:
                answers.refuse(session, request, ErrorCode.NOT_CONTROLLER)

        session.hold(request)
        self._sliced.begin(
            LargeRequest(
                session,
                request,
                parts,
                self._carry_out,
                lambda answer: session.answer(request, answer),
                not_leader,
            )
        )

    def _carry_out(self, session: Session, request: Request) -> None:
        api, writer, answers = self._apis[request.api_key], self._writer, self._answers
        if not self._is_leader():
            answers.not_leader(session, request)
            return
        if not api.may_ask(session):
            answers.refuse(session, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            return
        if api.is_ordered and not self._is_current(session, request):
            return
        if api.on_arrival is not None:
            api.on_arrival(self._controller, request.message)
        plan = api.plan(self._controller, request.message, request.api_version)
        answer = plan.answer
        for error in errors_in(answer):
            self._statistics.count_error(request.api_key, error)
        if not plan.records:
            if api.is_confirmed:
                answers.answer_when_confirmed(session, request, answer)
            else:
                answers.answer_in_passing(session, request, answer)
        elif not writer.has_room():
            answers.refuse(session, request, ErrorCode.KAFKA_STORAGE_ERROR)
        elif api.too_large is None:
            writer.write_in_parts(plan.records, answers.answering(session, request, answer))
            if api.tells_offset:
                writer.append_now()
        elif not writer.write_whole(plan.records, answers.answering(session, request, answer)):
            answers.refuse(session, request, api.too_large)

    def _is_current(self, session: Session, request: Request) -> bool:
        """Whether the request of a broker counts. One of a start that is not registered is no matter: its planner
        refuses it."""
        message: Any = request.message
        broker = self._controller.image.brokers.get(message.broker_id)
        if broker is None or broker.epoch != message.broker_epoch:
            return True
        standing = self._order.judge(session.number, broker.id, broker.epoch)
        if standing is Standing.OF_BEFORE:
            self._answers.not_leader(session, request)
        elif standing is Standing.ABANDONED:
            logger.info(
                "closing the connection from %s: broker %d asks on a newer one", session.peer, broker.id
            )
            session.close()
        return standing is Standing.CURRENT
