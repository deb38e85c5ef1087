from __future__ import annotations

from copy import copy

import pytest

from quorumd.broker.log_management.directories import DirectorySpace
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from quorumd.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.support.broker.api_clients import Client
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.call_counter import CallCounter
from tests.support.node.recording_session import DecodingSession


@pytest.fixture
def cluster() -> SimulatedBrokers:
    cluster = SimulatedBrokers(log_directories=("/first", "/second"))
    cluster.start()
    cluster.create_topic("events", (1,), (1,))
    for number in (0, 1):
        cluster.await_leader("events", number)
        cluster.produce_and_wait("events", number=number)
    return cluster


def path_of(cluster: SimulatedBrokers, number: int) -> str:
    hosted = cluster.hosted(1, "events", number)
    assert hosted is not None
    return hosted.directory.path


@pytest.mark.parametrize("version", range(1, 6))
def test_directories_are_listed_with_the_sizes_of_their_logs(cluster: SimulatedBrokers, version: int) -> None:
    client = Client(cluster)
    wanted = [DescribableLogDirTopic("events", [1])]
    for topics, numbers in ((None, {0, 1}), (wanted, {1}), ([], set())):
        response = client.call(DescribeLogDirsRequest(topics), version)
        assert [each.log_dir for each in response.results] == ["/first", "/second"]
        found = {
            (each.partition_index, result.log_dir, each.partition_size > 0)
            for result in response.results
            for topic in result.topics
            for each in topic.partitions
        }
        assert found == {(number, path_of(cluster, number), True) for number in numbers}
        if version >= 4:
            assert all(each.total_bytes > each.usable_bytes > 0 for each in response.results)


def test_failed_directory_has_an_error(cluster: SimulatedBrokers) -> None:
    partitions = cluster.brokers[1].broker.partitions
    failed = partitions.directories.all[0]
    partitions.fail_directory(failed, "the disk is broken")
    assert partitions.logs.space(failed) == DirectorySpace()
    first, second = Client(cluster).call(DescribeLogDirsRequest(None)).results
    assert (first.error_code, first.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert second.error_code == 0


def test_replica_moves_and_its_future_log_is_listed(cluster: SimulatedBrokers) -> None:
    own = path_of(cluster, 0)
    (other,) = {"/first", "/second"} - {own}
    cluster.abandons_request = lambda request: request.API_KEY == ApiKey.ASSIGN_REPLICAS_TO_DIRS

    def moved(path: str, number: int) -> int:
        directories = [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic("events", [number])])]
        response = Client(cluster).call(AlterReplicaLogDirsRequest(directories))
        error: int = response.results[0].partitions[0].error_code
        return error

    def listed() -> set[tuple[str, bool, int]]:
        wanted = [DescribableLogDirTopic("events", [0])]
        return {
            (result.log_dir, each.is_future_key, each.offset_lag)
            for result in Client(cluster).call(DescribeLogDirsRequest(wanted)).results
            for topic in result.topics
            for each in topic.partitions
        }

    assert [moved(path, 0) for path in (own, f"{own}/", "/third")] == [0, 0, ErrorCode.LOG_DIR_NOT_FOUND]
    assert moved(own, 9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert listed() == {(own, False, 0)}
    assert moved(other, 0) == 0
    cluster.run_for(1_000.0)
    cluster.produce_and_wait("events", number=0)
    assert listed() == {(own, False, 0), (other, True, 1)}
    cluster.abandons_request = lambda request: False
    cluster.run_until(lambda: path_of(cluster, 0) == other)
    assert listed() == {(other, False, 0)}


def test_response_waits_for_every_future_directory(cluster: SimulatedBrokers) -> None:
    targets = [{"/first": "/second", "/second": "/first"}[path_of(cluster, number)] for number in (0, 1)]
    wanted = [
        AlterReplicaLogDir(path, [AlterReplicaLogDirTopic("events", [number])])
        for number, path in enumerate(targets)
    ]
    cluster.abandons_request = lambda request: request.API_KEY == ApiKey.ASSIGN_REPLICAS_TO_DIRS
    (topic,) = Client(cluster).call(AlterReplicaLogDirsRequest(wanted)).results
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(0, 0), (1, 0)]
    for number, path in enumerate(targets):
        names = cluster.brokers[1].disk.list_directory(path)
        assert any(name.startswith(f"events-{number}.") and name.endswith("-future") for name in names)


def test_request_without_partitions_gets_a_response(cluster: SimulatedBrokers) -> None:
    assert Client(cluster).call(AlterReplicaLogDirsRequest([])).results == []


@pytest.mark.parametrize("is_of_all", [True, False])
def test_turns_of_a_description_are_bounded(is_of_all: bool) -> None:
    """Directories with 10,000 logs took 60 ms in one turn, and so did a request for as many partitions."""
    longest = []
    for count in (1000, 4000):
        cluster = SimulatedBrokers(log_directories=("/first", "/second"))
        cluster.start()
        cluster.create_topic("events", (1,))
        cluster.await_leader("events")
        partitions = cluster.brokers[1].broker.partitions
        hosted = partitions.all()[0]
        if is_of_all:
            for number in range(1, count):
                id = PartitionId(hosted.id.topic_id, number)
                partitions.hosted_by_id[id] = copy(hosted)
                partitions.hosted_by_id[id].id = id
        client, calls = Client(cluster), CallCounter()
        client.session = DecodingSession()
        wanted = None if is_of_all else [DescribableLogDirTopic("events", list(range(count)))]
        with calls.counted():
            client.send(DescribeLogDirsRequest(wanted))
        while not client.responses:
            with calls.counted():
                cluster.heap.step(cluster.heap.now_ms + 1000)
        (response,) = client.responses
        described = [
            each for result in response.results for topic in result.topics for each in topic.partitions
        ]
        assert len(described) == (count if is_of_all else 1)
        longest.append(calls.longest)
    assert longest[1] <= 1.2 * longest[0]
