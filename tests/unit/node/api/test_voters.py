"""Authorization, forwarding and responses of voter changes; the engine has its own tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, ZERO_UUID, Endpoint, KafkaUuid, ReplicaKey
from quorumd.node.api.voters import VoterApis
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.connection import Failure
from quorumd.node.wire.quorum_messages import MAX_NAMED
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages import add_raft_voter_request as add
from quorumd.protocol.messages import alter_quorum_request as alter
from quorumd.protocol.messages import update_raft_voter_request as update
from quorumd.protocol.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.protocol.wire import Message
from quorumd.raft.effects import VoterChangeResult
from quorumd.raft.events import (
    AddVoter,
    RemoveVoter,
    SetTargetVoters,
    UpdateVoter,
    VoterChangeRequested,
)
from quorumd.raft.voters import Voter
from tests.support.node.api_harness import TIMEOUT_MS, ApiHarness
from tests.support.node.parts import CLUSTER_ID, OTHER_CLUSTER_ID
from tests.support.node.recording_session import request_of
from tests.support.node.scripted_discovery import ScriptedDiscovery
from tests.support.node.scripted_engine import ScriptedEngine
from tests.support.text import shows

DIRECTORY = KafkaUuid(bytes(15) + b"\x42")
KEY = ReplicaKey(4, DIRECTORY)
HERE = Endpoint("CONTROLLER", "host-4", 9092)
LEADER = Endpoint("CONTROLLER", "host-2", 9092)


class VoterApiHarness(ApiHarness):
    """Node 2 leads epoch 5 and is the only node with a known address."""

    def __init__(self) -> None:
        discovery = ScriptedDiscovery({2: Address("host-2", 9092)})
        super().__init__(engine=ScriptedEngine(leader_id=2, epoch=5), discovery=discovery)
        self.handlers = {route.api_key: route.handler for route in VoterApis(self.context).routes()}

    def send(self, message: Any, version: int = 0) -> Any:
        """Return the response, None while the request is pending."""
        self.handlers[message.API_KEY](self.session, request_of(message, version))
        return self.response

    @property
    def response(self) -> Any:
        return self.session.responses[-1] if self.session.responses else None

    @property
    def pending(self) -> VoterChangeRequested:
        (event,) = self.events
        assert isinstance(event, VoterChangeRequested)
        return event

    def respond_from_engine(self, error: ErrorCode, text: str = "") -> Any:
        self.pending.token(VoterChangeResult(self.pending.token, error, text))
        return self.response

    def respond_from_new_voter(self, *features: SupportedFeatureKey, error: int = 0, fetch: int = 17) -> None:
        supported_versions = [ApiVersion(ApiKey.FETCH, 4, fetch)]
        response = ApiVersionsResponse(error, supported_versions, supported_features=list(features))
        self.connections.calls[0][2].on_response(response)


@pytest.fixture
def harness() -> VoterApiHarness:
    return VoterApiHarness()


def alter_quorum(
    *ids: int, cluster_id: str = CLUSTER_ID, topic: str = METADATA_TOPIC, partition: int = 0
) -> Any:
    targets = [alter.TargetVoter(node_id) for node_id in ids] or None
    partitions = [alter.PartitionData(partition, targets)]
    return alter.AlterQuorumRequest(cluster_id, [alter.TopicData(topic, partitions)])


def add_voter(cluster_id: str | None = CLUSTER_ID, **fields: Any) -> Any:
    listeners = fields.pop("listeners", [("CONTROLLER", "host-4", 9092)])
    message = add.AddRaftVoterRequest(cluster_id, 0, 4, DIRECTORY, [add.Listener(*e) for e in listeners])
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def remove_voter(
    cluster_id: str | None = CLUSTER_ID, directory_id: KafkaUuid = DIRECTORY, node_id: int = 4
) -> Any:
    return RemoveRaftVoterRequest(cluster_id, node_id, directory_id)


def update_voter(cluster_id: str | None = CLUSTER_ID, **fields: Any) -> Any:
    message = update.UpdateRaftVoterRequest(
        cluster_id,
        5,
        4,
        DIRECTORY,
        [update.Listener("CONTROLLER", "host-4", 9092)],
        update.KRaftVersionFeature(0, 1),
    )
    for name, value in fields.items():
        setattr(message, name, value)
    return message


KRAFT_VERSION = SupportedFeatureKey("kraft.version", 0, 1)
ADMINISTRATORS: list[Callable[..., Any]] = [alter_quorum, add_voter, remove_voter]
ALL: list[Callable[..., Any]] = [*ADMINISTRATORS, update_voter]


def error_of(response: Any) -> int:
    slot = response.topics[0].partitions[0] if hasattr(response, "topics") else response
    found: int = slot.error_code
    return found


def error_message(response: Any) -> str | None:
    slot = response.topics[0].partitions[0] if hasattr(response, "topics") else response
    found: str | None = slot.error_message
    return found


class TestAlterQuorum:
    def test_target_is_passed_to_the_engine_and_acknowledged_on_commit(
        self, harness: VoterApiHarness
    ) -> None:
        assert harness.send(alter_quorum(4, 5, 6)) is None
        assert harness.pending.change == SetTargetVoters((4, 5, 6))
        response = harness.respond_from_engine(ErrorCode.NONE)
        slot = response.topics[0].partitions[0]
        assert response.topics[0].topic_name == METADATA_TOPIC
        assert (slot.partition_index, slot.error_code, slot.error_message) == (0, 0, None)
        assert (slot.leader_id, slot.leader_epoch) == (-1, -1)
        assert harness.statistics.error_responses == {}

    def test_null_cancels_the_target(self, harness: VoterApiHarness) -> None:
        harness.send(alter_quorum())
        assert harness.pending.change == SetTargetVoters(None)

    def test_empty_target_differs_from_null(self, harness: VoterApiHarness) -> None:
        message = alter_quorum()
        message.topics[0].partitions[0].target_voters = []
        harness.send(message)
        assert harness.pending.change == SetTargetVoters(())

    def test_error_message_of_the_engine_is_returned(self, harness: VoterApiHarness) -> None:
        harness.send(alter_quorum(4))
        response = harness.respond_from_engine(ErrorCode.INVALID_REQUEST, "the reason")
        assert (error_of(response), error_message(response)) == (42, "the reason")
        assert harness.statistics.error_responses == {(ApiKey.ALTER_QUORUM, 42): 1}

    def test_hole_4_error_names_the_leader(self, harness: VoterApiHarness) -> None:
        harness.send(alter_quorum(4))
        slot = harness.respond_from_engine(ErrorCode.NOT_LEADER_OR_FOLLOWER).topics[0].partitions[0]
        assert (slot.leader_id, slot.leader_epoch) == (2, 5)

    @pytest.mark.parametrize(("topic", "partition"), [("another", 0), (METADATA_TOPIC, 1)])
    def test_other_partitions_are_rejected(
        self, harness: VoterApiHarness, topic: str, partition: int
    ) -> None:
        response = harness.send(alter_quorum(4, topic=topic, partition=partition))
        assert response.topics[0].topic_name == topic
        assert response.topics[0].partitions[0].partition_index == partition
        assert error_of(response) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_request_that_names_many_partitions_gets_one_error(self, harness: VoterApiHarness) -> None:
        """The errors of 50,000 took 135 ms."""
        message = alter_quorum(4)
        message.topics *= MAX_NAMED
        response = harness.send(message)
        assert [len(topic.partitions) for topic in response.topics] == [1]
        assert error_of(response) == ErrorCode.INVALID_REQUEST
        assert harness.events == []


class TestAddRaftVoter:
    def test_api_versions_of_the_new_voter_are_requested_before_the_change(
        self, harness: VoterApiHarness
    ) -> None:
        assert harness.send(add_voter()) is None
        assert harness.events == []
        host, port, call = harness.connections.calls[0]
        assert (host, port, call.api_key) == ("host-4", 9092, ApiKey.API_VERSIONS)
        assert call.build(4).NAME == "ApiVersionsRequest"
        harness.respond_from_new_voter(SupportedFeatureKey("metadata.version", 7, 25), KRAFT_VERSION)
        assert harness.pending.change == AddVoter(Voter(KEY, (HERE,)), True)
        assert harness.response is None
        assert error_of(harness.respond_from_engine(ErrorCode.NONE)) == 0
        assert error_message(harness.response) is None

    def test_request_can_skip_the_wait_for_the_commit(self, harness: VoterApiHarness) -> None:
        harness.send(add_voter(ack_when_committed=False), 1)
        harness.respond_from_new_voter(KRAFT_VERSION)
        assert harness.pending.change == AddVoter(Voter(KEY, (HERE,)), False)

    @pytest.mark.parametrize(("least", "most"), [(0, 1), (1, 1), (1, 2)])
    def test_voter_with_kraft_version_1_is_added(
        self, harness: VoterApiHarness, least: int, most: int
    ) -> None:
        harness.send(add_voter())
        harness.respond_from_new_voter(SupportedFeatureKey("kraft.version", least, most))
        assert harness.pending.change == AddVoter(Voter(KEY, (HERE,)), True)

    @pytest.mark.parametrize(
        "features",
        [
            [],
            [SupportedFeatureKey("metadata.version", 1, 25)],
            [SupportedFeatureKey("kraft.version", 0, 0)],
            [SupportedFeatureKey("kraft.version", 2, 3)],
        ],
    )
    def test_voter_without_kraft_version_1_is_rejected(self, harness: VoterApiHarness, features: Any) -> None:
        harness.send(add_voter())
        harness.respond_from_new_voter(*features)
        assert error_of(harness.response) == ErrorCode.INVALID_REQUEST
        assert shows(str(error_message(harness.response)), "Node 4", "host-4:9092", "kraft.version 1")
        assert harness.events == []

    def test_voter_without_fetch_v17_is_rejected(self, harness: VoterApiHarness) -> None:
        """Fetch requests of Kafka before 3.9 do not hold the directory id of the replica."""
        harness.send(add_voter())
        harness.respond_from_new_voter(KRAFT_VERSION, fetch=16)
        assert error_of(harness.response) == ErrorCode.UNSUPPORTED_VERSION
        assert "neither FetchQuorumRecords nor Fetch v17" in str(error_message(harness.response))
        assert harness.events == []

    def test_voter_whose_api_versions_fail_is_rejected(self, harness: VoterApiHarness) -> None:
        harness.send(add_voter())
        harness.respond_from_new_voter(KRAFT_VERSION, error=35)
        assert error_of(harness.response) == ErrorCode.INVALID_REQUEST

    def test_unreachable_voter_is_not_added(self, harness: VoterApiHarness) -> None:
        harness.send(add_voter())
        harness.connections.calls[0][2].on_failure(Failure("connection refused", refused=True))
        assert error_of(harness.response) == ErrorCode.REQUEST_TIMED_OUT
        assert shows(str(error_message(harness.response)), "Node 4", "host-4:9092", "connection refused")
        assert harness.events == []

    def test_api_versions_are_requested_at_the_controller_listener(self, harness: VoterApiHarness) -> None:
        harness.send(add_voter(listeners=[("B" * 255, "host-4", 1), ("controller", "host-4", 2)]))
        assert harness.connections.calls[0][:2] == ("host-4", 2)
        harness.respond_from_new_voter(KRAFT_VERSION)
        both = (Endpoint("B" * 255, "host-4", 1), Endpoint("CONTROLLER", "host-4", 2))
        assert harness.pending.change == AddVoter(Voter(KEY, both), True)

    @pytest.mark.parametrize(
        "fields",
        [
            {"voter_id": -1},
            {"voter_directory_id": ZERO_UUID},
            {"listeners": []},
            {"listeners": [("OTHER", "host-4", 9092)]},
            {"listeners": [("CONTROLLER", "", 9092)]},
            {"listeners": [("CONTROLLER", "host-4", 0)]},
            {"listeners": [("CONTROLLER", "host-4", 1), ("controller", "host-4", 2)]},
            {"listeners": [("CONTROLLER", "host-4", 1), ("X" * 256, "host-4", 2)]},
            {"listeners": [("CONTROLLER", "host-4", 1), ("", "host-4", 2)]},
            {"listeners": [(f"L{n}", "h", 1) for n in range(16)] + [("CONTROLLER", "host-4", 9092)]},
        ],
    )
    def test_invalid_voter_is_rejected(self, harness: VoterApiHarness, fields: dict[str, Any]) -> None:
        assert error_of(harness.send(add_voter(**fields))) == ErrorCode.INVALID_REQUEST
        assert error_message(harness.response)
        assert harness.connections.calls == []
        assert harness.events == []

    @pytest.mark.parametrize(("requested_ms", "timeout_ms"), [(300, 300), (5000, 5000), (0, TIMEOUT_MS)])
    def test_request_times_out_after_the_timeout_of_the_client(
        self, harness: VoterApiHarness, requested_ms: int, timeout_ms: int
    ) -> None:
        harness.send(add_voter(timeout_ms=requested_ms))
        now = harness.time.clock.now_ms()
        assert harness.connections.calls[0][2].deadline_ms == now + min(timeout_ms, TIMEOUT_MS)
        harness.respond_from_new_voter(KRAFT_VERSION)
        harness.time.pass_ms(timeout_ms - 1)
        assert harness.response is None
        harness.time.pass_ms(1)
        assert error_of(harness.response) == ErrorCode.REQUEST_TIMED_OUT
        harness.respond_from_engine(ErrorCode.NONE)
        assert len(harness.session.responses) == 1

    def test_timed_out_request_does_not_change_voters(self, harness: VoterApiHarness) -> None:
        harness.send(add_voter(timeout_ms=300))
        harness.time.pass_ms(300)
        assert error_of(harness.response) == ErrorCode.REQUEST_TIMED_OUT
        harness.respond_from_new_voter(KRAFT_VERSION)
        assert harness.events == []


class TestRemoveRaftVoter:
    def test_voter_is_passed_to_the_engine(self, harness: VoterApiHarness) -> None:
        assert harness.send(remove_voter()) is None
        assert harness.pending.change == RemoveVoter(KEY)
        response = harness.respond_from_engine(ErrorCode.VOTER_NOT_FOUND, "no such voter")
        assert (error_of(response), error_message(response)) == (127, "no such voter")

    @pytest.mark.parametrize("fields", [{"directory_id": ZERO_UUID}, {"node_id": -1}])
    def test_incomplete_replica_key_is_rejected(
        self, harness: VoterApiHarness, fields: dict[str, Any]
    ) -> None:
        assert error_of(harness.send(remove_voter(**fields))) == ErrorCode.INVALID_REQUEST
        assert harness.events == []


class TestUpdateRaftVoter:
    def test_endpoints_and_epoch_are_passed_to_the_engine(self, harness: VoterApiHarness) -> None:
        assert harness.send(update_voter()) is None
        assert harness.pending.change == UpdateVoter(Voter(KEY, (HERE,)), 5)
        response = harness.respond_from_engine(ErrorCode.FENCED_LEADER_EPOCH)
        assert response.error_code == 74
        leader = response.current_leader
        assert (leader.leader_id, leader.leader_epoch, leader.host, leader.port) == (2, 5, "host-2", 9092)

    @pytest.mark.parametrize(
        "fields",
        [
            {"voter_id": -1},
            {"voter_directory_id": ZERO_UUID},
            {"listeners": []},
            {"listeners": [update.Listener("CONTROLLER", "", 1)]},
            {"kraft_version_feature": update.KRaftVersionFeature(0, 0)},
            {"kraft_version_feature": update.KRaftVersionFeature(2, 1)},
        ],
    )
    def test_invalid_voter_is_rejected(self, harness: VoterApiHarness, fields: dict[str, Any]) -> None:
        assert error_of(harness.send(update_voter(**fields))) == ErrorCode.INVALID_REQUEST
        assert harness.events == []

    @pytest.mark.parametrize(("least", "most"), [(0, 1), (1, 1), (1, 2)])
    def test_voter_that_supports_kraft_version_1_is_updated(
        self, harness: VoterApiHarness, least: int, most: int
    ) -> None:
        feature = update.KRaftVersionFeature(least, most)
        assert harness.send(update_voter(kraft_version_feature=feature)) is None
        assert harness.pending.change == UpdateVoter(Voter(KEY, (HERE,)), 5)

    def test_follower_passes_the_update_to_the_engine(self, harness: VoterApiHarness) -> None:
        harness.is_leader = False
        harness.send(update_voter())
        assert harness.forwarded == []
        assert error_of(harness.respond_from_engine(ErrorCode.NOT_LEADER_OR_FOLLOWER)) == 6


@pytest.mark.parametrize("make", ALL)
def test_wrong_cluster_id_is_rejected(harness: VoterApiHarness, make: Callable[..., Any]) -> None:
    assert error_of(harness.send(make(cluster_id=OTHER_CLUSTER_ID))) == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert harness.events == []
    assert harness.connections.calls == []


@pytest.mark.parametrize("make", [add_voter, remove_voter, update_voter])
def test_null_cluster_id_is_accepted(harness: VoterApiHarness, make: Callable[..., Any]) -> None:
    assert harness.send(make(cluster_id=None)) is None


@pytest.mark.parametrize("make", ADMINISTRATORS)
def test_follower_forwards_broker_clients(harness: VoterApiHarness, make: Callable[..., Any]) -> None:
    harness.is_leader = False
    assert harness.send(make()) is None
    assert [request.message.NAME for request in harness.forwarded] == [make().NAME]
    harness.time.pass_ms(TIMEOUT_MS)
    assert harness.response is None, "the forwarder has its own timeout"


@pytest.mark.parametrize("make", ADMINISTRATORS)
def test_follower_rejects_controller_clients(harness: VoterApiHarness, make: Callable[..., Any]) -> None:
    harness.is_leader, harness.session.origin.is_controller_client = False, True
    assert error_of(harness.send(make())) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert error_message(harness.response)
    assert harness.session.refusals == 1, "nothing was changed: a forwarding node may retry elsewhere"
    assert harness.events == []
    assert harness.forwarded == []


@pytest.mark.parametrize("make", [alter_quorum, remove_voter])
def test_change_is_not_retried_after_leadership_is_lost(
    harness: VoterApiHarness, make: Callable[..., Any]
) -> None:
    """The next leader may commit the record."""
    harness.send(make())
    assert error_of(harness.respond_from_engine(ErrorCode.NOT_LEADER_OR_FOLLOWER)) == 6
    assert harness.session.refusals == 0


@pytest.mark.parametrize("make", [alter_quorum, remove_voter, update_voter])
def test_uncommitted_change_times_out(harness: VoterApiHarness, make: Callable[..., Any]) -> None:
    harness.send(make())
    harness.time.pass_ms(TIMEOUT_MS)
    assert error_of(harness.response) == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("make", ALL)
def test_internal_error_code_is_not_sent(harness: VoterApiHarness, make: Callable[..., Any]) -> None:
    harness.send(make())
    if harness.connections.calls:
        harness.respond_from_new_voter(KRAFT_VERSION)
    assert error_of(harness.respond_from_engine(ErrorCode.NOT_FOLLOWER)) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("make", ALL)
def test_response_is_sent_once(harness: VoterApiHarness, make: Callable[..., Any]) -> None:
    harness.send(make())
    if harness.connections.calls:
        harness.respond_from_new_voter(KRAFT_VERSION)
    harness.respond_from_engine(ErrorCode.NONE)
    harness.respond_from_engine(ErrorCode.NONE)
    harness.time.pass_ms(TIMEOUT_MS)
    assert len(harness.session.responses) == 1
    message: Message = harness.response
    assert message.NAME.endswith("Response")
