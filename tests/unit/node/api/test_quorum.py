"""Checks before the raft engine handles a request, and the encoding of its responses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, METADATA_TOPIC_ID, Endpoint, KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.node.api.quorum import QuorumApis
from quorumd.node.peers.address_book import Address
from quorumd.node.wire.quorum_messages import MAX_NAMED
from quorumd.ports import ANONYMOUS
from quorumd.protocol.apis import APIS, RAFT_FETCH_VERSION, ApiKey
from quorumd.protocol.messages import (
    begin_quorum_epoch_request,
    describe_quorum_request,
    end_quorum_epoch_request,
    fetch_quorum_records_request,
    fetch_request,
    fetch_snapshot_request,
    vote_request,
)
from quorumd.raft.description import QuorumDescription, ReplicaDescription
from quorumd.raft.events import Event, RequestReceived
from quorumd.raft.messages import (
    FetchResponse,
    LeaderResponse,
    SnapshotResponse,
    VoteResponse,
)
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from tests.support.node.api_harness import ApiHarness
from tests.support.node.parts import CLUSTER_ID, OTHER_CLUSTER_ID
from tests.support.node.recording_session import request_of
from tests.support.node.scripted_discovery import ScriptedDiscovery
from tests.support.node.scripted_engine import ScriptedEngine

DIRECTORY = KafkaUuid(bytes(15) + b"\x42")
LEADER = Endpoint("CONTROLLER", "host-2", 9092)
VOTER = Voter(ReplicaKey(2, DIRECTORY), (LEADER,))


@dataclass
class DescribedEngine(ScriptedEngine):
    """Node 2 leads and describes itself."""

    leader_id: int = 2
    epoch: int = 5
    voters: VoterAssignment = field(default_factory=lambda: VoterAssignment(VoterSet((VOTER,)), (2, 3)))

    def describe(self, now: float) -> QuorumDescription:
        return QuorumDescription(
            2,
            5,
            9,
            (
                ReplicaDescription(ReplicaKey(2, DIRECTORY), 12, 0.0, 0.0),
                ReplicaDescription(ReplicaKey(3), -1, inf, inf),
            ),
            (ReplicaDescription(ReplicaKey(7), 9, 400.0, 1500.0),),
        )


class ReadLog:
    """Returns the arguments of a read."""

    end_offset = 12

    def read(self, offset: int, limit: int, max_offset: int | None = None) -> bytes:
        return f"{offset} {limit} {max_offset}".encode()


class QuorumApiHarness(ApiHarness):
    """Collects requests that pass the checks in `events`."""

    def __init__(self) -> None:
        super().__init__(
            engine=DescribedEngine(),
            discovery=ScriptedDiscovery({2: Address("host-2", 9092)}),
            log=ReadLog(),
            step=self._step,
        )
        self.learned_when_stepped: list[int] = []
        self.apis = QuorumApis(self.context)
        self.handlers = {route.api_key: route.handler for route in self.apis.routes()}

    def _step(self, event: Event) -> None:
        self.events.append(event)
        self.learned_when_stepped.append(len(self.discovery.learned_leaders))

    def send(self, message: Any, version: int) -> Any:
        """Return the response, None while the engine handles the request."""
        count = len(self.session.responses)
        self.handlers[message.API_KEY](self.session, request_of(message, version))
        return self.session.responses[-1] if len(self.session.responses) > count else None

    def respond_from_engine(self, response: Any) -> Any:
        event = self.events[-1]
        assert isinstance(event, RequestReceived)
        event.reply(response)
        return self.session.responses[-1]


@pytest.fixture
def harness() -> QuorumApiHarness:
    return QuorumApiHarness()


def request_for(
    api_key: int, version: int, cluster_id: str | None = CLUSTER_ID, topic: str = METADATA_TOPIC
) -> Any:
    if api_key == ApiKey.FETCH:
        by_id = version >= 13
        wire = fetch_request
        topic_id = METADATA_TOPIC_ID if topic == METADATA_TOPIC else KafkaUuid(b"\x09" * 16)
        fetched = (
            wire.FetchTopic(topic_id=topic_id, partitions=[wire.FetchPartition()])
            if by_id
            else wire.FetchTopic(topic=topic, partitions=[wire.FetchPartition()])
        )
        return wire.FetchRequest(cluster_id, topics=[fetched])
    if api_key == ApiKey.FETCH_QUORUM_RECORDS:
        return fetch_quorum_records_request.FetchQuorumRecordsRequest(cluster_id)
    if api_key == ApiKey.FETCH_SNAPSHOT:
        snapshot = fetch_snapshot_request
        return snapshot.FetchSnapshotRequest(
            cluster_id,
            topics=[snapshot.TopicSnapshot(topic, [snapshot.PartitionSnapshot(0, 5, snapshot.SnapshotId())])],
        )
    if api_key == ApiKey.VOTE:
        return vote_request.VoteRequest(
            cluster_id, topics=[vote_request.TopicData(topic, [vote_request.PartitionData()])]
        )
    if api_key == ApiKey.BEGIN_QUORUM_EPOCH:
        begin = begin_quorum_epoch_request
        return begin.BeginQuorumEpochRequest(
            cluster_id, topics=[begin.TopicData(topic, [begin.PartitionData()])]
        )
    end = end_quorum_epoch_request
    return end.EndQuorumEpochRequest(cluster_id, [end.TopicData(topic, [end.PartitionData()])])


ENGINE_REQUESTS = [
    (key, version)
    for key in (
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_QUORUM_RECORDS,
        ApiKey.FETCH,
        ApiKey.FETCH_SNAPSHOT,
    )
    for version in range(
        RAFT_FETCH_VERSION if key == ApiKey.FETCH else APIS[key].min_version, APIS[key].max_version + 1
    )
]


@pytest.mark.parametrize(("api_key", "version"), ENGINE_REQUESTS, ids=str)
def test_hole_23_wrong_cluster_id_is_a_top_level_error_and_null_is_accepted(
    harness: QuorumApiHarness, api_key: int, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "quorumd")
    reply = harness.send(request_for(api_key, version, OTHER_CLUSTER_ID), version)
    assert f"refused {APIS[api_key].name}" in caplog.text
    assert reply.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert harness.statistics.error_responses == {(api_key, ErrorCode.INCONSISTENT_CLUSTER_ID): 1}
    assert harness.events == []
    for cluster_id in (CLUSTER_ID, None):
        assert harness.send(request_for(api_key, version, cluster_id), version) is None
    assert len(harness.events) == 2


@pytest.mark.parametrize(("principal", "is_authenticated"), [(ANONYMOUS, False), ("User:node-2", True)])
def test_engine_gets_the_origin_of_a_request(
    harness: QuorumApiHarness, principal: str, is_authenticated: bool
) -> None:
    harness.session.origin = replace(harness.session.origin, principal=principal)
    for cluster_id in (CLUSTER_ID, None):
        harness.send(request_for(ApiKey.VOTE, 2, cluster_id), 2)
        event = harness.events[-1]
        assert isinstance(event, RequestReceived)
        origin = (event.names_cluster, event.peer, event.is_authenticated)
        assert origin == (cluster_id is not None, harness.session.origin.peer, is_authenticated)


NESTED = [(key, version) for key, version in ENGINE_REQUESTS if key != ApiKey.FETCH_QUORUM_RECORDS]
"""Requests with topics and partitions; FetchQuorumRecords is flat."""


def partition_of(api_key: int, reply: Any) -> Any:
    """Return the part of a response for the metadata log."""
    if api_key == ApiKey.FETCH_QUORUM_RECORDS:
        return reply
    topics = reply.responses if api_key == ApiKey.FETCH else reply.topics
    return topics[0].partitions[0]


@pytest.mark.parametrize(("api_key", "version"), NESTED, ids=str)
def test_hole_42_unknown_topic_is_an_error_of_the_partition(
    harness: QuorumApiHarness, api_key: int, version: int
) -> None:
    reply = harness.send(request_for(api_key, version, topic="another"), version)
    assert reply.error_code == 0
    assert partition_of(api_key, reply).error_code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
    assert harness.events == []


@pytest.mark.parametrize(("api_key", "version"), ENGINE_REQUESTS, ids=str)
def test_every_response_of_the_engine_names_the_leader(
    harness: QuorumApiHarness, api_key: int, version: int
) -> None:
    harness.send(request_for(api_key, version), version)
    response: Any
    if api_key == ApiKey.VOTE:
        response = VoteResponse(ErrorCode.NONE, 2, 5, False)
    elif api_key in (ApiKey.FETCH, ApiKey.FETCH_QUORUM_RECORDS):
        response = FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, 2, 5)
    elif api_key == ApiKey.FETCH_SNAPSHOT:
        response = SnapshotResponse(ErrorCode.FENCED_LEADER_EPOCH, 2, 5, OffsetAndEpoch(0, 0))
    else:
        response = LeaderResponse(ErrorCode.FENCED_LEADER_EPOCH, 2, 5)
    reply = harness.respond_from_engine(response)
    partition = partition_of(api_key, reply)
    if api_key in (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT):
        leader = (partition.current_leader.leader_id, partition.current_leader.leader_epoch)
    else:
        leader = (partition.leader_id, partition.leader_epoch)
    assert leader == (2, 5)
    assert partition.error_code == response.error
    expected = {} if response.error is ErrorCode.NONE else {(api_key, response.error): 1}
    assert harness.statistics.error_responses == expected
    has_endpoints = version >= {ApiKey.FETCH: 16, ApiKey.FETCH_QUORUM_RECORDS: 0}.get(ApiKey(api_key), 1)
    assert [(e.host, e.port) for e in reply.node_endpoints] == ([("host-2", 9092)] if has_endpoints else [])


@pytest.mark.parametrize(("epoch", "learned"), [(4, 0), (5, 1)])
def test_address_of_an_accepted_leader_is_learned_before_the_engine_fetches(
    harness: QuorumApiHarness, epoch: int, learned: int
) -> None:
    wire = begin_quorum_epoch_request
    message = wire.BeginQuorumEpochRequest(
        CLUSTER_ID,
        topics=[wire.TopicData(METADATA_TOPIC, [wire.PartitionData(0, leader_id=2, leader_epoch=epoch)])],
        leader_endpoints=[wire.LeaderEndpoint(*LEADER)],
        boot_timestamp=77,
    )
    harness.send(message, 1)
    assert (len(harness.discovery.learned_leaders), harness.learned_when_stepped) == (learned, [learned])
    for announced, end_offset in harness.discovery.learned_leaders:
        assert (announced.endpoints, announced.boot_timestamp, end_offset) == ((LEADER,), 77, 12)


@pytest.mark.parametrize("api_key", [ApiKey.FETCH, ApiKey.FETCH_QUORUM_RECORDS])
def test_records_are_read_when_the_response_is_sent(harness: QuorumApiHarness, api_key: int) -> None:
    version = APIS[api_key].max_version
    harness.send(request_for(api_key, version), version)
    response = FetchResponse(ErrorCode.NONE, 2, 5, 9)
    response.read_start_offset, response.read_limit, response.read_max_offset = 3, 100, 9
    reply = harness.respond_from_engine(response)
    assert partition_of(api_key, reply).records == b"3 100 9"
    harness.send(request_for(api_key, version), version)
    response.read_max_offset = -1
    reply = harness.respond_from_engine(response)
    assert partition_of(api_key, reply).records == b"3 100 None"


# DescribeQuorum


def describe(topic: str = METADATA_TOPIC, partition: int = 0) -> Any:
    wire = describe_quorum_request
    return wire.DescribeQuorumRequest([wire.TopicData(topic, [wire.PartitionData(partition)])])


@pytest.mark.parametrize("version", range(3))
def test_leader_describes_the_quorum(harness: QuorumApiHarness, version: int) -> None:
    reply = harness.send(describe(), version)
    (partition,) = reply.topics[0].partitions
    assert (reply.error_code, partition.error_code) == (0, 0)
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (2, 5, 9)
    now = harness.time.clock.wall_ms()
    states = [*partition.current_voters, *partition.observers]
    assert [
        (s.replica_id, s.log_end_offset, s.last_fetch_timestamp, s.last_caught_up_timestamp) for s in states
    ] == [(2, 12, now, now), (3, -1, -1, -1), (7, 9, now - 400, now - 1500)]
    assert partition.leader_id in [state.replica_id for state in partition.current_voters]
    assert [target.voter_id for target in partition.target_voters] == [2, 3]
    if version >= 2:
        assert states[0].replica_directory_id == DIRECTORY
        (node,) = reply.nodes
        assert (node.node_id, [(e.name, e.host, e.port) for e in node.listeners]) == (2, [tuple(LEADER)])
    else:
        assert reply.nodes == []


@pytest.mark.parametrize("version", range(3))
def test_follower_names_the_leader_to_controller_clients(harness: QuorumApiHarness, version: int) -> None:
    harness.engine.is_leader = False
    harness.session.origin.is_controller_client = True
    (partition,) = harness.send(describe(), version).topics[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (partition.leader_id, partition.leader_epoch) == (2, 5)
    assert bool(partition.error_message) == (version >= 2)
    assert harness.forwarded == []


def test_resigning_leader_does_not_describe_the_quorum(harness: QuorumApiHarness) -> None:
    """Stock tools fail if the leader is not among the voters."""
    harness.is_leader, harness.session.origin.is_controller_client = False, True
    (partition,) = harness.send(describe(), 2).topics[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    harness.session.origin.is_controller_client = False
    harness.send(describe(), 2)
    assert len(harness.forwarded) == 1


def test_follower_forwards_describe_quorum_of_broker_clients(harness: QuorumApiHarness) -> None:
    harness.engine.is_leader = False
    assert harness.send(describe(), 2) is None
    assert len(harness.forwarded) == 1


def test_describe_quorum_of_many_partitions_is_refused(harness: QuorumApiHarness) -> None:
    """There is one. The errors of 50,000 took 53 ms."""
    request = describe()
    request.topics *= MAX_NAMED // 2
    assert harness.send(request, 2).error_code == 0
    request.topics += describe().topics
    response = harness.send(request, 2)
    assert (response.error_code, response.topics) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (vote_request.VoteRequest(topics=[vote_request.TopicData("other")]), 1),
        (
            begin_quorum_epoch_request.BeginQuorumEpochRequest(
                topics=[begin_quorum_epoch_request.TopicData()]
            ),
            1,
        ),
        (end_quorum_epoch_request.EndQuorumEpochRequest(topics=[end_quorum_epoch_request.TopicData()]), 1),
        (fetch_request.FetchRequest(topics=[fetch_request.FetchTopic()]), RAFT_FETCH_VERSION),
        (fetch_snapshot_request.FetchSnapshotRequest(topics=[fetch_snapshot_request.TopicSnapshot()]), 1),
    ],
    ids=lambda each: getattr(each, "NAME", ""),
)
def test_requests_that_name_many_partitions_get_one_error(
    harness: QuorumApiHarness, message: Any, version: int
) -> None:
    """The errors of 50,000 took 125 ms."""
    message.topics *= MAX_NAMED
    assert harness.send(message, version).error_code == 0
    message.topics += message.topics[:1]
    assert harness.send(message, version).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("engine_request", [describe("another"), describe(partition=1)])
def test_describe_quorum_of_an_unknown_partition_is_an_error(
    harness: QuorumApiHarness, engine_request: Any
) -> None:
    (partition,) = harness.send(engine_request, 2).topics[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
