"""DescribeLogDirs and AlterReplicaLogDirs."""

from __future__ import annotations

from collections.abc import Iterable

from quorumd.broker.api.context import BrokerApiContext
from quorumd.broker.log_management.directories import LogDirectory
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.errors import ErrorCode, RequestError
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from quorumd.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from quorumd.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from quorumd.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from quorumd.protocol.routes import Route, Session


class LogDirApis:
    """A replica stays in its log directory: a request to move it to another one is refused."""

    def __init__(self, context: BrokerApiContext) -> None:
        self._context = context

    def routes(self) -> Iterable[Route]:
        return (
            Route(DescribeLogDirsRequest, self.describe_log_dirs),
            Route(AlterReplicaLogDirsRequest, self.alter_replica_log_dirs),
        )

    def describe_log_dirs(self, session: Session, request: Request[DescribeLogDirsRequest]) -> None:
        """List the log directories with the sizes of the requested partitions, of all if none are named."""
        topics = request.message.topics
        wanted: set[tuple[str, int]] | None = None
        if topics is not None:
            wanted = {(topic.topic, number) for topic in topics for number in topic.partitions}
        by_path: dict[str, list[HostedPartition]] = {}
        for hosted in self._context.partitions.all():
            if wanted is None or (hosted.topic, hosted.id.number) in wanted:
                by_path.setdefault(hosted.directory.path, []).append(hosted)
        results = [
            self._described(directory, by_path.get(directory.path, []))
            for directory in self._context.partitions.directories.all
        ]
        session.respond(request, DescribeLogDirsResponse(0, 0, results))

    def _described(self, directory: LogDirectory, partitions: list[HostedPartition]) -> DescribeLogDirsResult:
        if not directory.is_online:
            return DescribeLogDirsResult(int(ErrorCode.KAFKA_STORAGE_ERROR), directory.path)
        topics: dict[str, DescribeLogDirsTopic] = {}
        for hosted in sorted(partitions, key=lambda each: (each.topic, each.id.number)):
            topic = topics.setdefault(hosted.topic, DescribeLogDirsTopic(hosted.topic))
            lag = max(0, hosted.replica.high_watermark - hosted.log.end_offset)
            topic.partitions.append(DescribeLogDirsPartition(hosted.id.number, hosted.log.size_bytes, lag))
        try:
            usable = self._context.disk.free_bytes(directory.path)
        except OSError:
            usable = -1
        return DescribeLogDirsResult(0, directory.path, list(topics.values()), -1, usable)

    def alter_replica_log_dirs(self, session: Session, request: Request[AlterReplicaLogDirsRequest]) -> None:
        """Accept a request for the directory in which the replica is, and refuse any other."""
        topics: dict[str, AlterReplicaLogDirTopicResult] = {}
        for directory in request.message.dirs:
            for topic in directory.topics:
                result = topics.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic.name))
                for number in topic.partitions:
                    error = self._move(directory.path, topic.name, number)
                    result.partitions.append(AlterReplicaLogDirPartitionResult(number, int(error)))
        session.respond(request, AlterReplicaLogDirsResponse(0, list(topics.values())))

    def _move(self, path: str, topic: str, number: int) -> ErrorCode:
        directories = self._context.partitions.directories.all
        found = next((each for each in directories if each.path == path.rstrip("/")), None)
        if found is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if not found.is_online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        try:
            hosted = self._context.partitions.find(topic, number)
        except RequestError as unavailable:
            is_elsewhere = unavailable.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else unavailable.error
        return ErrorCode.NONE if hosted.directory is found else ErrorCode.INVALID_REPLICA_ASSIGNMENT
