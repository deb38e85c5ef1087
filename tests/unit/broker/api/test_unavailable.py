"""Responses of a broker while a partition, a log, a directory or a coordinator is not available."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.broker.settings.coordinator_settings import TransactionSettings
from quorumd.errors import ErrorCode, StorageError
from quorumd.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from quorumd.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from quorumd.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from quorumd.protocol.messages.delete_groups_request import DeleteGroupsRequest
from quorumd.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from quorumd.protocol.messages.describe_groups_request import DescribeGroupsRequest
from quorumd.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from quorumd.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from quorumd.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from quorumd.protocol.messages.init_producer_id_request import InitProducerIdRequest
from quorumd.protocol.messages.leave_group_request import LeaveGroupRequest
from quorumd.protocol.messages.list_groups_request import ListGroupsRequest
from quorumd.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from quorumd.protocol.messages.list_transactions_request import ListTransactionsRequest
from quorumd.protocol.messages.offset_fetch_request import OffsetFetchRequest
from quorumd.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.broker.api_clients import Client, cluster_with_groups
from tests.support.broker.simulated_brokers import SimulatedBrokers

OFFSETS = "__consumer_offsets"
TRANSACTIONS = TransactionSettings(topic_partitions=3, topic_replication_factor=1, topic_min_isr=1)


@pytest.fixture
def cluster() -> SimulatedBrokers:
    cluster = SimulatedBrokers((1, 2), log_directories=("/first", "/second"))
    cluster.start()
    cluster.create_topic("events", (1, 2), min_insync_replicas="1", retention_ms="-1")
    cluster.create_topic("elsewhere", (2,))
    assert cluster.produce_and_wait("events").error is ErrorCode.NONE
    cluster.await_leader("elsewhere")
    return cluster


@pytest.fixture
def coordinator() -> Client:
    """A client of a broker that coordinates groups and transactions."""
    client = Client(cluster_with_groups(transactions=TRANSACTIONS))
    client.find_coordinator("g")
    client.find_coordinator("t", 1)
    client.cluster.run_for(1_000)
    return client


def log_of(cluster: SimulatedBrokers) -> Any:
    hosted = cluster.hosted(1, "events")
    assert hosted is not None
    return hosted.log


def fail(*arguments: object, **options: object) -> None:
    raise StorageError("a bad block")


def list_offsets(client: Client, topic: str, version: int = 11) -> Any:
    partition = ListOffsetsPartition(0, timestamp=1)
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, [partition])])
    return client.call(request, version).topics[0].partitions[0]


def test_offsets_are_those_of_the_leader(cluster: SimulatedBrokers) -> None:
    client = Client(cluster)
    assert list_offsets(client, "elsewhere").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert list_offsets(client, "unknown").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offsets(client, "events").offset == 0


def test_log_that_cannot_be_read_for_its_offsets(
    cluster: SimulatedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_of(cluster), "offset_of_timestamp", fail)
    assert list_offsets(Client(cluster), "events").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert list_offsets(Client(cluster), "events").error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_log_that_cannot_be_read_for_a_fetch(
    cluster: SimulatedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_of(cluster), "find", fail)
    topic_id = cluster.controller.image.topic_ids["events"]
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic("", topic_id, [partition])])
    response = Client(cluster).call(request)
    assert response.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [each.is_online for each in cluster.brokers[1].broker.directories.all].count(False) == 1


def delete_records(offset: int, timeout_ms: int = 5_000) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        [DeleteRecordsTopic("events", [DeleteRecordsPartition(0, offset)])], timeout_ms
    )


def deletion_error(response: Any) -> int:
    error: int = response.topics[0].partitions[0].error_code
    return error


def test_records_cannot_be_deleted_from_a_failed_log(
    cluster: SimulatedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_of(cluster), "delete_before", fail)
    assert deletion_error(Client(cluster).call(delete_records(1))) == ErrorCode.KAFKA_STORAGE_ERROR


def test_deletion_ends_with_the_leadership(cluster: SimulatedBrokers) -> None:
    cluster.brokers[2].kill()
    client = Client(cluster)
    client.send(delete_records(1, timeout_ms=60_000))
    cluster.delete_topic("events")
    cluster.run_until(lambda: bool(client.responses))
    assert deletion_error(client.responses[0]) == ErrorCode.UNKNOWN_TOPIC_ID


def test_space_that_cannot_be_measured_is_unknown(
    cluster: SimulatedBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def free_bytes(path: str) -> int:
        raise OSError(path)

    monkeypatch.setattr(cluster.brokers[1].disk, "free_bytes", free_bytes)
    results = Client(cluster).call(DescribeLogDirsRequest(None)).results
    assert [(each.error_code, each.total_bytes, each.usable_bytes) for each in results] == [(0, -1, -1)] * 2


def test_replica_is_not_moved_to_a_failed_directory(cluster: SimulatedBrokers) -> None:
    directories = cluster.brokers[1].broker.directories.all
    cluster.brokers[1].broker.partitions.fail_directory(directories[0], "a test")
    wanted = [
        AlterReplicaLogDir("/first", [AlterReplicaLogDirTopic("events", [0])]),
        AlterReplicaLogDir("/second", [AlterReplicaLogDirTopic("elsewhere", [0])]),
    ]
    results = Client(cluster).call(AlterReplicaLogDirsRequest(wanted)).results
    errors = {topic.topic_name: topic.partitions[0].error_code for topic in results}
    assert errors == {
        "events": ErrorCode.KAFKA_STORAGE_ERROR,
        "elsewhere": ErrorCode.REPLICA_NOT_AVAILABLE,
    }


# Coordinators


def write_markers(client: Client, topic: str, number: int = 0) -> int:
    marker = WritableTxnMarker(7, 0, True, [WritableTxnMarkerTopic(topic, [number])])
    response = client.call(WriteTxnMarkersRequest([marker]))
    error: int = response.markers[0].topics[0].partitions[0].error_code
    return error


def test_markers_are_written_by_the_leader(cluster: SimulatedBrokers) -> None:
    client = Client(cluster)
    assert write_markers(client, "events") == ErrorCode.NONE
    assert write_markers(client, "elsewhere") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert write_markers(client, "unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_coordinator_that_is_loading_has_an_error(coordinator: Client) -> None:
    coordinators = coordinator.cluster.brokers[1].broker.coordinators
    for shards in (coordinators._groups, coordinators._transactions):
        for shard in shards.all():
            shard.is_active = False
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    client = Client(coordinator.cluster)
    assert coordinator.call(ListGroupsRequest()).error_code == loading
    assert coordinator.call(ListTransactionsRequest()).error_code == loading
    assert coordinator.call(DescribeGroupsRequest(["g"])).groups[0].error_code == loading
    assert coordinator.call(ConsumerGroupDescribeRequest(["g"])).groups[0].error_code == loading
    assert coordinator.call(DescribeTransactionsRequest(["t"])).transaction_states[0].error_code == loading
    assert coordinator.call(LeaveGroupRequest("g")).error_code == loading
    assert coordinator.call(InitProducerIdRequest("t", 1000)).error_code == loading
    assert {write_markers(client, OFFSETS, number) for number in range(3)} == {loading}


def test_empty_requests_have_empty_responses(coordinator: Client) -> None:
    assert coordinator.call(DeleteGroupsRequest([])).results == []
    assert coordinator.call(AddPartitionsToTxnRequest([])).results_by_transaction == []
    assert coordinator.call(OffsetFetchRequest(groups=[])).groups == []
    assert coordinator.call(WriteTxnMarkersRequest([])).markers == []
