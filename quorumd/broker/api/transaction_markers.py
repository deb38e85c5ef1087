"""WriteTxnMarkers: appends the markers that end transactions to partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from quorumd.broker.coordinator.groups import GroupCoordinator
from quorumd.broker.coordinator.records import LoadedMarker
from quorumd.broker.coordinator.shards import Shard, Shards
from quorumd.broker.log.transaction_marker import TransactionMarker
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.partitions.partitions import AppendResult, Partitions
from quorumd.errors import ErrorCode, RequestError
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from quorumd.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from quorumd.protocol.routes import Route, Session

APPEND_TIMEOUT_MS: Final = 30_000.0


class TransactionMarkerApis:
    """Handles WriteTxnMarkers.

    `groups` are the group coordinators: a marker in their partition makes the offsets of the transaction visible.
    """

    def __init__(self, partitions: Partitions, groups: Shards[GroupCoordinator]) -> None:
        self._partitions = partitions
        self._groups = groups

    def routes(self) -> Iterable[Route]:
        """Return the routes of these APIs."""
        return (Route(WriteTxnMarkersRequest, self.write_markers),)

    def write_markers(self, session: Session, request: Request[WriteTxnMarkersRequest]) -> None:
        """Respond once every marker is replicated or rejected."""
        self.write(request.message, lambda response: session.respond(request, response))

    def write(
        self, message: WriteTxnMarkersRequest, respond: Callable[[WriteTxnMarkersResponse], None]
    ) -> None:
        """Append the markers; `respond` is called once, when every marker is replicated or rejected."""
        response = WriteTxnMarkersResponse()
        open_partitions = [1]

        def close() -> None:
            open_partitions[0] -= 1
            if not open_partitions[0]:
                respond(response)

        for marker in message.markers:
            result = WritableTxnMarkerResult(marker.producer_id)
            response.markers.append(result)
            for topic in marker.topics:
                topic_result = WritableTxnMarkerTopicResult(topic.name)
                result.topics.append(topic_result)
                for number in topic.partition_indexes:
                    each = WritableTxnMarkerPartitionResult(number)
                    topic_result.partitions.append(each)
                    open_partitions[0] += 1
                    self._append(marker, topic.name, each, close)
        close()

    def _append(
        self,
        marker: WritableTxnMarker,
        topic: str,
        result: WritableTxnMarkerPartitionResult,
        close: Callable[[], None],
    ) -> None:
        try:
            hosted = self._partitions.find(topic, result.partition_index)
            hosted = self._partitions.leader(hosted.id)
        except RequestError as unavailable:
            result.error_code = unavailable.error
            close()
            return
        shard = self._groups.active(result.partition_index) if topic == self._groups.topic else None
        if isinstance(shard, ErrorCode):
            # A coordinator that is loading would miss the marker and never complete the offsets of the transaction.
            result.error_code = shard
            close()
            return

        def done(appended: AppendResult) -> None:
            result.error_code = appended.error
            close()

        self._append_to(hosted, marker, shard, done)

    def _append_to(
        self,
        hosted: HostedPartition,
        marker: WritableTxnMarker,
        shard: Shard[GroupCoordinator] | None,
        done: Callable[[AppendResult], None],
    ) -> None:
        before = hosted.log.end_offset
        self._partitions.append_marker(
            hosted,
            marker.producer_id,
            marker.producer_epoch,
            TransactionMarker(marker.transaction_result, marker.coordinator_epoch),
            APPEND_TIMEOUT_MS,
            done,
            marker.transaction_version,
        )
        if shard is not None and hosted.log.end_offset > before:
            loaded = LoadedMarker(
                before, marker.producer_id, marker.producer_epoch, marker.transaction_result
            )
            shard.handle_external_append()
            shard.run(lambda machine, times: machine.replay_marker(loaded, times))
