"""ListOffsets and OffsetForLeaderEpoch: look up offsets in a log by timestamp and by leader epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from typing import Final

from quorumd.broker.api.context import BrokerApiContext
from quorumd.broker.api.fetch_reader import CONSUMER, READ_COMMITTED
from quorumd.broker.log.timestamps import Steps, TimestampOffset
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.errors import ErrorCode, RequestError, StorageError
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import list_offsets_response, offset_for_leader_epoch_response
from quorumd.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from quorumd.protocol.messages.list_offsets_response import ListOffsetsPartitionResponse
from quorumd.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from quorumd.protocol.messages.offset_for_leader_epoch_response import EpochEndOffset
from quorumd.protocol.routes import Route, Session
from quorumd.protocol.stepped_task import SteppedTask

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
SINCE_VERSION: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""Special timestamp -> the first version of ListOffsets that supports it."""
NOT_AVAILABLE_SINCE: Final = 5
"""The first version with OFFSET_NOT_AVAILABLE; earlier versions have LEADER_NOT_AVAILABLE."""
EPOCHS_SINCE: Final = 4
DEBUGGING_CONSUMER: Final = -2
"""The replica id of a debugging consumer, which may read from followers."""


UNITS_AT_ONCE: Final = 250
"""Units that are done before any other event is handled: as many partitions without a lookup."""
UNITS_PER_STEP: Final = 10
"""Units of a step of a lookup, about a tenth of a millisecond."""
_Lookup = Generator[int, None, ListOffsetsPartitionResponse]


class ListOffsetsApis:
    """Handles ListOffsets and OffsetForLeaderEpoch. There is no tiered storage."""

    def __init__(self, context: BrokerApiContext) -> None:
        self._context = context

    def routes(self) -> Iterable[Route]:
        return (
            Route(ListOffsetsRequest, self.list_offsets),
            Route(OffsetForLeaderEpochRequest, self.offsets_for_leader_epochs),
        )

    def list_offsets(self, session: Session, request: Request[ListOffsetsRequest]) -> None:
        """Look up offsets by timestamp. A repeated partition gets INVALID_REQUEST, as in Kafka.

        A lookup decodes the records of a batch, which its producer chose, so it is done in slices, while later
        requests of the session wait."""
        task = SteppedTask(self._listed(request), lambda response: session.respond(request, response))
        task.advance(UNITS_AT_ONCE)
        if not task.is_done:
            session.block(request)
            self._context.begin(task)

    def _listed(
        self, request: Request[ListOffsetsRequest]
    ) -> Generator[int, None, list_offsets_response.ListOffsetsResponse]:
        message = request.message
        named = [(topic.name, each.partition_index) for topic in message.topics for each in topic.partitions]
        repeated = {each for each, count in Counter(named).items() if count > 1}
        wire = list_offsets_response
        response = wire.ListOffsetsResponse()
        for topic in message.topics:
            results: list[ListOffsetsPartitionResponse] = []
            for partition in topic.partitions:
                if (topic.name, partition.partition_index) in repeated:
                    result = _failed(partition, ErrorCode.INVALID_REQUEST)
                else:
                    result = yield from self._offset(request, topic.name, partition)
                results.append(result)
                yield 1
            response.topics.append(wire.ListOffsetsTopicResponse(topic.name, results))
        return response

    def _offset(
        self, request: Request[ListOffsetsRequest], topic: str, partition: ListOffsetsPartition
    ) -> _Lookup:
        timestamp = partition.timestamp
        if timestamp < 0 and request.api_version < SINCE_VERSION.get(timestamp, request.api_version + 1):
            return _failed(partition, ErrorCode.UNSUPPORTED_VERSION)
        message = request.message
        try:
            hosted = self._context.partitions.find(topic, partition.partition_index)
            error = hosted.replica.check_leader(partition.current_leader_epoch)
            if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and message.replica_id == DEBUGGING_CONSUMER:
                error = ErrorCode.NONE
            if error is not ErrorCode.NONE:
                return _failed(partition, error)
            result = yield from _lookup(hosted, message, partition)
        except RequestError as unavailable:
            return _failed(partition, unavailable.error)
        except StorageError as fault:
            if hosted not in self._context.partitions.all():
                # It was deleted between two steps.
                return _failed(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return _failed(partition, self._context.partitions.handle_log_error(hosted, fault))
        if result.error_code == ErrorCode.OFFSET_NOT_AVAILABLE and request.api_version < NOT_AVAILABLE_SINCE:
            result.error_code = int(ErrorCode.LEADER_NOT_AVAILABLE)
        if request.api_version < EPOCHS_SINCE:
            result.leader_epoch = -1
        return result

    def offsets_for_leader_epochs(
        self, session: Session, request: Request[OffsetForLeaderEpochRequest]
    ) -> None:
        """Return the end offset of each leader epoch (KIP-101, KIP-320)."""
        wire = offset_for_leader_epoch_response
        topics = [
            wire.OffsetForLeaderTopicResult(
                topic.topic, [self._end_of_epoch(topic.topic, each) for each in topic.partitions]
            )
            for topic in request.message.topics
        ]
        session.respond(request, wire.OffsetForLeaderEpochResponse(0, topics))

    def _end_of_epoch(self, topic: str, partition: OffsetForLeaderPartition) -> EpochEndOffset:
        try:
            hosted = self._context.leader(topic, partition.partition, partition.current_leader_epoch)
        except RequestError as unavailable:
            return EpochEndOffset(int(unavailable.error), partition.partition)
        end = hosted.log.end_of_epoch(partition.leader_epoch)
        if end is None:
            return EpochEndOffset(0, partition.partition)
        return EpochEndOffset(0, partition.partition, end.epoch, end.offset)


def _in_units(steps: Steps) -> Generator[int, None, TimestampOffset | None]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: TimestampOffset | None = end.value
            return found
        yield UNITS_PER_STEP


def _failed(partition: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition.partition_index, int(error))


def _lookup(hosted: HostedPartition, message: ListOffsetsRequest, partition: ListOffsetsPartition) -> _Lookup:
    """Look up an offset that the client may read. Raises StorageError."""
    log, replica = hosted.log, hosted.replica
    is_consumer = message.replica_id == CONSUMER
    is_uncertain = is_consumer and replica.leadership is not None and not replica.is_end_known
    end = log.end_offset
    if is_consumer:
        end = replica.high_watermark
        if message.isolation_level == READ_COMMITTED:
            end = log.last_stable_offset(end)
    number, timestamp = partition.partition_index, partition.timestamp
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return ListOffsetsPartitionResponse(number, 0, -1, log.start_offset, log.epoch_of(log.start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return ListOffsetsPartitionResponse(number)
    if timestamp == LATEST and not is_uncertain:
        return ListOffsetsPartitionResponse(number, 0, -1, end, replica.leader_epoch)
    if timestamp == LATEST:
        return _failed(partition, ErrorCode.OFFSET_NOT_AVAILABLE)
    steps = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_of_timestamp(timestamp, end)
    found = yield from _in_units(steps)
    if found is not None and found.offset < end:
        return ListOffsetsPartitionResponse(number, 0, found.timestamp_ms, found.offset, found.epoch)
    # A record that was committed under the previous leader may be above the high watermark.
    return _failed(partition, ErrorCode.OFFSET_NOT_AVAILABLE if is_uncertain else ErrorCode.NONE)
