"""A topic of more than 10,000 partitions on real daemons: large responses cost no leadership."""

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
from quorumd.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.wire import Message
from tests.support.processes.daemons import PATIENCE_S, Cluster
from tests.support.processes.fake_broker import BrokerStandIn, brokers

T = TypeVar("T")

PROPERTIES = "quorum.fetch.timeout.ms=3000\nquorum.request.timeout.ms=3000\n"
"""Shorter than the time that a leader would need for such a response in one turn."""
FIRST, SECOND = BROKERS = (101, 102)
PARTITIONS = 12_000
IN_ONE_REQUEST = 10_000
"""Maximum number of partitions that one request may create."""
PIPELINED = 50
MOVED = 11_000
TOO_MANY = 30_000


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


def at_leader(cluster: Cluster, call: Callable[[NodeConnection], Awaitable[T]]) -> T:
    """Run `call` on a connection to the leader, and check that it leads in the same epoch afterwards."""

    async def run() -> T:
        connection = await NodeConnection.open(*leader.address)
        try:
            return await asyncio.wait_for(call(connection), PATIENCE_S)
        finally:
            connection.close()

    leader, before = cluster.leader(), cluster.leader_quorum()
    found = asyncio.run(run())
    after = cluster.leader_quorum()
    assert (after.leader, after.epoch) == (before.leader, before.epoch), "the leadership changed"
    return found


async def pipelined(connection: NodeConnection, requests: list[Message]) -> list[tuple[int, Any]]:
    """Send requests at once; returns the responses in their order of arrival, with the number of the request."""
    responses: list[tuple[int, Any]] = []
    all_came = asyncio.Event()

    def came(number: int, outcome: Any) -> None:
        responses.append((number, outcome))
        if len(responses) == len(requests):
            all_came.set()

    for number, request in enumerate(requests):
        connection.submit(request, lambda outcome, number=number: came(number, outcome))
    await all_came.wait()
    return responses


async def topic_id(connection: NodeConnection) -> KafkaUuid:
    (topic,) = (await metadata(connection)).topics
    return KafkaUuid(topic.topic_id)


async def metadata(connection: NodeConnection) -> Any:
    return await connection.send(MetadataRequest([MetadataRequestTopic(name="large")]))


@pytest.mark.usefixtures("large")
def test_pipelined_requests_get_complete_responses_in_order(cluster: Cluster) -> None:
    fetches = [MetadataRequest([MetadataRequestTopic(name="large")]) for _ in range(PIPELINED)]
    requests: list[Message] = [message for each in fetches for message in (each, DescribeClusterRequest())]
    responses = at_leader(cluster, lambda connection: pipelined(connection, requests))
    assert [number for number, _ in responses] == list(range(2 * PIPELINED))
    assert all(isinstance(small, DescribeClusterResponse) for _, small in responses[1::2])
    for _, whole in responses[::2]:
        (topic,) = whole.topics
        assert [partition.partition_index for partition in topic.partitions] == list(range(PARTITIONS))
        assert {FIRST} <= {partition.leader_id for partition in topic.partitions} <= set(BROKERS)
        assert {broker.node_id for broker in whole.brokers} >= set(BROKERS)


def test_isr_changes_of_all_partitions_succeed(cluster: Cluster, large: list[BrokerStandIn]) -> None:
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

    response = at_leader(cluster, propose)
    assert response.error_code == 0
    (topic,) = response.topics
    assert len(topic.partitions) == PARTITIONS


@pytest.mark.usefixtures("large")
def test_reassignments_of_most_partitions_succeed(cluster: Cluster) -> None:
    async def move(connection: NodeConnection) -> Any:
        wanted = [ReassignablePartition(number, [SECOND]) for number in range(MOVED)]
        return await connection.send(
            AlterPartitionReassignmentsRequest(60_000, topics=[ReassignableTopic("large", wanted)])
        )

    response = at_leader(cluster, move)
    assert response.error_code == 0
    (topic,) = response.responses
    assert [(item.partition_index, item.error_code) for item in topic.partitions] == [
        (number, 0) for number in range(MOVED)
    ]


@pytest.mark.usefixtures("large")
def test_creation_of_too_many_partitions_is_refused_with_an_error(cluster: Cluster) -> None:
    async def create(connection: NodeConnection) -> Any:
        everywhere = [CreatableReplicaAssignment(number, [FIRST]) for number in range(TOO_MANY)]
        topics = [CreatableTopic("too-large", -1, -1, everywhere), CreatableTopic("small", 1, 1)]
        return await connection.send(CreateTopicsRequest(topics, 60_000))

    response = at_leader(cluster, create)
    errors = {topic.name: (topic.error_code, topic.error_message) for topic in response.topics}
    assert set(errors) == {"too-large", "small"}
    code, text = errors["too-large"]
    assert code != 0
    assert str(IN_ONE_REQUEST) in text.replace(",", "")


@pytest.mark.usefixtures("large")
def test_client_reads_a_topic_of_many_partitions(cluster: Cluster) -> None:
    async def describe() -> int:
        async with AdminClient(cluster.addresses) as admin:
            (topic,) = await admin.describe_topics(["large"])
            return len(topic.partitions)

    assert asyncio.run(describe()) == PARTITIONS
