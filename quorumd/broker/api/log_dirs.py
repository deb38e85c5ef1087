"""DescribeLogDirs and AlterReplicaLogDirs."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial

from quorumd.broker.api.context import BrokerApiContext
from quorumd.broker.log_management.directories import LogDirectory
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.errors import ErrorCode
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
from quorumd.protocol.response_task import begin_response
from quorumd.protocol.routes import Route, Session


class LogDirApis:
    """Handles DescribeLogDirs and AlterReplicaLogDirs."""

    def __init__(self, context: BrokerApiContext) -> None:
        self._context = context

    def routes(self) -> Iterable[Route]:
        return (
            Route(DescribeLogDirsRequest, self.describe_log_dirs),
            Route(AlterReplicaLogDirsRequest, self.alter_replica_log_dirs),
        )

    def describe_log_dirs(self, session: Session, request: Request[DescribeLogDirsRequest]) -> None:
        """List the log directories with the sizes of the requested partitions, or of all if none are requested, in
        slices."""
        begin_response(session, request, self._listed(request.message), self._context.begin)

    def _listed(self, message: DescribeLogDirsRequest) -> Generator[None, None, DescribeLogDirsResponse]:
        wanted: set[tuple[str, int]] = set()
        for requested in message.topics or ():
            for number in requested.partitions:
                wanted.add((requested.topic, number))
                yield
        topics: dict[tuple[str, str], DescribeLogDirsTopic] = {}
        by_path: dict[str, list[DescribeLogDirsTopic]] = {}
        for hosted in self._context.partitions.all():
            yield
            is_wanted = message.topics is None or (hosted.topic, hosted.id.number) in wanted
            if not hosted.is_open or not is_wanted:
                continue
            for directory, described in _described(hosted):
                topic = topics.get((directory.path, hosted.topic))
                if topic is None:
                    topic = topics[directory.path, hosted.topic] = DescribeLogDirsTopic(hosted.topic)
                    by_path.setdefault(directory.path, []).append(topic)
                topic.partitions.append(described)
        results = [
            self._result(directory, by_path.get(directory.path, []))
            for directory in self._context.partitions.directories.all
        ]
        return DescribeLogDirsResponse(0, 0, results)

    def _result(self, directory: LogDirectory, topics: list[DescribeLogDirsTopic]) -> DescribeLogDirsResult:
        if not directory.is_online:
            return DescribeLogDirsResult(int(ErrorCode.KAFKA_STORAGE_ERROR), directory.path)
        is_cordoned = directory.is_cordoned and self._context.metadata.has_cordons
        space = self._context.partitions.logs.space(directory)
        return DescribeLogDirsResult(0, directory.path, topics, *space, is_cordoned)

    def alter_replica_log_dirs(self, session: Session, request: Request[AlterReplicaLogDirsRequest]) -> None:
        """Move replicas to other log directories. A success means that the move will survive a restart."""
        topics: dict[str, AlterReplicaLogDirTopicResult] = {}
        undecided: list[tuple[str, str, AlterReplicaLogDirPartitionResult]] = []
        for directory in request.message.dirs:
            for topic in directory.topics:
                results = topics.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic.name)).partitions
                for number in topic.partitions:
                    results.append(AlterReplicaLogDirPartitionResult(number))
                    undecided.append((topic.name, directory.path, results[-1]))
        response, remaining = AlterReplicaLogDirsResponse(0, list(topics.values())), len(undecided)

        def decide(result: AlterReplicaLogDirPartitionResult, error: ErrorCode) -> None:
            nonlocal remaining
            result.error_code = int(error)
            remaining -= 1
            if remaining == 0:
                session.respond(request, response)

        for name, path, result in undecided:
            self._context.moves.alter(name, result.partition_index, path, partial(decide, result))
        if not undecided:
            session.respond(request, response)


def _described(hosted: HostedPartition) -> Iterable[tuple[LogDirectory, DescribeLogDirsPartition]]:
    """Yield the log of a partition and the log of its future replica, each with its directory."""
    log, future = hosted.log, hosted.future
    lag = max(0, hosted.replica.high_watermark - log.end_offset)
    yield hosted.directory, DescribeLogDirsPartition(hosted.id.number, log.size_bytes, lag)
    if future is not None and future.log is not None:
        lag = log.end_offset - future.log.end_offset
        described = DescribeLogDirsPartition(hosted.id.number, future.log.size_bytes, lag, is_future_key=True)
        yield future.directory, described
