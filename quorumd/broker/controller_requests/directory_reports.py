"""AssignReplicasToDirs: reports the log directories of this broker's replicas to the controller (KIP-858)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorumd.broker.channels.controller_channel import ControllerChannel
from quorumd.broker.controller_requests.repeated_request import RepeatedRequest
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.replication.replica import Transition
from quorumd.controller.partition import PartitionId
from quorumd.ids import KafkaUuid
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.assign_replicas_to_dirs_request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse

RETRY_MS: Final = 500.0
MAX_ASSIGNMENTS: Final = 2250
"""The maximum per request, as in Kafka's brokers."""


class DirectoryReports:
    """A listener of the partitions. Reports a replica whose directory differs from the one in the metadata, also if
    the directory has failed, as the controller could not know of the replicas in it otherwise."""

    def __init__(
        self, clock: Clock, channel: ControllerChannel, broker_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[PartitionId, HostedPartition] = {}
        self._requests: RepeatedRequest[list[HostedPartition], AssignReplicasToDirsResponse] = (
            RepeatedRequest(
                clock,
                channel,
                ApiKey.ASSIGN_REPLICAS_TO_DIRS,
                RETRY_MS,
                self._collect,
                self._build,
                self._handle_response,
            )
        )

    def appended(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def high_watermark_advanced(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def changed(self, hosted: HostedPartition, transition: Transition) -> None:
        """See `PartitionListener`."""
        if transition is Transition.REMOVED and hosted.directory.is_online:
            self._waiting.pop(hosted.id, None)
        elif self._differs(hosted):
            self._waiting[hosted.id] = hosted
            self._requests.send()

    def _differs(self, hosted: HostedPartition) -> bool:
        metadata = hosted.replica.metadata
        if metadata is None or not metadata.directories or self._broker_id not in metadata.replicas:
            return False
        return metadata.directories[metadata.replicas.index(self._broker_id)] != hosted.directory.id

    def stop(self) -> None:
        """Stop sending requests."""
        self._requests.stop()

    def _collect(self) -> list[HostedPartition] | None:
        reported = [hosted for hosted in self._waiting.values() if self._differs(hosted)]
        if not reported:
            self._waiting.clear()
        return reported[:MAX_ASSIGNMENTS] or None

    def _build(self, reported: list[HostedPartition], version: int) -> AssignReplicasToDirsRequest:
        del version
        directories: dict[KafkaUuid, dict[KafkaUuid, TopicData]] = {}
        for hosted in reported:
            topics = directories.setdefault(hosted.directory.id, {})
            topic = topics.setdefault(hosted.id.topic_id, TopicData(hosted.id.topic_id))
            topic.partitions.append(PartitionData(hosted.id.number))
        return AssignReplicasToDirsRequest(
            self._broker_id,
            self._broker_epoch(),
            [DirectoryData(directory, list(topics.values())) for directory, topics in directories.items()],
        )

    def _handle_response(
        self, reported: list[HostedPartition], response: AssignReplicasToDirsResponse
    ) -> float | None:
        for hosted in reported:
            if self._waiting.get(hosted.id) is hosted:
                del self._waiting[hosted.id]
        return 0.0 if self._waiting else None
