"""Topics, reassignments, elections and brokers: what is asked for, what comes back, what an attempt before did."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quorumd.client import cluster_client
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
from tests.support.client.fake_node import FakeNode

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("patient_time")]

ORDERS = KafkaUuid(b"the id of orders")
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
ELSEWHERE = TopicPartition("payments", 3)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_client, "RETRY_BACKOFF_MS", 0)


class Cluster:
    """Node 0 leads and gives `answers` one after the other; a ConnectionError is a connection that breaks."""

    node: FakeNode

    def __init__(self, responses: list[Message | ConnectionError]) -> None:
        self.answers = responses
        self.asked: list[Any] = []

    def answer(self, request: Request) -> Message | None:
        if request.api_key == ApiKey.METADATA:
            brokers = [MetadataResponseBroker(0, *self.node.address)]
            return MetadataResponse(brokers=brokers, controller_id=0)
        self.asked.append(request.message)
        answer = self.answers.pop(0)
        if isinstance(answer, ConnectionError):
            raise answer
        return answer


@asynccontextmanager
async def cluster(*responses: Message | ConnectionError) -> AsyncIterator[tuple[Cluster, AdminClient]]:
    made = Cluster(list(responses))
    async with (
        FakeNode(made.answer) as made.node,
        AdminClient([made.node.address], timeout_ms=5000) as admin,
    ):
        yield made, admin
        assert made.answers == []


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


async def test_a_topic_is_made_as_it_is_described() -> None:
    async with cluster(created(), created()) as (made, admin):
        result = await admin.create_topic("orders", 3, 2, configs={"retention.ms": "5"}, validate_only=True)
        await admin.create_topic("orders", assignments={0: [1, 2], 1: [2, 3]})
        counted, placed = (request.topics[0] for request in made.asked)
        assert (counted.name, counted.num_partitions, counted.replication_factor) == ("orders", 3, 2)
        assert [(config.name, config.value) for config in counted.configs] == [("retention.ms", "5")]
        assert [request.validate_only for request in made.asked] == [True, False]
        assert (placed.num_partitions, placed.replication_factor) == (-1, -1)
        assert [(a.partition_index, a.broker_ids) for a in placed.assignments] == [(0, [1, 2]), (1, [2, 3])]
        assert result.topic_id == ORDERS


async def test_why_there_is_no_topic_is_told() -> None:
    async with cluster(created(ErrorCode.INVALID_REPLICATION_FACTOR, "2 brokers")) as (_, admin):
        with pytest.raises(
            RequestFailed, match=r"topic 'orders': INVALID_REPLICATION_FACTOR \(38\): 2 brokers"
        ):
            await admin.create_topic("orders", 1, 3)


EXISTS = created(ErrorCode.TOPIC_ALREADY_EXISTS, "it does")


async def test_a_topic_that_an_attempt_before_made_is_made() -> None:
    async with cluster(ConnectionError(), EXISTS, page(("orders", [0, 1]))) as (_, admin):
        assert (await admin.create_topic("orders", 2)).topic_id == ORDERS


async def test_another_topic_of_that_name_is_not_taken_for_it() -> None:
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


@pytest.mark.parametrize(("ask", "answer", "gone"), ONCE_DONE, ids=["delete", "unregister"])
async def test_what_an_attempt_before_removed_is_removed(
    ask: Question, answer: Callable[[int], Message], gone: ErrorCode
) -> None:
    async with cluster(answer(0), ConnectionError(), answer(gone), answer(gone)) as (_, admin):
        await ask(admin)
        await ask(admin)
        with pytest.raises(RequestFailed, match=gone.name):
            await ask(admin)


async def test_partitions_are_added_up_to_a_number() -> None:
    invalid = grown(ErrorCode.INVALID_PARTITIONS)
    async with cluster(grown(), ConnectionError(), invalid, page(("orders", [0, 1])), invalid) as (
        made,
        admin,
    ):
        await admin.add_partitions("orders", 2, validate_only=True)
        assert (made.asked[0].topics[0].name, made.asked[0].topics[0].count) == ("orders", 2)
        assert made.asked[0].validate_only
        await admin.add_partitions("orders", 2)
        with pytest.raises(RequestFailed, match="INVALID_PARTITIONS"):
            await admin.add_partitions("orders", 2)


async def test_topics_are_described_page_by_page() -> None:
    pages = page(("a", [0]), ("b", [0, 1]), next_at=("b", 2)), page(("b", [2]), ("c", [0]))
    async with cluster(*pages) as (made, admin):
        topics = await admin.describe_topics()
        numbers = [(topic.name, [p.partition_index for p in topic.partitions]) for topic in topics]
        assert numbers == [("a", [0]), ("b", [0, 1, 2]), ("c", [0])]
        assert [request.topics for request in made.asked] == [[], []]
        assert made.asked[0].cursor is None
        assert (made.asked[1].cursor.topic_name, made.asked[1].cursor.partition_index) == ("b", 2)


async def test_only_the_topics_that_are_named_are_described() -> None:
    async with cluster(page(("a", [0]))) as (made, admin):
        assert await admin.describe_topics([]) == []
        await admin.describe_topics(["a"])
        assert [topic.name for topic in made.asked[0].topics] == ["a"]


async def test_a_topic_that_is_not_there_is_told() -> None:
    async with cluster(page(("a", []), error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) as (_, admin):
        with pytest.raises(RequestFailed, match=r"topic 'a': UNKNOWN_TOPIC_OR_PARTITION"):
            await admin.describe_topics(["a"])


async def test_topics_that_are_not_there_may_be_skipped() -> None:
    async with cluster(page(("a", []), error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) as (_, admin):
        assert await admin.describe_topics(["a"], skip_unknown=True) == []


def reassigned(*errors: int) -> Message:
    wire = alter_partition_reassignments_response
    responses = [wire.ReassignablePartitionResponse(n, error, None) for n, error in enumerate(errors)]
    return wire.AlterPartitionReassignmentsResponse(
        0, True, 0, None, [wire.ReassignableTopicResponse("orders", responses)]
    )


async def test_partitions_of_one_topic_are_reassigned_together_and_the_refused_ones_told() -> None:
    async with cluster(reassigned(0, ErrorCode.INVALID_REPLICA_ASSIGNMENT)) as (made, admin):
        refused = await admin.alter_reassignments(
            {FIRST: (1, 2), ELSEWHERE: (3,), SECOND: None}, may_change_replication_factor=False
        )
        assert refused == {SECOND: ItemError(39, "INVALID_REPLICA_ASSIGNMENT (39)")}
        requested = [
            (topic.name, [(p.partition_index, p.replicas) for p in topic.partitions])
            for topic in made.asked[0].topics
        ]
        assert requested == [("orders", [(0, [1, 2]), (1, None)]), ("payments", [(3, [3])])]
        assert not made.asked[0].allow_replication_factor_change


async def test_what_an_attempt_before_cancelled_is_cancelled() -> None:
    nothing = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    async with cluster(ConnectionError(), reassigned(nothing), reassigned(nothing)) as (_, admin):
        assert await admin.alter_reassignments({FIRST: None}) == {}
        assert await admin.alter_reassignments({FIRST: None}) == {
            FIRST: ItemError(85, f"{nothing.name} (85)")
        }


async def test_a_refused_reassignment_of_all_is_told() -> None:
    wire = alter_partition_reassignments_response
    answer = wire.AlterPartitionReassignmentsResponse(0, True, ErrorCode.INVALID_REQUEST, "no", [])
    async with cluster(answer) as (_, admin):
        with pytest.raises(RequestFailed, match="INVALID_REQUEST"):
            await admin.alter_reassignments({FIRST: (1,)})


async def test_reassignments_under_way_are_listed() -> None:
    wire = list_partition_reassignments_response
    ongoing = wire.OngoingPartitionReassignment(1, [1, 2, 3], [3], [1])
    answer = wire.ListPartitionReassignmentsResponse(
        0, 0, None, [wire.OngoingTopicReassignment("orders", [ongoing])]
    )
    async with cluster(answer, answer) as (made, admin):
        assert await admin.list_reassignments() == {SECOND: ongoing}
        await admin.list_reassignments([SECOND, ELSEWHERE, FIRST])
        assert made.asked[0].topics is None
        named = [(topic.name, topic.partition_indexes) for topic in made.asked[1].topics]
        assert named == [("orders", [1, 0]), ("payments", [3])]


async def test_what_came_of_each_election_is_told() -> None:
    wire = elect_leaders_response
    results = [wire.PartitionResult(0, 0, None), wire.PartitionResult(1, 80, "it lags")]
    answer = wire.ElectLeadersResponse(0, 0, [wire.ReplicaElectionResult("orders", results)])
    async with cluster(answer, answer) as (made, admin):
        reported = await admin.elect_leaders(ElectionType.UNCLEAN, [FIRST, SECOND])
        assert reported == {FIRST: None, SECOND: ItemError(80, "it lags")}
        await admin.elect_leaders(ElectionType.PREFERRED)
        named, everything = made.asked
        assert (named.election_type, named.topic_partitions[0].partitions) == (1, [0, 1])
        assert (everything.election_type, everything.topic_partitions) == (0, None)


async def test_brokers_are_described_with_the_fenced_ones() -> None:
    broker = DescribeClusterBroker(7, "seven", 9092, None, True, 12)
    async with cluster(DescribeClusterResponse(brokers=[broker])) as (made, admin):
        assert (await admin.describe_brokers()).brokers == [broker]
        assert (made.asked[0].endpoint_type, made.asked[0].include_fenced_brokers) == (1, True)
