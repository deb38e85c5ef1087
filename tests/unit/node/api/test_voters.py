"""Who may change voters, which node answers, and what clients are told; what the engine decides is tested there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, ZERO_UUID, Endpoint, KafkaUuid, ReplicaKey
from quorumd.node.api.authorization import may_alter_cluster
from quorumd.node.api.voters import VoterApis
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.connection import Failure
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
from tests.support.node.api_harness import (
    CLUSTER_ID,
    OTHER_CLUSTER_ID,
    TIMEOUT_MS,
    ApiHarness,
    ScriptedDiscovery,
    ScriptedEngine,
)
from tests.support.node.recording_session import request_of

DIRECTORY = KafkaUuid(bytes(15) + b"\x42")
KEY = ReplicaKey(4, DIRECTORY)
HERE = Endpoint("CONTROLLER", "host-4", 9092)
LEADER = Endpoint("CONTROLLER", "host-2", 9092)


class VoterApiHarness(ApiHarness):
    """Node 2 leads epoch 5 and is the only one with a known address."""

    def __init__(self) -> None:
        discovery = ScriptedDiscovery({2: Address("host-2", 9092)})
        super().__init__(engine=ScriptedEngine(leader_id=2, epoch=5), discovery=discovery)
        self.handlers = {route.api_key: route.handler for route in VoterApis(self.context).routes()}

    def ask(self, message: Any, version: int = 0) -> Any:
        """The answer, None while there is none."""
        self.handlers[message.API_KEY](self.session, request_of(message, version))
        return self.answer

    @property
    def answer(self) -> Any:
        return self.session.answers[-1] if self.session.answers else None

    @property
    def pending(self) -> VoterChangeRequested:
        (event,) = self.events
        assert isinstance(event, VoterChangeRequested)
        return event

    def engine_answers(self, error: ErrorCode, text: str = "") -> Any:
        self.pending.token(VoterChangeResult(self.pending.token, error, text))
        return self.answer

    def new_voter_answers(self, *features: SupportedFeatureKey, error: int = 0, fetch: int = 17) -> None:
        spoken = [ApiVersion(ApiKey.FETCH, 4, fetch)]
        answer = ApiVersionsResponse(error, spoken, supported_features=list(features))
        self.connections.calls[0][2].on_response(answer)


@pytest.fixture
def world() -> VoterApiHarness:
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


def error_of(answer: Any) -> int:
    slot = answer.topics[0].partitions[0] if hasattr(answer, "topics") else answer
    found: int = slot.error_code
    return found


def message_of(answer: Any) -> str | None:
    slot = answer.topics[0].partitions[0] if hasattr(answer, "topics") else answer
    found: str | None = slot.error_message
    return found


class TestAlterQuorum:
    def test_hands_the_target_to_the_engine_and_answers_when_it_is_committed(
        self, world: VoterApiHarness
    ) -> None:
        assert world.ask(alter_quorum(4, 5, 6)) is None
        assert world.pending.change == SetTargetVoters((4, 5, 6))
        answer = world.engine_answers(ErrorCode.NONE)
        slot = answer.topics[0].partitions[0]
        assert answer.topics[0].topic_name == METADATA_TOPIC
        assert (slot.partition_index, slot.error_code, slot.error_message) == (0, 0, None)
        assert (slot.leader_id, slot.leader_epoch) == (-1, -1)
        assert world.statistics.error_responses == {}

    def test_null_cancels(self, world: VoterApiHarness) -> None:
        world.ask(alter_quorum())
        assert world.pending.change == SetTargetVoters(None)

    def test_no_voters_at_all_is_not_the_same_as_null(self, world: VoterApiHarness) -> None:
        message = alter_quorum()
        message.topics[0].partitions[0].target_voters = []
        world.ask(message)
        assert world.pending.change == SetTargetVoters(())

    def test_what_the_engine_refuses_is_told_with_its_words(self, world: VoterApiHarness) -> None:
        world.ask(alter_quorum(4))
        answer = world.engine_answers(ErrorCode.INVALID_REQUEST, "nobody knows where node 4 is")
        assert (error_of(answer), message_of(answer)) == (42, "nobody knows where node 4 is")
        assert world.statistics.error_responses == {(ApiKey.ALTER_QUORUM, 42): 1}

    def test_hole_4_an_error_tells_who_leads(self, world: VoterApiHarness) -> None:
        world.ask(alter_quorum(4))
        slot = world.engine_answers(ErrorCode.NOT_LEADER_OR_FOLLOWER).topics[0].partitions[0]
        assert (slot.leader_id, slot.leader_epoch) == (2, 5)

    @pytest.mark.parametrize(("topic", "partition"), [("another", 0), (METADATA_TOPIC, 1)])
    def test_only_the_metadata_log_is_served(
        self, world: VoterApiHarness, topic: str, partition: int
    ) -> None:
        answer = world.ask(alter_quorum(4, topic=topic, partition=partition))
        assert answer.topics[0].topic_name == topic
        assert answer.topics[0].partitions[0].partition_index == partition
        assert error_of(answer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert world.events == []


class TestAddRaftVoter:
    def test_asks_the_new_voter_first_then_the_engine(self, world: VoterApiHarness) -> None:
        assert world.ask(add_voter()) is None
        assert world.events == []
        host, port, call = world.connections.calls[0]
        assert (host, port, call.api_key) == ("host-4", 9092, ApiKey.API_VERSIONS)
        assert call.build(4).NAME == "ApiVersionsRequest"
        world.new_voter_answers(SupportedFeatureKey("metadata.version", 7, 25), KRAFT_VERSION)
        assert world.pending.change == AddVoter(Voter(KEY, (HERE,)), True)
        assert world.answer is None
        assert error_of(world.engine_answers(ErrorCode.NONE)) == 0
        assert message_of(world.answer) is None

    def test_need_not_wait_for_the_commit(self, world: VoterApiHarness) -> None:
        world.ask(add_voter(ack_when_committed=False), 1)
        world.new_voter_answers(KRAFT_VERSION)
        assert world.pending.change == AddVoter(Voter(KEY, (HERE,)), False)

    @pytest.mark.parametrize(
        "features",
        [
            [],
            [SupportedFeatureKey("metadata.version", 1, 25)],
            [SupportedFeatureKey("kraft.version", 0, 0)],
            [SupportedFeatureKey("kraft.version", 2, 3)],
        ],
    )
    def test_a_voter_that_knows_no_changing_voters_is_refused(
        self, world: VoterApiHarness, features: Any
    ) -> None:
        world.ask(add_voter())
        world.new_voter_answers(*features)
        assert error_of(world.answer) == ErrorCode.INVALID_REQUEST
        assert message_of(world.answer) == "Node 4 at host-4:9092 does not support kraft.version 1."
        assert world.events == []

    def test_a_voter_that_others_could_not_follow_is_refused(self, world: VoterApiHarness) -> None:
        """Kafka before 3.9 does not tell which replica fetches."""
        world.ask(add_voter())
        world.new_voter_answers(KRAFT_VERSION, fetch=16)
        assert error_of(world.answer) == ErrorCode.UNSUPPORTED_VERSION
        assert "neither FetchQuorumRecords nor Fetch v17" in str(message_of(world.answer))
        assert world.events == []

    def test_an_error_for_an_answer_is_no_support(self, world: VoterApiHarness) -> None:
        world.ask(add_voter())
        world.new_voter_answers(KRAFT_VERSION, error=35)
        assert error_of(world.answer) == ErrorCode.INVALID_REQUEST

    def test_a_voter_that_cannot_be_reached_is_not_added(self, world: VoterApiHarness) -> None:
        world.ask(add_voter())
        world.connections.calls[0][2].on_failure(Failure("connection refused", refused=True))
        assert error_of(world.answer) == ErrorCode.REQUEST_TIMED_OUT
        assert message_of(world.answer) == "Node 4 at host-4:9092 cannot be reached: connection refused."
        assert world.events == []

    def test_the_listener_of_the_quorum_is_the_one_that_is_asked(self, world: VoterApiHarness) -> None:
        world.ask(add_voter(listeners=[("BROKER", "host-4", 1), ("controller", "host-4", 2)]))
        assert world.connections.calls[0][:2] == ("host-4", 2)
        world.new_voter_answers(KRAFT_VERSION)
        both = (Endpoint("BROKER", "host-4", 1), Endpoint("CONTROLLER", "host-4", 2))
        assert world.pending.change == AddVoter(Voter(KEY, both), True)

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
    def test_a_voter_that_cannot_be_is_refused(self, world: VoterApiHarness, fields: dict[str, Any]) -> None:
        assert error_of(world.ask(add_voter(**fields))) == ErrorCode.INVALID_REQUEST
        assert message_of(world.answer)
        assert world.connections.calls == []
        assert world.events == []

    @pytest.mark.parametrize(("asked_ms", "timeout_ms"), [(300, 300), (5000, 5000), (0, TIMEOUT_MS)])
    def test_the_answer_comes_within_the_time_that_the_client_has(
        self, world: VoterApiHarness, asked_ms: int, timeout_ms: int
    ) -> None:
        world.ask(add_voter(timeout_ms=asked_ms))
        now = world.time.clock.now_ms()
        assert world.connections.calls[0][2].deadline_ms == now + min(timeout_ms, TIMEOUT_MS)
        world.new_voter_answers(KRAFT_VERSION)
        world.time.pass_ms(timeout_ms - 1)
        assert world.answer is None
        world.time.pass_ms(1)
        assert error_of(world.answer) == ErrorCode.REQUEST_TIMED_OUT
        world.engine_answers(ErrorCode.NONE)
        assert len(world.session.answers) == 1

    def test_a_client_that_has_given_up_changes_nothing_any_more(self, world: VoterApiHarness) -> None:
        world.ask(add_voter(timeout_ms=300))
        world.time.pass_ms(300)
        assert error_of(world.answer) == ErrorCode.REQUEST_TIMED_OUT
        world.new_voter_answers(KRAFT_VERSION)
        assert world.events == []


class TestRemoveRaftVoter:
    def test_hands_the_voter_to_the_engine(self, world: VoterApiHarness) -> None:
        assert world.ask(remove_voter()) is None
        assert world.pending.change == RemoveVoter(KEY)
        answer = world.engine_answers(ErrorCode.VOTER_NOT_FOUND, "no such voter")
        assert (error_of(answer), message_of(answer)) == (127, "no such voter")

    @pytest.mark.parametrize("fields", [{"directory_id": ZERO_UUID}, {"node_id": -1}])
    def test_half_a_name_is_none(self, world: VoterApiHarness, fields: dict[str, Any]) -> None:
        assert error_of(world.ask(remove_voter(**fields))) == ErrorCode.INVALID_REQUEST
        assert world.events == []


class TestUpdateRaftVoter:
    def test_hands_endpoints_and_epoch_to_the_engine(self, world: VoterApiHarness) -> None:
        assert world.ask(update_voter()) is None
        assert world.pending.change == UpdateVoter(Voter(KEY, (HERE,)), 5)
        answer = world.engine_answers(ErrorCode.FENCED_LEADER_EPOCH)
        assert answer.error_code == 74
        leader = answer.current_leader
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
    def test_a_voter_that_cannot_be_is_refused(self, world: VoterApiHarness, fields: dict[str, Any]) -> None:
        assert error_of(world.ask(update_voter(**fields))) == ErrorCode.INVALID_REQUEST
        assert world.events == []

    def test_the_engine_compares_epochs_also_where_this_node_does_not_lead(
        self, world: VoterApiHarness
    ) -> None:
        world.is_leader = False
        world.ask(update_voter())
        assert world.forwarded == []
        assert error_of(world.engine_answers(ErrorCode.NOT_LEADER_OR_FOLLOWER)) == 6


@pytest.mark.parametrize("make", ALL)
def test_another_cluster_is_refused(world: VoterApiHarness, make: Callable[..., Any]) -> None:
    assert error_of(world.ask(make(cluster_id=OTHER_CLUSTER_ID))) == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert world.events == []
    assert world.connections.calls == []


@pytest.mark.parametrize("make", [add_voter, remove_voter, update_voter])
def test_whoever_names_no_cluster_means_this_one(world: VoterApiHarness, make: Callable[..., Any]) -> None:
    assert world.ask(make(cluster_id=None)) is None


@pytest.mark.parametrize("make", ADMINISTRATORS)
@pytest.mark.parametrize("leads", [True, False])
def test_whoever_may_not_alter_the_cluster_changes_no_voters(
    world: VoterApiHarness, make: Callable[..., Any], leads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorumd.node.api.voters.may_alter_cluster", lambda session: False)
    world.is_leader = leads
    assert error_of(world.ask(make())) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert world.events == []
    assert world.forwarded == []
    assert world.connections.calls == []


def test_there_are_no_acls(world: VoterApiHarness) -> None:
    assert may_alter_cluster(world.session)


@pytest.mark.parametrize("make", ADMINISTRATORS)
def test_clients_of_brokers_are_forwarded_to_the_leader(
    world: VoterApiHarness, make: Callable[..., Any]
) -> None:
    world.is_leader = False
    assert world.ask(make()) is None
    assert [request.message.NAME for request in world.forwarded] == [make().NAME]
    world.time.pass_ms(TIMEOUT_MS)
    assert world.answer is None, "the forwarder has a patience of its own"


@pytest.mark.parametrize("make", ADMINISTRATORS)
def test_clients_of_controllers_look_for_the_leader_themselves(
    world: VoterApiHarness, make: Callable[..., Any]
) -> None:
    world.is_leader, world.session.is_controller_client = False, True
    assert error_of(world.ask(make())) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert message_of(world.answer)
    assert world.session.refusals == 1, "nothing was done: a forwarding node may try another"
    assert world.events == []
    assert world.forwarded == []


@pytest.mark.parametrize("make", [alter_quorum, remove_voter])
def test_a_leadership_lost_on_the_way_is_told_to_the_client_and_not_tried_again(
    world: VoterApiHarness, make: Callable[..., Any]
) -> None:
    """The record may be committed by the next leader."""
    world.ask(make())
    assert error_of(world.engine_answers(ErrorCode.NOT_LEADER_OR_FOLLOWER)) == 6
    assert world.session.refusals == 0


@pytest.mark.parametrize("make", [alter_quorum, remove_voter, update_voter])
def test_what_is_not_committed_in_time_times_out(world: VoterApiHarness, make: Callable[..., Any]) -> None:
    world.ask(make())
    world.time.pass_ms(TIMEOUT_MS)
    assert error_of(world.answer) == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("make", ALL)
def test_the_private_code_stays_private(world: VoterApiHarness, make: Callable[..., Any]) -> None:
    world.ask(make())
    if world.connections.calls:
        world.new_voter_answers(KRAFT_VERSION)
    assert error_of(world.engine_answers(ErrorCode.NOT_FOLLOWER)) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("make", ALL)
def test_an_answer_comes_once(world: VoterApiHarness, make: Callable[..., Any]) -> None:
    world.ask(make())
    if world.connections.calls:
        world.new_voter_answers(KRAFT_VERSION)
    world.engine_answers(ErrorCode.NONE)
    world.engine_answers(ErrorCode.NONE)
    world.time.pass_ms(TIMEOUT_MS)
    assert len(world.session.answers) == 1
    message: Message = world.answer
    assert message.NAME.endswith("Response")
