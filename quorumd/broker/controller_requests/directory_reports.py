"""AssignReplicasToDirs: reports the log directories of this broker's replicas to the controller (KIP-858)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from quorumd.broker.channels.controller_channel import ControllerChannel, NoResponse
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.replication.replica import Transition
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.ports import Clock, Timer
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from quorumd.protocol.wire import Message

logger = logging.getLogger("quorumd.broker")

RETRY_MS: Final = 500.0
MAX_ASSIGNMENTS: Final = 2250
"""Per request, as Kafka's brokers send."""


class DirectoryReports:
    """A listener of the partitions. Reports a replica whose directory differs from the one in the metadata."""

    def __init__(
        self, clock: Clock, channel: ControllerChannel, broker_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._clock = clock
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[PartitionId, HostedPartition] = {}
        self._is_in_flight = False
        self._is_stopped = False
        self._timer: Timer | None = None

    def appended(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def high_watermark_advanced(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def changed(self, hosted: HostedPartition, transition: Transition) -> None:
        """See `PartitionListener`."""
        if transition is Transition.REMOVED:
            self._waiting.pop(hosted.id, None)
        elif self._differs(hosted):
            self._waiting[hosted.id] = hosted
            self._schedule(0.0)

    def _differs(self, hosted: HostedPartition) -> bool:
        metadata = hosted.replica.metadata
        if metadata is None or not metadata.directories or self._broker_id not in metadata.replicas:
            return False
        return metadata.directories[metadata.replicas.index(self._broker_id)] != hosted.directory.id

    def stop(self) -> None:
        """Stop sending requests."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, delay_ms: float) -> None:
        if not self._is_in_flight and self._timer is None and not self._is_stopped:
            self._timer = self._clock.call_at(self._clock.now_ms() + delay_ms, self._send)

    def _send(self) -> None:
        self._timer = None
        reported = [hosted for hosted in self._waiting.values() if self._differs(hosted)][:MAX_ASSIGNMENTS]
        if not reported:
            self._waiting.clear()
            return
        directories: dict[KafkaUuid, dict[KafkaUuid, TopicData]] = {}
        for hosted in reported:
            topics = directories.setdefault(hosted.directory.id, {})
            topic = topics.setdefault(hosted.id.topic_id, TopicData(hosted.id.topic_id))
            topic.partitions.append(PartitionData(hosted.id.number))
        request = AssignReplicasToDirsRequest(
            self._broker_id,
            self._broker_epoch(),
            [DirectoryData(directory, list(topics.values())) for directory, topics in directories.items()],
        )

        def handle_response(response: Message) -> None:
            assert isinstance(response, AssignReplicasToDirsResponse)
            self._is_in_flight = False
            if response.error_code == ErrorCode.NONE:
                for hosted in reported:
                    if self._waiting.get(hosted.id) is hosted:
                        del self._waiting[hosted.id]
            else:
                logger.info(
                    "AssignReplicasToDirs was refused, it is sent again: %s",
                    ErrorCode.describe(response.error_code),
                )
            self._send_rest(0.0 if response.error_code == ErrorCode.NONE else RETRY_MS)

        def handle_failure(failure: NoResponse) -> None:
            self._is_in_flight = False
            logger.info("no response to AssignReplicasToDirs, it is sent again: %s", failure.reason)
            self._send_rest(RETRY_MS)

        self._is_in_flight = True
        self._channel.send(
            ApiKey.ASSIGN_REPLICAS_TO_DIRS, lambda version: request, handle_response, handle_failure
        )

    def _send_rest(self, delay_ms: float) -> None:
        if self._waiting:
            self._schedule(delay_ms)
