"""Produce: appends the batches of producers in the order in which they arrive."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Final, NamedTuple

from quorumd.broker.api.context import BrokerApiContext
from quorumd.broker.api.topic_messages import INTERNAL_TOPICS
from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.broker.log.validation import KeysMissing, requires_keys, validate_keys
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.partitions.partitions import AppendResult
from quorumd.errors import ErrorCode, RequestError
from quorumd.ids import KafkaUuid
from quorumd.protocol.batch_header import ATTRIBUTES_LOW_BYTE, COMPRESSION_MASK, TRANSACTIONAL_BIT
from quorumd.protocol.batch_scan import Ascending, scan
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.produce_request import PartitionProduceData, ProduceRequest
from quorumd.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from quorumd.protocol.routes import Route, Session
from quorumd.protocol.stepped_task import SteppedTask

logger = logging.getLogger("quorumd.broker")

TOPIC_IDS_SINCE: Final = 13
LEADERS_SINCE: Final = 10
"""The first version whose responses name the current leader (KIP-951)."""
ZSTD_SINCE: Final = 7
ZSTD: Final = 4
ADMIN_CLIENT: Final = "__admin_client"
"""The client id that may write to internal topics."""
ABORTABLE_SINCE: Final = 11
BROKER_ADDS_SINCE: Final = 12
"""The first version for which the leader adds partitions to the client's transaction (KIP-890)."""
_RETRIABLE: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
"""Errors of a coordinator that producers do not expect from a leader. They get NOT_ENOUGH_REPLICAS instead, which
they retry; from version BROKER_ADDS_SINCE on, they expect CONCURRENT_TRANSACTIONS."""
MAX_RECORD_ERRORS: Final = 10_000
"""Records that a response names as invalid; of further batches it names none."""
UNITS_AT_ONCE: Final = 250
"""Units of validating keys before any other event is handled: 800 records."""
UNITS_PER_STEP: Final = 10
"""Units of one step, about a tenth of a millisecond."""


class ProduceApis:
    """Handles Produce: appends batches, and responds once all partitions of a request have a result."""

    def __init__(self, context: BrokerApiContext) -> None:
        self._context = context

    def routes(self) -> Iterable[Route]:
        return (Route(ProduceRequest, self.produce),)

    def produce(self, session: Session, request: Request[ProduceRequest]) -> None:
        """Append one batch per partition and respond as `acks` requests."""
        pending = _PendingProduce(self._context, session, request)
        message = request.message
        by_id = request.api_version >= TOPIC_IDS_SINCE
        # Free the batches of a request that waits for replicas.
        request.message = ProduceRequest(message.transactional_id, message.acks, message.timeout_ms)
        for topic in message.topic_data:
            key: KafkaUuid | str = topic.topic_id if by_id else topic.name
            response = TopicProduceResponse(topic.name, topic.topic_id)
            pending.response.responses.append(response)
            for partition in topic.partition_data:
                result = PartitionProduceResponse(partition.index, 0, -1)
                response.partition_responses.append(result)
                pending.open += 1
                self._append(pending, key, partition, result)
        if pending.unvalidated:
            task = SteppedTask(self._validated(pending), lambda _: self._end_reading(pending))
            task.advance(UNITS_AT_ONCE)
            if not task.is_done:
                session.block(request)
                self._context.begin(task)
        else:
            self._end_reading(pending)

    def _end_reading(self, pending: _PendingProduce) -> None:
        pending.request.release_frame()
        pending.close_one()

    def _validated(self, pending: _PendingProduce) -> Generator[int, None, None]:
        """Append the batches whose keys are valid. The producer chose how many records they have, so that they are
        validated in slices, while later requests of the session wait."""
        while pending.unvalidated:
            batch = pending.unvalidated.popleft()
            try:
                for _ in validate_keys(
                    batch.records, batch.hosted.log.settings, self._context.clock.wall_ms()
                ):
                    yield UNITS_PER_STEP
            except RequestError as refused:
                if isinstance(refused, KeysMissing):
                    pending.add_record_errors(batch.result, refused.records)
                pending.fail(batch.result, refused.error, str(refused))
            else:
                self._verify(pending.request, batch.hosted, batch.records, batch.append)
            yield 1

    def _append(
        self,
        pending: _PendingProduce,
        topic: KafkaUuid | str,
        data: PartitionProduceData,
        result: PartitionProduceResponse,
    ) -> None:
        acks = pending.request.message.acks
        if acks not in (-1, 0, 1):
            pending.fail(
                result, ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks} is invalid; it must be 0, 1 or -1"
            )
            return
        try:
            hosted = self._context.leader(topic, data.index)
        except RequestError as unavailable:
            pending.complete(topic, result, AppendResult(unavailable.error))
            return
        refused = _refusal(pending.request, hosted.topic, data.records)
        if refused is not None:
            pending.fail(result, *refused)
            return
        assert data.records is not None

        def done(appended: AppendResult) -> None:
            pending.complete(topic, result, appended)

        records = data.records

        def append(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                pending.fail(result, *_verification_error(error, pending.request.api_version))
            elif not (hosted.is_open and hosted.is_leader):
                done(AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            else:
                timeout_ms = pending.request.message.timeout_ms
                self._context.partitions.append(hosted, records, acks, timeout_ms, done)

        if requires_keys(records, hosted.log.settings):
            pending.unvalidated.append(_UnvalidatedBatch(hosted, records, result, append))
        else:
            self._verify(pending.request, hosted, records, append)

    def _verify(
        self,
        request: Request[ProduceRequest],
        hosted: HostedPartition,
        records: bytes,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Verify with the transaction coordinator that a transactional batch belongs to an open transaction."""
        verifier, transactional_id = self._context.verifier, request.message.transactional_id
        found = scan(records, Ascending(with_crc=False)).headers if transactional_id is not None else []
        if verifier is None or transactional_id is None or not found or not found[0].is_transactional:
            done(ErrorCode.NONE)
            return
        batch = found[0]
        producer = (batch.producer_id, batch.producer_epoch)
        if hosted.log.producers.has_open_transaction(*producer):
            done(ErrorCode.NONE)
            return
        target = TopicPartition(hosted.topic, hosted.id.number)
        adds = request.api_version >= BROKER_ADDS_SINCE

        verifier.verify(transactional_id, producer, target, adds, done)


def _verification_error(error: ErrorCode, version: int) -> tuple[ErrorCode, str]:
    """Return the error and the message for a producer that uses this version of Produce."""
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and version >= BROKER_ADDS_SINCE:
        return error, "the producer's previous transaction is still completing"
    if error in _RETRIABLE:
        return (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"the transaction could not be verified: its coordinator returned {error.name}",
        )
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        error = ErrorCode.INVALID_TXN_STATE
    return error, "the partition is not part of the producer's transaction"


def _refusal(
    request: Request[ProduceRequest], topic: str, records: bytes | None
) -> tuple[ErrorCode, str] | None:
    """Return the error and message for a batch that is refused before its log is read, None if it is accepted."""
    if not records:
        return (
            ErrorCode.INVALID_RECORD,
            "a produce request must have one batch per partition; this one has none",
        )
    attributes = records[ATTRIBUTES_LOW_BYTE] if len(records) > ATTRIBUTES_LOW_BYTE else 0
    if attributes & TRANSACTIONAL_BIT and request.message.transactional_id is None:
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return error, "a transactional batch requires a transactional id"
    if topic in INTERNAL_TOPICS and request.client_id != ADMIN_CLIENT:
        return ErrorCode.INVALID_TOPIC, f"clients cannot write to the internal topic {topic}"
    if attributes & COMPRESSION_MASK == ZSTD and request.api_version < ZSTD_SINCE:
        return (
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd requires version {ZSTD_SINCE} of Produce; the request has version {request.api_version}",
        )
    return None


class _UnvalidatedBatch(NamedTuple):
    """A batch for a compacted topic whose keys are not validated yet."""

    hosted: HostedPartition
    records: bytes
    result: PartitionProduceResponse
    append: Callable[[ErrorCode], None]


class _PendingProduce:
    """A request whose partitions may wait for their results."""

    def __init__(self, context: BrokerApiContext, session: Session, request: Request[ProduceRequest]) -> None:
        self.request = request
        self.response = ProduceResponse()
        self.open = 1
        """The number of partitions without a result, plus one while the request is being read."""
        self.unvalidated: deque[_UnvalidatedBatch] = deque()
        self._context = context
        self._session = session
        self._errors: list[str] = []
        self._record_errors = 0

    def complete(
        self, topic: KafkaUuid | str, result: PartitionProduceResponse, appended: AppendResult
    ) -> None:
        """Set the result of a partition."""
        result.log_start_offset = appended.log_start_offset
        if appended.error is ErrorCode.NONE:
            result.base_offset = appended.base_offset
            result.log_append_time_ms = appended.log_append_time_ms
            self.close_one()
            return
        if appended.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._add_leader(topic, result)
        self.fail(result, appended.error, appended.message)

    def fail(self, result: PartitionProduceResponse, error: ErrorCode, message: str | None = None) -> None:
        """Set the error of a partition."""
        result.error_code = int(error)
        result.error_message = message
        self._errors.append(f"partition {result.index}: {error.name}")
        self.close_one()

    def add_record_errors(self, result: PartitionProduceResponse, positions: list[int]) -> None:
        """Name the invalid records of a batch: the producer may send the others again."""
        self._record_errors += len(positions)
        if self._record_errors <= MAX_RECORD_ERRORS:
            result.record_errors = list(map(BatchIndexAndErrorMessage, positions))

    def _add_leader(self, topic: KafkaUuid | str, result: PartitionProduceResponse) -> None:
        """Name the current leader, so that the producer finds it without a Metadata request."""
        if self.request.api_version < LEADERS_SINCE:
            return
        leader, epoch = self._context.current_leader(topic, result.index)
        result.current_leader = LeaderIdAndEpoch(leader, epoch)
        endpoints = self.response.node_endpoints
        found = self._context.endpoint(self._session.origin.listener, leader)
        if found is not None and all(endpoint.node_id != leader for endpoint in endpoints):
            endpoint, rack = found
            endpoints.append(NodeEndpoint(leader, endpoint.host, endpoint.port, rack))

    def close_one(self) -> None:
        """Record that a partition has its result; respond if it is the last one."""
        self.open -= 1
        if self.open:
            return
        if self.request.message.acks != 0:
            self._session.respond(self.request, self.response)
        elif self._errors:
            # The producer expects no response: only a closed connection makes it refresh its metadata.
            logger.info(
                "closing the connection from %s: Produce with acks=0 failed: %s",
                self._session.origin.peer,
                "; ".join(self._errors),
            )
            self._session.close()
        else:
            self._session.respond_nothing(self.request)
