"""Errors are found at every level of a response."""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.protocol.messages import (
    add_partitions_to_txn_response,
    alter_partition_response,
    create_topics_response,
)
from quorumd.protocol.messages.api_versions_response import ApiVersionsResponse
from quorumd.protocol.response_errors import errors_in

NOT_CONTROLLER, FENCED = int(ErrorCode.NOT_CONTROLLER), int(ErrorCode.FENCED_LEADER_EPOCH)


def test_errors_of_all_levels_are_found_outermost_first() -> None:
    wire = alter_partition_response
    partitions = [
        wire.PartitionData(partition_index=number, error_code=number % 2 * FENCED) for number in range(3)
    ]
    topics = [wire.TopicData(partitions=[]), wire.TopicData(partitions=partitions)]
    response = wire.AlterPartitionResponse(error_code=NOT_CONTROLLER, topics=topics)
    assert errors_in(response) == [(NOT_CONTROLLER, None), (FENCED, None)]
    response.error_code = 0
    assert errors_in(response) == [(FENCED, None)]


def test_error_messages_have_their_codes() -> None:
    wire = create_topics_response
    topics = [
        wire.CreatableTopicResult(name="orders", error_code=FENCED, error_message="why"),
        wire.CreatableTopicResult(name="invoices", configs=None),
    ]
    assert errors_in(wire.CreateTopicsResponse(topics=topics)) == [(FENCED, "why")]


def test_errors_of_partitions_in_a_transaction_are_found() -> None:
    wire = add_partitions_to_txn_response
    partitions = [
        wire.AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=number * FENCED)
        for number in range(2)
    ]
    topics = [wire.AddPartitionsToTxnTopicResult(name="orders", results_by_partition=partitions)]
    response = wire.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
    assert errors_in(response) == [(FENCED, None)]


def test_response_without_errors_has_none() -> None:
    assert errors_in(ApiVersionsResponse()) == []
    assert errors_in(create_topics_response.CreateTopicsResponse()) == []
