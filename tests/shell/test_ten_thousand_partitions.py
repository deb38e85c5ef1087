"""What a topic of more than 10,000 partitions costs real daemons: large answers, and no leadership."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from quorumd.client.admin import AdminClient
from quorumd.client.connection import NodeConnection
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from quorumd.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.wire import Message
from tests.support.processes.daemons import PATIENCE_S, Cluster
from tests.support.processes.fake_broker import BrokerStandIn, brokers

T = TypeVar("T")

PROPERTIES = "quorum.fetch.timeout.ms=3000\nquorum.request.timeout.ms=3000\n"
"""A leader that answered all of it in one turn would be silent for longer."""
FIRST, SECOND = BROKERS = (101, 102)
PARTITIONS = 12_000
IN_ONE_REQUEST = 10_000
"""How many partitions one request may create."""
PIPELINED = 50
MOVED = 11_000


@pytest.fixture(scope="module")
def large(_cluster_of_module: Cluster) -> Iterator[list[BrokerStandIn]]:
    """The brokers of topic `large`: the first one has all partitions."""
    cluster = _cluster_of_module
    with brokers(cluster, BROKERS) as started:

        async def create() -> None:
            async with AdminClient(cluster.addresses) as admin:
                everywhere = {number: [FIRST] for number in range(IN_ONE_REQUEST)}
                await admin.create_topic("large", assignments=everywhere)
                await admin.add_partitions("large", PARTITIONS)

        asyncio.run(create())
        yield started


def at_leader(cluster: Cluster, ask: Callable[[NodeConnection], Awaitable[T]]) -> T:
    """What one connection to the leader gives; it led in the same epoch before and after."""

    async def asking() -> T:
        connection = await NodeConnection.open(*leader.address)
        try:
            return await asyncio.wait_for(ask(connection), PATIENCE_S)
        finally:
            connection.close()

    leader, before = cluster.leader(), cluster.leader_says()
    found = asyncio.run(asking())
    after = cluster.leader_says()
    assert (after.leader, after.epoch) == (before.leader, before.epoch), "the leadership was lost"
    return found


async def pipelined(connection: NodeConnection, requests: list[Message]) -> list[tuple[int, Any]]:
    """Their answers in the order in which they came, with the number of the request."""
    answers: list[tuple[int, Any]] = []
    all_came = asyncio.Event()

    def came(number: int, outcome: Any) -> None:
        answers.append((number, outcome))
        if len(answers) == len(requests):
            all_came.set()

    for number, request in enumerate(requests):
        connection.submit(request, lambda outcome, number=number: came(number, outcome))
    await all_came.wait()
    return answers


async def topic_id(connection: NodeConnection) -> KafkaUuid:
    (topic,) = (await metadata(connection)).topics
    return KafkaUuid(topic.topic_id)


async def metadata(connection: NodeConnection) -> Any:
    return await connection.send(MetadataRequest([MetadataRequestTopic(name="large")]))


@pytest.mark.usefixtures("large")
def test_pipelined_requests_are_answered_in_order_and_whole(cluster: Cluster) -> None:
    asked = [MetadataRequest([MetadataRequestTopic(name="large")]) for _ in range(PIPELINED)]
    requests: list[Message] = [message for each in asked for message in (each, DescribeClusterRequest())]
    answers = at_leader(cluster, lambda connection: pipelined(connection, requests))
    assert [number for number, _ in answers] == list(range(2 * PIPELINED))
    assert all(isinstance(small, DescribeClusterResponse) for _, small in answers[1::2])
    for _, whole in answers[::2]:
        (topic,) = whole.topics
        assert [partition.partition_index for partition in topic.partitions] == list(range(PARTITIONS))
        assert {FIRST} <= {partition.leader_id for partition in topic.partitions} <= set(BROKERS)
        assert {broker.node_id for broker in whole.brokers} >= set(BROKERS)


def test_isr_changes_of_all_partitions_are_answered(cluster: Cluster, large: list[BrokerStandIn]) -> None:
    async def propose(connection: NodeConnection) -> Any:
        where = await topic_id(connection)
        partitions = [
            PartitionData(number, 0, new_isr_with_epochs=[BrokerState(FIRST, large[0].epoch)])
            for number in range(PARTITIONS)
        ]
        request = AlterPartitionRequest(
            FIRST, large[0].epoch, [TopicData(topic_id=where, partitions=partitions)]
        )
        return await connection.send(request)

    answer = at_leader(cluster, propose)
    assert answer.error_code == 0
    (topic,) = answer.topics
    assert len(topic.partitions) == PARTITIONS


@pytest.mark.usefixtures("large")
def test_reassignments_of_most_partitions_are_answered(cluster: Cluster) -> None:
    async def move(connection: NodeConnection) -> Any:
        wanted = [ReassignablePartition(number, [SECOND]) for number in range(MOVED)]
        return await connection.send(
            AlterPartitionReassignmentsRequest(60_000, topics=[ReassignableTopic("large", wanted)])
        )

    answer = at_leader(cluster, move)
    assert answer.error_code == 0
    (topic,) = answer.responses
    assert [(item.partition_index, item.error_code) for item in topic.partitions] == [
        (number, 0) for number in range(MOVED)
    ]
