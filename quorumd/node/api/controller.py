"""Requests to the controller: planned against the image, with a response once the plan is committed.

`controller_table` lists the planner of each API.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from quorumd.controller.request_context import WHOLE_REQUEST, PartContext, sender_context
from quorumd.errors import ErrorCode
from quorumd.node.api.context import ApiContext
from quorumd.node.api.controller_table import CONTROLLER_APIS, ControllerApi
from quorumd.node.controller.alter_partition_order import ConnectionOrder
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.alter_partition_request import AlterPartitionRequest
from quorumd.protocol.messages.create_partitions_response import CreatePartitionsResponse
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse
from quorumd.protocol.messages.delete_topics_response import DeleteTopicsResponse
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.routes import Route, Session
from quorumd.protocol.wire import Message
from quorumd.quotas.client_quotas import MutationQuota
from quorumd.quotas.entities import MUTATION_RATE

logger = logging.getLogger("quorumd.controller")


class ControllerApis:
    """Handles every API of a table while this node leads. Otherwise it forwards requests of clients, and responds
    NOT_CONTROLLER to brokers, which find the leader themselves."""

    def __init__(self, context: ApiContext, apis: Mapping[int, ControllerApi] = CONTROLLER_APIS) -> None:
        self._apis = apis
        self._controller = context.metadata.controller
        self._order = context.metadata.alter_partition_order
        self._role = context.quorum.role
        self._writer = context.metadata.writer
        self._purgatory = context.execution.purgatory
        self._statistics = context.node.statistics
        self._large = context.execution.large_requests
        self._authorization = context.gates.authorization
        self._quotas = context.gates.quotas
        self._clock = context.node.clock

    def routes(self) -> Iterable[Route]:
        return [Route(api.request_class, self.handle) for api in self._apis.values()]

    def handle(self, session: Session, request: Request[Message]) -> None:
        """Handle the request, a large one in parts."""
        if self._role.is_active_controller:
            self._large.handle(session, request, self._execute)
        else:
            self._large.not_leader(session, request)

    def _execute(self, session: Session, request: Request[Message], part: PartContext) -> None:
        api, writer, purgatory = self._apis[request.api_key], self._writer, self._purgatory
        rules = api.append_rules
        admitted = self._authorization.admit(session, request)
        if admitted is None:
            return
        session = admitted
        if api.is_connection_ordered and not self._is_in_order(session, request):
            return
        if api.on_request is not None:
            api.on_request(self._controller, request.message)
        origin, quota = session.origin, None
        if api.strict_quota_since is not None and not origin.is_internal:
            quota = self._mutation_quota(session, request, api.strict_quota_since)
        context = sender_context(origin.principal, origin.token_authenticated, origin.comes_from_broker)
        if quota is not None or part is not WHOLE_REQUEST:
            context = context._replace(quota=quota, part=part)
        plan = api.plan(self._controller, request.message, request.api_version, context)
        response = plan.response
        if quota is not None:
            assert isinstance(
                response, (CreateTopicsResponse, DeleteTopicsResponse, CreatePartitionsResponse)
            )
            response.throttle_time_ms = self._quotas.counters.count(MUTATION_RATE, quota.throttle_ms)
        for error, _ in errors_in(response):
            self._statistics.count_error(request.api_key, error)
        if not plan.records and plan.prepared is None:
            if api.needs_read_confirmation:
                purgatory.respond_after_read(session, request, response)
            else:
                purgatory.respond_deferred(session, request, response)
        elif not writer.has_free_space():
            purgatory.refuse(session, request, ErrorCode.KAFKA_STORAGE_ERROR)
        elif rules.too_large_error is None:
            writer.write_batches(plan.records, purgatory.on_commit_respond(session, request, response))
            if rules.records_offset:
                writer.flush_pending()
        elif not writer.write_batch(
            plan.records, purgatory.on_commit_respond(session, request, response), plan.prepared
        ):
            purgatory.refuse(session, request, rules.too_large_error)

    def _mutation_quota(
        self, session: Session, request: Request[Message], strict_since: int
    ) -> MutationQuota | None:
        """The quota of a request that creates or deletes partitions; strict from version `strict_since` on."""
        is_strict = request.api_version >= strict_since
        return self._quotas.mutations(
            session.origin.principal, request.client_id, is_strict, self._clock.now_ms()
        )

    def _is_in_order(self, session: Session, request: Request[Message]) -> bool:
        """Whether the request came on the current connection of its broker. The planner refuses requests of
        unregistered incarnations."""
        message = request.message
        assert isinstance(message, AlterPartitionRequest)
        broker = self._controller.image.brokers.get(message.broker_id)
        if broker is None or broker.epoch != message.broker_epoch:
            return True
        order = self._order.check(session.origin.number, broker.id, broker.epoch)
        if order is ConnectionOrder.BEFORE_LEADERSHIP:
            self._purgatory.not_leader(session, request)
        elif order is ConnectionOrder.SUPERSEDED:
            logger.info(
                "closing the connection from %s: broker %d uses a newer one", session.origin.peer, broker.id
            )
            session.close()
        return order is ConnectionOrder.CURRENT
