"""InitProducerId for idempotent producers, and DescribeProducers."""

from __future__ import annotations

from collections.abc import Iterable

from quorumd.broker.api.context import BrokerApiContext
from quorumd.broker.controller_requests.producer_ids import NO_ID
from quorumd.errors import ErrorCode, RequestError
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import describe_producers_response
from quorumd.protocol.messages.describe_producers_request import DescribeProducersRequest
from quorumd.protocol.messages.init_producer_id_request import InitProducerIdRequest
from quorumd.protocol.messages.init_producer_id_response import InitProducerIdResponse
from quorumd.protocol.routes import Handler, Route, Session


class ProducerApis:
    """Handles InitProducerId and DescribeProducers. `init_transactional` handles InitProducerId with a transactional
    id; it is None without a transaction coordinator."""

    def __init__(
        self,
        context: BrokerApiContext,
        init_transactional: Handler[InitProducerIdRequest] | None = None,
    ) -> None:
        self._context = context
        self._init_transactional = init_transactional

    def routes(self) -> Iterable[Route]:
        return (
            Route(InitProducerIdRequest, self.init_producer_id),
            Route(DescribeProducersRequest, self.describe_producers),
        )

    def init_producer_id(self, session: Session, request: Request[InitProducerIdRequest]) -> None:
        """Return a new producer id, even if an idempotent producer sends its previous one."""
        transactional_id = request.message.transactional_id
        if transactional_id is not None:
            if not transactional_id:
                session.respond(request, InitProducerIdResponse(0, int(ErrorCode.INVALID_REQUEST)))
            elif self._init_transactional is None:
                session.respond(request, InitProducerIdResponse(0, int(ErrorCode.COORDINATOR_NOT_AVAILABLE)))
            else:
                self._init_transactional(session, request)
            return

        def done(producer_id: int) -> None:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if producer_id == NO_ID else ErrorCode.NONE
            epoch = -1 if producer_id == NO_ID else 0
            session.respond(request, InitProducerIdResponse(0, int(error), producer_id, epoch))

        self._context.producer_ids.take(done)

    def describe_producers(self, session: Session, request: Request[DescribeProducersRequest]) -> None:
        """List the active producers of partitions (KIP-664)."""
        wire = describe_producers_response
        topics = [
            wire.TopicResponse(
                topic.name, [self._producers(topic.name, each) for each in topic.partition_indexes]
            )
            for topic in request.message.topics
        ]
        session.respond(request, wire.DescribeProducersResponse(0, topics))

    def _producers(self, topic: str, number: int) -> describe_producers_response.PartitionResponse:
        wire = describe_producers_response
        try:
            hosted = self._context.leader(topic, number)
        except RequestError as unavailable:
            return wire.PartitionResponse(number, int(unavailable.error))
        return wire.PartitionResponse(
            number,
            0,
            None,
            [
                wire.ProducerState(
                    entry.producer_id,
                    entry.epoch,
                    entry.last_sequence,
                    entry.last_timestamp_ms,
                    entry.coordinator_epoch,
                    entry.transaction_start,
                )
                for entry in hosted.log.producers.entries.values()
            ],
        )
