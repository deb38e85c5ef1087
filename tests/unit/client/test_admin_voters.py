"""Voter changes of the admin client: requests, retries and fatal errors (KIP-595 draft)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quorumd.client import cluster_client, leader_discovery
from quorumd.client.admin import AdminClient
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.ids import METADATA_TOPIC, Endpoint, KafkaUuid, ReplicaKey
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import alter_quorum_response, describe_quorum_response
from quorumd.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from quorumd.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker
from quorumd.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from quorumd.protocol.wire import Message
from tests.support.client.fake_node import FakeNode

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("patient_time")]

VOTER = ReplicaKey(4, KafkaUuid(bytes(15) + b"\x42"))
OTHER_DISK = ReplicaKey(4, KafkaUuid(bytes(15) + b"\x43"))
ENDPOINT = Endpoint("CONTROLLER", "host-4", 9092)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_discovery, "RETRY_BACKOFF_MS", 0)


class Quorum:
    """Node 0 leads, and `voters` are the voters; requests for other voters get the `errors` one after the other,
    then NONE."""

    node: FakeNode

    def __init__(self) -> None:
        self.errors: list[tuple[int, str | None]] = []
        self.voters: list[ReplicaKey] = []
        self.requests: list[Any] = []
        self.metadata_requests = 0
        self.leader = 0

    def respond(self, request: Request) -> Message | None:
        if request.api_key == ApiKey.METADATA:
            self.metadata_requests += 1
            brokers = [MetadataResponseBroker(0, *self.node.address)]
            return MetadataResponse(brokers=brokers, controller_id=self.leader)
        if request.api_key == ApiKey.DESCRIBE_QUORUM:
            wire = describe_quorum_response
            partition = wire.PartitionData(current_voters=[wire.ReplicaState(*key) for key in self.voters])
            return wire.DescribeQuorumResponse(topics=[wire.TopicData(METADATA_TOPIC, [partition])])
        self.requests.append(request.message)
        error = self.errors.pop(0) if self.errors else (0, None)
        if request.api_key == ApiKey.ADD_RAFT_VOTER:
            return AddRaftVoterResponse(0, *error)
        if request.api_key == ApiKey.REMOVE_RAFT_VOTER:
            return RemoveRaftVoterResponse(0, *error)
        slot = alter_quorum_response.PartitionData(0, error[0], error_message=error[1])
        return alter_quorum_response.AlterQuorumResponse(
            [alter_quorum_response.TopicData(METADATA_TOPIC, [slot])]
        )


@asynccontextmanager
async def quorum(
    *errors: tuple[int, str | None], timeout_ms: float = 5000
) -> AsyncIterator[tuple[Quorum, AdminClient]]:
    made = Quorum()
    made.errors = list(errors)
    async with (
        FakeNode(made.respond) as made.node,
        AdminClient([made.node.address], timeout_ms=timeout_ms) as admin,
    ):
        yield made, admin


async def test_alter_quorum_names_the_targets() -> None:
    async with quorum() as (made, admin):
        await admin.alter_quorum([0, 3, 4])
        (topic,) = made.requests[0].topics
        assert topic.topic_name == METADATA_TOPIC
        assert [target.voter_id for target in topic.partitions[0].target_voters] == [0, 3, 4]


async def test_alter_quorum_without_voters_cancels() -> None:
    async with quorum() as (made, admin):
        await admin.alter_quorum(None)
        assert made.requests[0].topics[0].partitions[0].target_voters is None


async def test_add_voter_sends_replica_and_endpoints() -> None:
    async with quorum() as (made, admin):
        await admin.add_voter(VOTER, [ENDPOINT])
        requested = made.requests[0]
        assert (requested.voter_id, requested.voter_directory_id) == VOTER
        assert [(e.name, e.host, e.port) for e in requested.listeners] == [ENDPOINT]
        assert 0 < requested.timeout_ms < cluster_client.DEFAULT_ATTEMPT_TIMEOUT_MS, "the node gives up first"
        assert requested.ack_when_committed


async def test_remove_voter_sends_replica() -> None:
    async with quorum() as (made, admin):
        await admin.remove_voter(VOTER)
        assert (made.requests[0].voter_id, made.requests[0].voter_directory_id) == VOTER


CHANGES: dict[str, Any] = {
    "alter": lambda admin: admin.alter_quorum([4]),
    "add": lambda admin: admin.add_voter(VOTER, [ENDPOINT]),
    "remove": lambda admin: admin.remove_voter(VOTER),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT]
)
async def test_leader_is_looked_up_again_before_retry(change: Any, error: ErrorCode) -> None:
    async with quorum((int(error), "not now")) as (made, admin):
        await change(admin)
        assert len(made.requests) == 2
        assert made.metadata_requests == 2


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("error", [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST])
async def test_non_retriable_error_fails_immediately(change: Any, error: ErrorCode) -> None:
    async with quorum((int(error), "for a reason")) as (made, admin):
        with pytest.raises(RequestFailed, match=f"{error.name}.*for a reason") as failed:
            await change(admin)
        assert failed.value.error_code == error
        assert len(made.requests) == 1


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_voter_change_waits_for_election_until_deadline(change: Any) -> None:
    async with quorum(timeout_ms=80) as (made, admin):
        made.leader = -1
        with pytest.raises(RequestFailed, match=r"leader .*unknown"):
            await change(admin)
        assert made.requests == []


async def test_timeout_is_reported_with_last_error() -> None:
    errors = [(7, "node 4 is 17 records behind")] * 1000
    async with quorum(*errors, timeout_ms=80) as (_, admin):
        with pytest.raises(RequestFailed, match=r"0\.08 s.*node 4 .*17 records") as failed:
            await admin.add_voter(VOTER, [ENDPOINT])
        assert failed.value.error_code == ErrorCode.REQUEST_TIMED_OUT


LATE, DUPLICATE, NOT_FOUND = (7, None), (126, "votes"), (127, "does not vote")


async def test_voter_added_by_earlier_attempt_counts_as_added() -> None:
    async with quorum(LATE, DUPLICATE) as (made, admin):
        made.voters = [VOTER]
        await admin.add_voter(VOTER, [ENDPOINT])


@pytest.mark.parametrize(
    ("errors", "voter"), [([DUPLICATE], VOTER), ([LATE, DUPLICATE], OTHER_DISK)], ids=["first", "other disk"]
)
async def test_existing_voter_is_reported(errors: Any, voter: ReplicaKey) -> None:
    async with quorum(*errors) as (made, admin):
        made.voters = [voter]
        with pytest.raises(RequestFailed, match="DUPLICATE_VOTER"):
            await admin.add_voter(VOTER, [ENDPOINT])


async def test_voter_removed_by_earlier_attempt_counts_as_removed() -> None:
    async with quorum(LATE, NOT_FOUND) as (_, admin):
        await admin.remove_voter(VOTER)


@pytest.mark.parametrize("errors", [[NOT_FOUND], [LATE, NOT_FOUND]], ids=["first", "the last voter"])
async def test_rejected_removal_is_reported(errors: Any) -> None:
    """The last voter cannot be removed; the engine reports it as not found."""
    async with quorum(*errors) as (made, admin):
        made.voters = [VOTER] if len(errors) > 1 else []
        with pytest.raises(RequestFailed, match="VOTER_NOT_FOUND"):
            await admin.remove_voter(VOTER)
