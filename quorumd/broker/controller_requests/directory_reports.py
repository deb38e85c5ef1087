"""AssignReplicasToDirs: reports the log directories of this broker's replicas to the controller (KIP-858)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorumd.broker.channels.controller_channel import ControllerChannel
from quorumd.broker.controller_requests.repeated_request import RepeatedRequest
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.replication.replica import Transition
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
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
"""The maximum number of assignments per request, as in Kafka."""


Report = tuple[HostedPartition, KafkaUuid]
"""A replica and its reported directory."""


class DirectoryReports:
    """A `PartitionListener` that reports replicas whose directory differs from the directory in the metadata.

    Replicas in a failed directory are reported too; otherwise the controller would not know which they are.
    `on_accepted(hosted, directory)` is called when the controller has recorded a directory.
    """

    def __init__(
        self,
        clock: Clock,
        channel: ControllerChannel,
        broker_id: int,
        broker_epoch: Callable[[], int],
        on_accepted: Callable[[HostedPartition, KafkaUuid], None],
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._on_accepted = on_accepted
        self._waiting: dict[PartitionId, HostedPartition] = {}
        self._reported: dict[PartitionId, KafkaUuid | None] = {}
        """The directory that the controller has accepted; None while the outcome of a request is unknown."""
        self._requests: RepeatedRequest[list[Report], AssignReplicasToDirsResponse] = RepeatedRequest(
            clock,
            channel,
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
            RETRY_MS,
            self._collect,
            self._build,
            self._handle_response,
        )

    def appended(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def high_watermark_advanced(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""

    def changed(self, hosted: HostedPartition, transition: Transition) -> None:
        """See `PartitionListener`."""
        del transition
        if not _is_reported(hosted):
            self._waiting.pop(hosted.id, None)
            self._reported.pop(hosted.id, None)
        else:
            self.check(hosted)

    def check(self, hosted: HostedPartition) -> bool:
        """Report the directory of a replica; return False if the controller knows it, or if the metadata version does
        not support directories."""
        if not self._differs(hosted):
            return False
        self._waiting[hosted.id] = hosted
        self._requests.send()
        return True

    def _differs(self, hosted: HostedPartition) -> bool:
        metadata = hosted.replica.metadata
        if metadata is None or not metadata.directories or self._broker_id not in metadata.replicas:
            return False
        known = metadata.directories[metadata.replicas.index(self._broker_id)]
        return self._reported.get(hosted.id, known) != hosted.assigned_directory

    def stop(self) -> None:
        """Stop sending requests."""
        self._requests.stop()

    def _collect(self) -> list[Report] | None:
        differing = [hosted for hosted in self._waiting.values() if self._differs(hosted)]
        if not differing:
            self._waiting.clear()
        reports = [(hosted, hosted.assigned_directory) for hosted in differing[:MAX_ASSIGNMENTS]]
        self._reported.update((hosted.id, None) for hosted, _ in reports)
        return reports or None

    def _build(self, reports: list[Report], version: int) -> AssignReplicasToDirsRequest:
        del version
        directories: dict[KafkaUuid, dict[KafkaUuid, TopicData]] = {}
        for hosted, directory in reports:
            topics = directories.setdefault(directory, {})
            topic = topics.setdefault(hosted.id.topic_id, TopicData(hosted.id.topic_id))
            topic.partitions.append(PartitionData(hosted.id.number))
        return AssignReplicasToDirsRequest(
            self._broker_id,
            self._broker_epoch(),
            [DirectoryData(directory, list(topics.values())) for directory, topics in directories.items()],
        )

    def _handle_response(self, reports: list[Report], response: AssignReplicasToDirsResponse) -> float | None:
        accepted = {
            PartitionId(topic.topic_id, partition.partition_index)
            for directory in response.directories
            for topic in directory.topics
            for partition in topic.partitions
            if partition.error_code == ErrorCode.NONE
        }
        for hosted, directory in reports:
            self._reported.pop(hosted.id, None)
            is_accepted = hosted.id in accepted and _is_reported(hosted)
            if is_accepted:
                self._reported[hosted.id] = directory
                self._on_accepted(hosted, directory)
            if self._waiting.get(hosted.id) is hosted and not (is_accepted and self._differs(hosted)):
                del self._waiting[hosted.id]
        return 0.0 if self._waiting else None


def _is_reported(hosted: HostedPartition) -> bool:
    """Whether the controller needs the directory: the replica is open, or its directory has failed."""
    return hosted.is_open or not hosted.directory.is_online
