from __future__ import annotations

from typing import Any, cast

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.client import PeerClient
from quorumd.node.peers.connection import Call, Failure, PeerSettings, Purpose
from quorumd.node.peers.connections import PeerConnections
from quorumd.node.peers.discovery import Discovery
from quorumd.node.wire import fetch_messages, quorum_messages, snapshot_messages
from quorumd.node.wire.voter_records import VoterRecord, encode_control_records
from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.messages import begin_quorum_epoch_response, end_quorum_epoch_response, vote_response
from quorumd.protocol.messages.discover_brokers_request import DiscoverBrokersRequest
from quorumd.protocol.messages.vote_response import VoteResponse as WireVoteResponse
from quorumd.protocol.record_batch import encode_batch
from quorumd.raft.effects import ControlBatch, Send
from quorumd.raft.events import Event, PeerRequestFailed, ResponseReceived
from quorumd.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchRequest,
    FetchResponse,
    LeaderResponse,
    SnapshotRequest,
    SnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from tests.support.node.parts import CLUSTER_ID, OWN_ENDPOINT, NodeParts
from tests.support.node.scripted_discovery import ScriptedDiscovery
from tests.support.node.scripted_peer import ALL_APIS, ScriptedPeer
from tests.support.text import shows

DIRECTORY = KafkaUuid(bytes(15) + b"\x42")
ASSIGNMENT = VoterAssignment(VoterSet((Voter(ReplicaKey(2, DIRECTORY), ()),)))


def vote(pre_vote: bool = False) -> VoteRequest:
    return VoteRequest(5, ReplicaKey(1), ReplicaKey(2), OffsetAndEpoch(0, 0), pre_vote)


def fetch() -> FetchRequest:
    return FetchRequest(ReplicaKey(1), 5, 0, 0, 500, 1000)


class LogEnd:
    """A log that only has an end offset."""

    end_offset = 0


class ClientHarness(NodeParts):
    """The peer client of node 1 and the scripted node 2. The engine's log takes at most `takes` records."""

    def __init__(
        self, supported_versions: dict[int, tuple[int, int]] = ALL_APIS, *, private_apis: bool = True
    ) -> None:
        super().__init__()
        self.peer = ScriptedPeer(self.network, supported_versions=supported_versions)
        self.voter_records: list[VoterRecord] = []
        self.received_log = LogEnd()
        self.takes = 1000
        self.discovery = ScriptedDiscovery({2: Address("peer", 9092)})
        self.connections = PeerConnections(
            self.network.host("me"),
            self.time.clock,
            PeerSettings("quorumd-1", private_apis=private_apis),
        )
        self.requests = PeerClient(
            self.basics,
            self.quorum(log=self.received_log, step=self._step),
            self.connections,
            cast(Discovery, self.discovery),
            self.voter_records.extend,
            (OWN_ENDPOINT,),
        )

    def send(self, request: Any, peer: int = 2) -> None:
        self.requests.send(Send(peer, request))
        assert self.events == [], "the engine must not be stepped within a step"
        self.time.pass_ms(10)

    def respond(self, message: Any) -> None:
        self.peer.respond(message)
        self.time.pass_ms(10)

    def _step(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, ResponseReceived) and isinstance(event.response, FetchResponse):
            ends = [batch.end_offset for batch in event.response.batches]
            self.received_log.end_offset = min(self.takes, max(ends, default=self.received_log.end_offset))


@pytest.fixture
def harness() -> ClientHarness:
    return ClientHarness()


def fetched(records: bytes) -> Any:
    return fetch_messages.fetch_response_to_wire(FetchResponse(ErrorCode.NONE, 2, 5, 0), records, None)


def test_snapshot_request_and_its_response(harness: ClientHarness) -> None:
    """Snapshots use the connection of fetches, so that a vote does not wait behind a megabyte."""
    snapshot = OffsetAndEpoch(100, 3)
    request = SnapshotRequest(ReplicaKey(1), 5, snapshot, 17, 1000)
    harness.send(vote())
    harness.send(request)
    ours, received = harness.peer.pending
    assert ours.connection is not received.connection
    message: Any = received.message
    assert (received.api_key, received.api_version, message.cluster_id) == (
        ApiKey.FETCH_SNAPSHOT,
        1,
        CLUSTER_ID,
    )
    response = SnapshotResponse(ErrorCode.NONE, 2, 5, snapshot, 17)
    harness.peer.respond(
        snapshot_messages.snapshot_response_to_wire(response, ErrorCode.NONE, 1000, b"bytes", None, 1), 1
    )
    harness.time.pass_ms(10)
    (event,) = harness.events
    expected = SnapshotResponse(ErrorCode.NONE, -1, 5, snapshot, 17, size=1000, data=b"bytes")
    assert event == ResponseReceived(2, request, expected)
    assert event.request is request, "the engine matches requests by identity"


@pytest.mark.parametrize("pre_vote", [False, True])
def test_vote_request_and_its_response(harness: ClientHarness, pre_vote: bool) -> None:
    request = vote(pre_vote)
    harness.send(request)
    (received,) = harness.peer.pending
    message: Any = received.message
    assert (received.api_key, received.api_version, message.cluster_id) == (ApiKey.VOTE, 2, CLUSTER_ID)
    response = VoteResponse(ErrorCode.NONE, 2, 5, True)
    harness.respond(quorum_messages.vote_response_to_wire(response, None))
    (event,) = harness.events
    assert event == ResponseReceived(2, request, response)
    assert event.request is request, "the engine matches requests by identity"


def test_hole_11_pre_vote_to_a_peer_without_pre_votes_fails_as_unsupported() -> None:
    harness = ClientHarness(ALL_APIS | {int(ApiKey.VOTE): (0, 1)})
    request = vote(pre_vote=True)
    harness.send(request)
    assert harness.events == [PeerRequestFailed(2, request, unsupported=True)]
    assert harness.peer.pending == []


@pytest.mark.parametrize("kind", [BeginEpochRequest, EndEpochRequest])
def test_begin_quorum_epoch_carries_the_own_endpoint(harness: ClientHarness, kind: type[Any]) -> None:
    request = (
        BeginEpochRequest(1, 5, ReplicaKey(2)) if kind is BeginEpochRequest else EndEpochRequest(1, 5, 1, ())
    )
    harness.send(request)
    message: Any = harness.peer.pending[0].message
    assert [(e.name, e.host, e.port) for e in message.leader_endpoints] == [tuple(OWN_ENDPOINT)]
    assert kind is EndEpochRequest or message.boot_timestamp == 77
    module: Any = begin_quorum_epoch_response if kind is BeginEpochRequest else end_quorum_epoch_response
    response = LeaderResponse(ErrorCode.FENCED_LEADER_EPOCH, 3, 6)
    harness.respond(quorum_messages.leader_response_to_wire(module, response, None, 1))
    assert harness.events == [ResponseReceived(2, request, response)]


def test_deadline_of_a_fetch_includes_its_max_wait(harness: ClientHarness) -> None:
    harness.send(fetch())
    harness.time.pass_ms(980)
    assert harness.events == [], "500 ms of max wait and 500 ms of timeout"
    harness.time.pass_ms(20)
    assert [type(event) for event in harness.events] == [PeerRequestFailed]


def test_purposes_do_not_wait_for_each_other(harness: ClientHarness) -> None:
    harness.send(fetch())
    harness.send(vote())
    assert len(harness.peer.links) == 2


def test_request_to_a_node_without_address_fails_later(harness: ClientHarness) -> None:
    request = vote()
    harness.send(request, peer=3)
    assert harness.events == [PeerRequestFailed(3, request)]
    assert not harness.requests.call_node(3, discovery(harness), Purpose.FORWARD)


def test_refused_connection_is_reported_and_marks_the_node_unreachable(harness: ClientHarness) -> None:
    harness.peer.listener.close()
    request = vote()
    harness.send(request)
    assert harness.events == [PeerRequestFailed(2, request, refused=True)]
    assert harness.discovery.reachable == [(2, False)]


def test_response_marks_a_node_reachable(harness: ClientHarness) -> None:
    harness.discovery.mark_reachable(2, False)
    harness.send(vote())
    harness.respond(quorum_messages.vote_response_to_wire(VoteResponse(ErrorCode.NONE, 2, 5, True), None))
    assert harness.discovery.reachable[-1] == (2, True)


def test_top_level_error_is_a_failure_and_logged_once(
    harness: ClientHarness, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        harness.send(vote())
        harness.respond(WireVoteResponse(int(ErrorCode.INCONSISTENT_CLUSTER_ID)))
        assert [type(event) for event in harness.events] == [PeerRequestFailed]
        harness.events.clear()
    assert caplog.text.count("INCONSISTENT_CLUSTER_ID") == 1


def test_response_about_another_topic_is_a_failure(harness: ClientHarness) -> None:
    harness.send(vote())
    topic = vote_response.TopicData("another", [vote_response.PartitionData(0)])
    harness.respond(WireVoteResponse(0, [topic]))
    assert [type(event) for event in harness.events] == [PeerRequestFailed]


# Records


def test_fetched_records_reach_the_engine_with_their_headers(harness: ClientHarness) -> None:
    request = fetch()
    harness.send(request)
    first = encode_batch(0, 4, 1000, [b"a", b"b"])
    second = encode_batch(2, 5, 1000, [b"c"])
    harness.respond(fetched(first + second))
    (event,) = harness.events
    assert isinstance(event, ResponseReceived)
    assert isinstance(event.response, FetchResponse)
    assert [(b.base_offset, b.end_offset, b.epoch, b.position) for b in event.response.batches] == [
        (0, 2, 4, 0),
        (2, 3, 5, len(first)),
    ]
    assert harness.statistics.fetched_records == 3


@pytest.mark.parametrize(
    "records",
    [
        encode_batch(0, 4, 1000, [b"a"])[:-1],
        encode_batch(0, 4, 1000, [b"a"])[:-1] + b"!",
        encode_batch(0, 4, 1000, [b"a"]) + encode_batch(5, 4, 1000, [b"a"]),
        b"no batch at all",
        bytes(100),
        encode_control_records(ControlBatch((VoterAssignment(VoterSet()),)), 0, 4, 1000, CLUSTER_ID),
    ],
    ids=["cut off", "CRC", "gap", "garbage", "zeros", "voters"],
)
def test_invalid_records_never_reach_the_engine(harness: ClientHarness, records: bytes) -> None:
    request = fetch()
    harness.send(request)
    harness.respond(fetched(records))
    assert harness.events == [PeerRequestFailed(2, request)]
    assert harness.voter_records == []


@pytest.mark.parametrize("takes", [0, 1000])
def test_voter_records_are_reported_only_once_they_are_in_the_log(harness: ClientHarness, takes: int) -> None:
    """The engine or a full disk may reject fetched records."""
    harness.takes = takes
    harness.send(fetch())
    harness.respond(fetched(encode_control_records(ControlBatch((ASSIGNMENT,)), 0, 5, 1000, CLUSTER_ID)))
    (event,) = harness.events
    assert isinstance(event, ResponseReceived)
    assert isinstance(event.response, FetchResponse)
    assert event.response.batches[0].voters == ((0, ASSIGNMENT),)
    expected = [VoterRecord(0, ASSIGNMENT, CLUSTER_ID)] if takes else []
    assert harness.voter_records == expected


STOCK = {key: versions for key, versions in ALL_APIS.items() if not APIS[key].private}


def test_leader_without_the_private_fetch_gets_stock_fetch() -> None:
    harness = ClientHarness(STOCK)
    for request in (fetch(), FetchRequest(ReplicaKey(1), 5, 3, 5, 500, 1000)):
        send = Send(2, request)
        harness.requests.prepare(send)
        harness.requests.send(send)
        harness.time.pass_ms(10)
        (received,) = harness.peer.pending
        assert (received.api_key, received.api_version) == (ApiKey.FETCH, 18)
        batch = encode_batch(request.offset, 5, 1000, [b"a", b"b", b"c"])
        response = FetchResponse(ErrorCode.NONE, 2, 5, 3)
        harness.respond(fetch_messages.stock_fetch_response_to_wire(response, batch, OWN_ENDPOINT, 18))
        event = harness.events.pop()
        assert isinstance(event, ResponseReceived)
        assert isinstance(event.response, FetchResponse)
        assert event.request is request
        assert [found.base_offset for found in event.response.batches] == [request.offset]
        assert harness.events == []


def test_deadline_of_a_stock_fetch_includes_its_max_wait() -> None:
    harness = ClientHarness(STOCK)
    harness.send(fetch())
    harness.time.pass_ms(900)
    assert harness.events == []
    harness.time.pass_ms(200)
    assert [type(event) for event in harness.events] == [PeerRequestFailed]


def test_leader_that_cannot_be_followed_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    harness = ClientHarness(STOCK | {int(ApiKey.FETCH): (4, 16)})
    for _ in range(2):
        request = fetch()
        harness.send(request)
        assert harness.events.pop() == PeerRequestFailed(2, request, unsupported=True)
    (line,) = caplog.messages
    assert shows(line, "node 2", "FetchQuorumRecords", "Fetch v17")


def test_node_without_private_apis_sends_no_private_request() -> None:
    harness = ClientHarness(private_apis=False)
    harness.send(fetch())
    assert harness.peer.pending[0].api_key == ApiKey.FETCH


def test_close_ends_all_connections(harness: ClientHarness) -> None:
    harness.send(fetch())
    harness.send(vote())
    harness.connections.close()
    harness.time.pass_ms(5000)
    assert [link.is_closed for link in harness.peer.links] == [True, True]
    assert harness.events == []


def test_connections_to_former_addresses_are_dropped(harness: ClientHarness) -> None:
    for port in range(1, 30):
        harness.connections.call("gone", port, discovery(harness))
        harness.time.pass_ms(100)
    assert len(harness.connections) == 1


def discovery(harness: ClientHarness) -> Call:
    def ignore(failure: Failure) -> None:
        pass

    return Call(
        ApiKey.DISCOVER_BROKERS,
        lambda version: DiscoverBrokersRequest(),
        lambda response: None,
        ignore,
        harness.time.clock.now_ms() + 500,
    )


def test_fetch_names_the_metadata_log(harness: ClientHarness) -> None:
    harness.send(vote())
    message: Any = harness.peer.pending[0].message
    assert [topic.topic_name for topic in message.topics] == [METADATA_TOPIC]


def test_leader_endpoint_in_a_response_is_learned(harness: ClientHarness) -> None:
    harness.send(vote())
    endpoint = vote_response.NodeEndpoint(3, "three", 9093)
    topic = vote_response.TopicData(METADATA_TOPIC, [vote_response.PartitionData(0, 0, 3, 5, False)])
    harness.respond(WireVoteResponse(0, [topic], [endpoint]))
    assert harness.discovery.learned_addresses == [(3, Address("three", 9093))]


def test_fetch_that_fails_otherwise_is_not_logged_as_unfollowable(
    harness: ClientHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.send(fetch())
    harness.time.pass_ms(5000)
    assert isinstance(harness.events[-1], PeerRequestFailed)
    assert not any("followed" in line for line in caplog.messages)


def test_request_is_prepared_once_for_a_known_address(harness: ClientHarness) -> None:
    harness.send(fetch())
    prepared = Send(2, fetch())
    harness.requests.prepare(Send(9, fetch()))
    harness.requests.prepare(prepared)
    assert harness.requests._prepared is not None
    assert harness.requests._prepared[0] is prepared
