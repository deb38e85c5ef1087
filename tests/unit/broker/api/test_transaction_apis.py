"""Transactions on one broker, from the wire to the markers in the logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quorumd.broker.settings.coordinator_settings import TransactionSettings
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from quorumd.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from quorumd.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from quorumd.protocol.messages.end_txn_request import EndTxnRequest
from quorumd.protocol.messages.init_producer_id_request import InitProducerIdRequest
from quorumd.protocol.messages.list_transactions_request import ListTransactionsRequest
from quorumd.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from quorumd.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from quorumd.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.broker.api_clients import Client, cluster_with_groups
from tests.support.log.data_batches import produced

SETTINGS = TransactionSettings(topic_partitions=3, topic_replication_factor=1, topic_min_isr=1)


@pytest.fixture
def client() -> Client:
    cluster = cluster_with_groups(transactions=SETTINGS)
    cluster.create_topic("topic", (1,), (1,))
    client = Client(cluster)
    client.find_coordinator("g")
    client.find_coordinator("t", 1)
    cluster.run_for(1_000)
    return client


def init(client: Client, producer_id: int = -1, epoch: int = -1) -> Any:
    return client.call(InitProducerIdRequest("t", 60_000, producer_id, epoch))


def add(client: Client, producer: Any, *numbers: int) -> list[int]:
    topics = [AddPartitionsToTxnTopic("topic", list(numbers))]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics,
    )
    response = client.call(request, 3)
    return [
        each.partition_error_code for each in response.results_by_topic_v3_and_below[0].results_by_partition
    ]


def end(client: Client, producer: Any, is_commit: bool = True, version: int = 4) -> Any:
    return client.call(EndTxnRequest("t", producer.producer_id, producer.producer_epoch, is_commit), version)


def state(client: Client) -> Any:
    return client.call(DescribeTransactionsRequest(["t"])).transaction_states[0]


def markers(client: Client, number: int) -> int:
    hosted = client.cluster.hosted(1, "topic", number)
    assert hosted is not None
    return hosted.log.end_offset


def test_new_producer_fences_the_earlier_one(client: Client) -> None:
    first, second = init(client), init(client)
    assert first.error_code == second.error_code == 0
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)
    assert add(client, first, 0) == [ErrorCode.PRODUCER_FENCED]
    assert end(client, first).error_code == ErrorCode.PRODUCER_FENCED
    assert init(client, first.producer_id, 0).error_code == ErrorCode.PRODUCER_FENCED
    again = init(client, first.producer_id, 1)
    assert (again.error_code, again.producer_epoch) == (0, 2)
    assert init(client, first.producer_id, 1).producer_epoch == 2, "the first response may have been lost"


@pytest.mark.parametrize("is_commit", [True, False])
def test_transaction_ends_with_a_marker_in_every_partition(client: Client, is_commit: bool) -> None:
    producer = init(client)
    assert add(client, producer, 0, 1) == [0, 0]
    assert add(client, producer, 1) == [0]
    ongoing = state(client)
    assert (ongoing.transaction_state, ongoing.topics[0].partitions) == ("Ongoing", [0, 1])
    assert end(client, producer, is_commit).error_code == 0
    client.cluster.run_for(1_000)
    assert state(client).transaction_state == ("CompleteCommit" if is_commit else "CompleteAbort")
    assert (markers(client, 0), markers(client, 1)) == (1, 1)
    assert end(client, producer, is_commit).error_code == 0, "the first response may have been lost"
    assert end(client, producer, not is_commit).error_code == ErrorCode.INVALID_TXN_STATE


def test_every_transaction_of_version_2_raises_the_epoch(client: Client) -> None:
    producer = init(client)
    one = AddPartitionsToTxnTransaction(
        "t", producer.producer_id, 0, False, [AddPartitionsToTxnTopic("topic", [0])]
    )
    added = client.call(AddPartitionsToTxnRequest([one])).results_by_transaction[0]
    assert added.topic_results[0].results_by_partition[0].partition_error_code == 0
    ended = end(client, producer, version=5)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, producer.producer_id, 1)
    client.cluster.run_for(1_000)
    assert end(client, producer, version=5).producer_epoch == 1, "the first response may have been lost"
    assert end(client, producer, False, 5).error_code == ErrorCode.INVALID_TXN_STATE
    empty = end(client, ended, False, 5)
    assert (empty.error_code, empty.producer_epoch) == (0, 2), "an abort without records gives an epoch too"


def test_partitions_are_verified(client: Client) -> None:
    producer = init(client)
    add(client, producer, 0)
    one = AddPartitionsToTxnTransaction(
        "t", producer.producer_id, 0, True, [AddPartitionsToTxnTopic("topic", [0, 1])]
    )
    found = client.call(AddPartitionsToTxnRequest([one]), 4).results_by_transaction[0].topic_results[0]
    errors = [each.partition_error_code for each in found.results_by_partition]
    assert errors == [0, ErrorCode.TRANSACTION_ABORTABLE]
    unknown = AddPartitionsToTxnTransaction(
        "t", producer.producer_id, 0, False, [AddPartitionsToTxnTopic("x", [0])]
    )
    found = client.call(AddPartitionsToTxnRequest([unknown]), 4).results_by_transaction[0].topic_results[0]
    assert found.results_by_partition[0].partition_error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_transaction_that_lasts_too_long_is_aborted_and_its_producer_fenced(
    client: Client,
) -> None:
    producer = init(client)
    add(client, producer, 0)
    client.cluster.run_for(75_000)
    assert state(client).transaction_state == "CompleteAbort"
    assert markers(client, 0) == 1
    assert end(client, producer).error_code == ErrorCode.PRODUCER_FENCED


def test_new_producer_aborts_the_open_transaction(client: Client) -> None:
    producer = init(client)
    add(client, producer, 0)
    assert init(client).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    client.cluster.run_for(1_000)
    assert init(client).producer_epoch == producer.producer_epoch + 2
    assert markers(client, 0) == 1


def commit_offset(client: Client, producer: Any, version: int) -> int:
    partition = TxnOffsetCommitRequestPartition(0, 42)
    topics = [TxnOffsetCommitRequestTopic("topic", partitions=[partition])]
    request = TxnOffsetCommitRequest("t", "g", producer.producer_id, producer.producer_epoch, topics=topics)
    error: int = client.call(request, version).topics[0].partitions[0].error_code
    return error


def fetch_offset(client: Client) -> tuple[int, int]:
    topics = [OffsetFetchRequestTopics("topic", partition_indexes=[0])]
    response = client.call(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics)], require_stable=True), 9
    )
    found = response.groups[0].topics[0].partitions[0]
    return found.committed_offset, found.error_code


@pytest.mark.parametrize(("is_commit", "offset"), [(True, 42), (False, -1)])
def test_offsets_become_visible_with_their_transaction(client: Client, is_commit: bool, offset: int) -> None:
    producer = init(client)
    assert commit_offset(client, producer, 4) == ErrorCode.TRANSACTION_ABORTABLE
    added = client.call(AddOffsetsToTxnRequest("t", producer.producer_id, producer.producer_epoch, "g"))
    assert added.error_code == 0
    assert commit_offset(client, producer, 4) == 0
    assert fetch_offset(client) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert end(client, producer, is_commit).error_code == 0
    client.cluster.run_for(1_000)
    assert fetch_offset(client) == (offset, 0)


def test_broker_adds_the_offsets_of_a_client_of_version_2(client: Client) -> None:
    producer = init(client)
    assert commit_offset(client, producer, 5) == 0
    end(client, producer, version=5)
    client.cluster.run_for(1_000)
    assert fetch_offset(client) == (42, 0)


def test_transactions_are_listed(client: Client) -> None:
    producer = init(client)
    found = client.call(ListTransactionsRequest(["Empty", "Odd"], duration_filter=-1), 1)
    assert found.unknown_state_filters == ["Odd"]
    assert [(each.transactional_id, each.producer_id) for each in found.transaction_states] == [
        ("t", producer.producer_id)
    ]
    assert client.call(ListTransactionsRequest(["Ongoing"]), 1).transaction_states == []
    assert state(client).transaction_timeout_ms == 60_000
    unknown = client.call(DescribeTransactionsRequest(["other"])).transaction_states[0]
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_timeout_has_a_maximum(client: Client) -> None:
    response = client.call(InitProducerIdRequest("t", SETTINGS.max_timeout_ms + 1))
    assert response.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_ending_transaction_survives_a_restart(client: Client) -> None:
    producer = init(client)
    add(client, producer, 0)
    client.send(EndTxnRequest("t", producer.producer_id, producer.producer_epoch, True), 4)
    broker = client.cluster.brokers[1]
    broker.kill()
    broker.settings = replace(broker.settings)
    client.cluster.run_for(20_000)
    broker.start()
    client.cluster.run_until(lambda: broker.is_unfenced)
    client.find_coordinator("t", 1)
    client.cluster.run_for(15_000)
    assert state(client).transaction_state == "CompleteCommit"
    assert markers(client, 0) == 1


def produce(client: Client, producer: Any, sequence: int, version: int) -> int:
    error: int = produced_to(client, producer, 0, sequence, version).error_code
    return error


def produced_to(client: Client, producer: Any, number: int, sequence: int, version: int) -> Any:
    records = produced(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        sequence=sequence,
        transactional=True,
    )
    topics = [TopicProduceData("topic", partition_data=[PartitionProduceData(number, records)])]
    response = client.call(ProduceRequest("t", -1, 1_000, topics), version)
    return response.responses[0].partition_responses[0]


def test_batch_outside_of_the_transaction_is_refused(client: Client) -> None:
    producer = init(client)
    assert produce(client, producer, 0, 10) == ErrorCode.INVALID_TXN_STATE
    assert produce(client, producer, 0, 11) == ErrorCode.TRANSACTION_ABORTABLE
    assert markers(client, 0) == 0
    add(client, producer, 0)
    assert [produce(client, producer, sequence, 11) for sequence in (0, 1)] == [0, 0]


@pytest.mark.parametrize(
    ("transactional_id", "error"),
    [(None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), ("", ErrorCode.INVALID_PRODUCER_ID_MAPPING)],
)
def test_transactional_batch_needs_a_transactional_id(
    client: Client, transactional_id: str | None, error: ErrorCode
) -> None:
    """Otherwise it began a transaction that no coordinator ends, and consumers of committed records waited."""
    producer = init(client)
    records = produced(producer_id=producer.producer_id, producer_epoch=0, sequence=0, transactional=True)
    topics = [TopicProduceData("topic", partition_data=[PartitionProduceData(0, records)])]
    response = client.call(ProduceRequest(transactional_id, -1, 1_000, topics), 11)
    assert response.responses[0].partition_responses[0].error_code == error


def test_clients_cannot_add_internal_topics(client: Client) -> None:
    producer = init(client)
    topics = [AddPartitionsToTxnTopic(name, [0]) for name in ("topic", "__consumer_offsets")]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics,
    )
    results = client.call(request, 3).results_by_topic_v3_and_below
    assert [(each.name, each.results_by_partition[0].partition_error_code) for each in results] == [
        ("topic", ErrorCode.OPERATION_NOT_ATTEMPTED),
        ("__consumer_offsets", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]


def test_leader_adds_the_partition_of_a_client_of_version_2(client: Client) -> None:
    producer = init(client)
    assert [produce(client, producer, sequence, 12) for sequence in (0, 1)] == [0, 0]
    assert state(client).topics[0].partitions == [0]
    ended = end(client, producer, version=5)
    client.cluster.run_for(1_000)
    assert markers(client, 0) == 3
    assert produce(client, ended, 0, 12) == 0, "the next transaction begins with the new epoch"


def test_leader_waits_until_the_previous_transaction_is_complete(client: Client) -> None:
    producer = init(client)
    assert produce(client, producer, 0, 12) == 0
    ended = end(client, producer, version=5)
    assert state(client).transaction_state == "PrepareCommit"
    assert produce(client, ended, 0, 12) == 0
    assert markers(client, 0) == 3


def test_transaction_that_does_not_complete_is_named_as_the_cause() -> None:
    cluster = cluster_with_groups((1, 2), transactions=SETTINGS)
    cluster.create_topic("topic", (1,), (2,))
    client = Client(cluster)
    client.find_coordinator("t", 1)
    cluster.run_for(1_000)
    producer, own = init(client), client.broker_id - 1
    assert add(client, producer, 1 - own) == [0]
    cluster.brokers[3 - client.broker_id].kill()
    ended = end(client, producer, version=5)
    concurrent = produced_to(client, ended, own, 0, 12)
    assert concurrent.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert "still completing" in concurrent.error_message
    older = produced_to(client, ended, own, 0, 11)
    assert older.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert "CONCURRENT_TRANSACTIONS" in older.error_message
