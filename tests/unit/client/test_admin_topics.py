"""Requests and results of topics, reassignments, elections and brokers, and effects of earlier attempts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quorumd.client import leader_discovery
from quorumd.client.admin import AdminClient, ElectionType, ItemError, TopicPartition
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.ids import KafkaUuid
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import (
    alter_partition_reassignments_response,
    create_partitions_response,
    create_topics_response,
    delete_topics_response,
    describe_topic_partitions_response,
    elect_leaders_response,
    list_partition_reassignments_response,
)
from quorumd.protocol.messages.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from quorumd.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker
from quorumd.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from quorumd.protocol.wire import Message
from tests.support.client.fake_node import ALL_APIS, FakeNode

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("patient_time")]

ORDERS = KafkaUuid(b"the id of orders")
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
ELSEWHERE = TopicPartition("payments", 3)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_discovery, "RETRY_BACKOFF_MS", 0)


class Cluster:
    """Node 0 leads and sends `replies` one after the other; a ConnectionError breaks the connection."""

    node: FakeNode

    def __init__(self, responses: list[Message | ConnectionError]) -> None:
        self.replies = responses
        self.requests: list[Any] = []

    def respond(self, request: Request) -> Message | None:
        if request.api_key == ApiKey.METADATA:
            brokers = [MetadataResponseBroker(0, *self.node.address)]
            return MetadataResponse(brokers=brokers, controller_id=0)
        self.requests.append(request.message)
        response = self.replies.pop(0)
        if isinstance(response, ConnectionError):
            raise response
        return response


@asynccontextmanager
async def cluster(*responses: Message | ConnectionError) -> AsyncIterator[tuple[Cluster, AdminClient]]:
    made = Cluster(list(responses))
    async with (
        FakeNode(made.respond) as made.node,
        AdminClient([made.node.address], timeout_ms=5000) as admin,
    ):
        yield made, admin
        assert made.replies == []


def created(error: int = 0, text: str | None = None) -> Message:
    wire = create_topics_response
    return wire.CreateTopicsResponse(0, [wire.CreatableTopicResult("orders", ORDERS, error, text)])


def deleted(error: int = 0) -> Message:
    wire = delete_topics_response
    return wire.DeleteTopicsResponse(0, [wire.DeletableTopicResult("orders", ORDERS, error, None)])


def grown(error: int = 0) -> Message:
    wire = create_partitions_response
    return wire.CreatePartitionsResponse(0, [wire.CreatePartitionsTopicResult("orders", error, None)])


def page(*topics: tuple[str, list[int]], next_at: tuple[str, int] | None = None, error: int = 0) -> Message:
    wire = describe_topic_partitions_response
    described = [
        wire.DescribeTopicPartitionsResponseTopic(
            error,
            name,
            ORDERS,
            False,
            [wire.DescribeTopicPartitionsResponsePartition(0, number) for number in numbers],
        )
        for name, numbers in topics
    ]
    cursor = wire.Cursor(*next_at) if next_at is not None else None
    return wire.DescribeTopicPartitionsResponse(0, described, cursor)


def unregistered(error: int = 0) -> Message:
    return UnregisterBrokerResponse(0, error, None)


async def test_topic_is_created_as_described() -> None:
    async with cluster(created(), created()) as (made, admin):
        result = await admin.create_topic("orders", 3, 2, configs={"retention.ms": "5"}, validate_only=True)
        await admin.create_topic("orders", assignments={0: [1, 2], 1: [2, 3]})
        counted, placed = (request.topics[0] for request in made.requests)
        assert (counted.name, counted.num_partitions, counted.replication_factor) == ("orders", 3, 2)
        assert [(config.name, config.value) for config in counted.configs] == [("retention.ms", "5")]
        assert [request.validate_only for request in made.requests] == [True, False]
        assert (placed.num_partitions, placed.replication_factor) == (-1, -1)
        assert [(a.partition_index, a.broker_ids) for a in placed.assignments] == [(0, [1, 2]), (1, [2, 3])]
        assert result.topic_id == ORDERS


async def test_failed_creation_is_reported_with_reason() -> None:
    async with cluster(created(ErrorCode.INVALID_REPLICATION_FACTOR, "2 brokers")) as (_, admin):
        with pytest.raises(
            RequestFailed, match=r"topic 'orders': INVALID_REPLICATION_FACTOR \(38\): 2 brokers"
        ):
            await admin.create_topic("orders", 1, 3)


EXISTS = created(ErrorCode.TOPIC_ALREADY_EXISTS, "it does")


async def test_topic_created_by_earlier_attempt_counts_as_created() -> None:
    async with cluster(ConnectionError(), EXISTS, page(("orders", [0, 1]))) as (_, admin):
        assert (await admin.create_topic("orders", 2)).topic_id == ORDERS


async def test_different_topic_of_same_name_is_an_error() -> None:
    async with cluster(ConnectionError(), EXISTS, page(("orders", [0, 1]))) as (_, admin):
        with pytest.raises(RequestFailed, match="TOPIC_ALREADY_EXISTS"):
            await admin.create_topic("orders", 3)
    async with cluster(EXISTS) as (_, admin):
        with pytest.raises(RequestFailed, match="TOPIC_ALREADY_EXISTS"):
            await admin.create_topic("orders", 2)


Question = Callable[[AdminClient], Awaitable[object]]
ONCE_DONE: list[tuple[Question, Callable[[int], Message], ErrorCode]] = [
    (lambda admin: admin.delete_topic("orders"), deleted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (lambda admin: admin.unregister_broker(7), unregistered, ErrorCode.BROKER_ID_NOT_REGISTERED),
]


@pytest.mark.parametrize(("query", "response", "gone"), ONCE_DONE, ids=["delete", "unregister"])
async def test_topic_deleted_by_earlier_attempt_counts_as_deleted(
    query: Question, response: Callable[[int], Message], gone: ErrorCode
) -> None:
    async with cluster(response(0), ConnectionError(), response(gone), response(gone)) as (_, admin):
        await query(admin)
        await query(admin)
        with pytest.raises(RequestFailed, match=gone.name):
            await query(admin)


async def test_add_partitions_sends_total() -> None:
    invalid = grown(ErrorCode.INVALID_PARTITIONS)
    async with cluster(grown(), ConnectionError(), invalid, page(("orders", [0, 1])), invalid) as (
        made,
        admin,
    ):
        await admin.add_partitions("orders", 2, validate_only=True)
        assert (made.requests[0].topics[0].name, made.requests[0].topics[0].count) == ("orders", 2)
        assert made.requests[0].validate_only
        await admin.add_partitions("orders", 2)
        with pytest.raises(RequestFailed, match="INVALID_PARTITIONS"):
            await admin.add_partitions("orders", 2)


async def test_topics_are_described_in_pages() -> None:
    pages = page(("a", [0]), ("b", [0, 1]), next_at=("b", 2)), page(("b", [2]), ("c", [0]))
    async with cluster(*pages) as (made, admin):
        topics = await admin.describe_topics()
        numbers = [(topic.name, [p.partition_index for p in topic.partitions]) for topic in topics]
        assert numbers == [("a", [0]), ("b", [0, 1, 2]), ("c", [0])]
        assert [request.topics for request in made.requests] == [[], []]
        assert made.requests[0].cursor is None
        assert (made.requests[1].cursor.topic_name, made.requests[1].cursor.partition_index) == ("b", 2)


async def test_stock_controllers_are_reported_as_unable_to_describe_topics() -> None:
    async with cluster() as (made, admin):
        made.node.supported_versions = {
            k: v for k, v in ALL_APIS.items() if k != ApiKey.DESCRIBE_TOPIC_PARTITIONS
        }
        with pytest.raises(RequestFailed, match="broker") as refused:
            await admin.describe_topics()
    assert refused.value.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_only_named_topics_are_described() -> None:
    async with cluster(page(("a", [0]))) as (made, admin):
        assert await admin.describe_topics([]) == []
        await admin.describe_topics(["a"])
        assert [topic.name for topic in made.requests[0].topics] == ["a"]


async def test_unknown_topic_is_reported() -> None:
    async with cluster(page(("a", []), error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) as (_, admin):
        with pytest.raises(RequestFailed, match=r"topic 'a': UNKNOWN_TOPIC_OR_PARTITION"):
            await admin.describe_topics(["a"])


async def test_unknown_topics_may_be_skipped() -> None:
    async with cluster(page(("a", []), error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) as (_, admin):
        assert await admin.describe_topics(["a"], skip_unknown=True) == []


def reassigned(*errors: int) -> Message:
    wire = alter_partition_reassignments_response
    responses = [wire.ReassignablePartitionResponse(n, error, None) for n, error in enumerate(errors)]
    return wire.AlterPartitionReassignmentsResponse(
        0, True, 0, None, [wire.ReassignableTopicResponse("orders", responses)]
    )


async def test_reassignments_are_grouped_by_topic_and_rejections_returned() -> None:
    async with cluster(reassigned(0, ErrorCode.INVALID_REPLICA_ASSIGNMENT)) as (made, admin):
        refused = await admin.alter_reassignments(
            {FIRST: (1, 2), ELSEWHERE: (3,), SECOND: None}, may_change_replication_factor=False
        )
        assert refused == {SECOND: ItemError(39, "INVALID_REPLICA_ASSIGNMENT (39)")}
        requested = [
            (topic.name, [(p.partition_index, p.replicas) for p in topic.partitions])
            for topic in made.requests[0].topics
        ]
        assert requested == [("orders", [(0, [1, 2]), (1, None)]), ("payments", [(3, [3])])]
        assert not made.requests[0].allow_replication_factor_change


async def test_reassignment_cancelled_by_earlier_attempt_counts_as_cancelled() -> None:
    nothing = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    async with cluster(ConnectionError(), reassigned(nothing), reassigned(nothing)) as (_, admin):
        assert await admin.alter_reassignments({FIRST: None}) == {}
        assert await admin.alter_reassignments({FIRST: None}) == {
            FIRST: ItemError(85, f"{nothing.name} (85)")
        }


async def test_rejected_reassignment_request_is_reported() -> None:
    wire = alter_partition_reassignments_response
    response = wire.AlterPartitionReassignmentsResponse(0, True, ErrorCode.INVALID_REQUEST, "no", [])
    async with cluster(response) as (_, admin):
        with pytest.raises(RequestFailed, match="INVALID_REQUEST"):
            await admin.alter_reassignments({FIRST: (1,)})


async def test_ongoing_reassignments_are_listed() -> None:
    wire = list_partition_reassignments_response
    ongoing = wire.OngoingPartitionReassignment(1, [1, 2, 3], [3], [1])
    response = wire.ListPartitionReassignmentsResponse(
        0, 0, None, [wire.OngoingTopicReassignment("orders", [ongoing])]
    )
    async with cluster(response, response) as (made, admin):
        assert await admin.list_reassignments() == {SECOND: ongoing}
        await admin.list_reassignments([SECOND, ELSEWHERE, FIRST])
        assert made.requests[0].topics is None
        named = [(topic.name, topic.partition_indexes) for topic in made.requests[1].topics]
        assert named == [("orders", [1, 0]), ("payments", [3])]


async def test_election_results_are_returned() -> None:
    wire = elect_leaders_response
    results = [wire.PartitionResult(0, 0, None), wire.PartitionResult(1, 80, "it lags")]
    response = wire.ElectLeadersResponse(0, 0, [wire.ReplicaElectionResult("orders", results)])
    async with cluster(response, response) as (made, admin):
        reported = await admin.elect_leaders(ElectionType.UNCLEAN, [FIRST, SECOND])
        assert reported == {FIRST: None, SECOND: ItemError(80, "it lags")}
        await admin.elect_leaders(ElectionType.PREFERRED)
        named, everything = made.requests
        assert (named.election_type, named.topic_partitions[0].partitions) == (1, [0, 1])
        assert (everything.election_type, everything.topic_partitions) == (0, None)


async def test_fenced_brokers_are_described() -> None:
    broker = DescribeClusterBroker(7, "seven", 9092, None, True, 12)
    async with cluster(DescribeClusterResponse(brokers=[broker])) as (made, admin):
        assert (await admin.describe_brokers()).brokers == [broker]
        assert (made.requests[0].endpoint_type, made.requests[0].include_fenced_brokers) == (1, True)
