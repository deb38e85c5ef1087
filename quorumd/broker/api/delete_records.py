"""DeleteRecords: raises log start offsets, and responds once all live replicas have raised theirs (KIP-107)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from quorumd.broker.api.context import BrokerApiContext
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode, RequestError, StorageError
from quorumd.ports import Timer
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from quorumd.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from quorumd.protocol.routes import Route, Session

UP_TO_THE_HIGH_WATERMARK: Final = -1
NO_LOW_WATERMARK: Final = -1
DELETE: Final = "delete"
CHECK_MS: Final = 50.0
"""The interval of checks. Followers report their log start offsets in fetches, at least every
`replica.fetch.wait.max.ms`."""


class DeleteRecordsApis:
    """Handles DeleteRecords; checks periodically whether waiting requests are complete."""

    def __init__(self, context: BrokerApiContext) -> None:
        self._context = context
        self._pending: dict[_PendingDeletion, None] = {}
        self._timer: Timer | None = None

    def routes(self) -> Iterable[Route]:
        return (Route(DeleteRecordsRequest, self.delete_records),)

    def delete_records(self, session: Session, request: Request[DeleteRecordsRequest]) -> None:
        """Delete records below the given offsets."""
        message = request.message
        deadline_ms = self._context.clock.now_ms() + message.timeout_ms
        pending = _PendingDeletion(
            self._context, deadline_ms, lambda response: session.respond(request, response)
        )
        for topic in message.topics:
            results = [self._delete(pending, topic.name, partition) for partition in topic.partitions]
            pending.response.topics.append(DeleteRecordsTopicResult(topic.name, results))
        if not pending.examine():
            self._pending[pending] = None
            self._schedule()

    def _delete(
        self, pending: _PendingDeletion, topic: str, partition: DeleteRecordsPartition
    ) -> DeleteRecordsPartitionResult:
        result = DeleteRecordsPartitionResult(partition.partition_index, NO_LOW_WATERMARK)
        try:
            hosted = self._context.leader(topic, partition.partition_index)
        except RequestError as unavailable:
            result.error_code = int(unavailable.error)
            return result
        offset = partition.offset
        if offset == UP_TO_THE_HIGH_WATERMARK:
            offset = hosted.replica.high_watermark
        error = ErrorCode.POLICY_VIOLATION
        if DELETE in hosted.log.settings.cleanup_policy:
            try:
                error = hosted.replica.delete_records(offset)
            except StorageError as fault:
                error = self._context.partitions.handle_log_error(hosted, fault)
        result.error_code = int(error)
        if error is ErrorCode.NONE:
            pending.waiting.append((hosted.id, offset, result))
        return result

    def _schedule(self) -> None:
        if self._timer is None and self._pending:
            clock = self._context.clock
            self._timer = clock.call_at(clock.now_ms() + CHECK_MS, self._examine)

    def _examine(self) -> None:
        self._timer = None
        for pending in list(self._pending):
            if pending.examine():
                del self._pending[pending]
        self._schedule()


class _PendingDeletion:
    """A request that waits for its `waiting` partitions, whose followers may still hold deleted records."""

    def __init__(
        self,
        context: BrokerApiContext,
        deadline_ms: float,
        respond: Callable[[DeleteRecordsResponse], None],
    ) -> None:
        self.response = DeleteRecordsResponse()
        self.waiting: list[tuple[PartitionId, int, DeleteRecordsPartitionResult]] = []
        self._context = context
        self._deadline_ms = deadline_ms
        self._respond = respond

    def examine(self) -> bool:
        """Respond if no partition is waiting; return whether it responded."""
        is_late = self._context.clock.now_ms() >= self._deadline_ms
        self.waiting = [each for each in self.waiting if not self._has_result(*each, is_late)]
        if self.waiting:
            return False
        self._respond(self.response)
        return True

    def _has_result(
        self, id: PartitionId, offset: int, result: DeleteRecordsPartitionResult, is_late: bool
    ) -> bool:
        context = self._context
        try:
            hosted = context.partitions.leader(id)
        except RequestError as unavailable:
            result.error_code = int(unavailable.error)
            return True
        low = hosted.replica.low_watermark(lambda broker_id: context.unfenced(broker_id) is not None)
        if low >= offset:
            result.low_watermark = low
        elif is_late:
            result.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
        return low >= offset or is_late
