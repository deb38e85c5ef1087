from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.partition import NO_LEADER, Partition
from quorumd.errors import ErrorCode
from quorumd.node.api.controller_table import CONTROLLER_APIS, ControllerApi
from quorumd.node.api.error_responses import FORWARDABLE
from quorumd.node.sessions.server_session import Session
from quorumd.node.state import metadata_writer
from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from quorumd.protocol.messages.create_partitions_response import CreatePartitionsResponse
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from quorumd.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from tests.support.controller.broker_harness import registration
from tests.support.node.api_harness import FIRST_OFFSET
from tests.support.node.controller_harness import ControllerHarness
from tests.support.node.recording_session import RecordingSession
from tests.support.node.sample_requests import full_request

GROUP = 32
ANSWER = CreatePartitionsResponse(7)


@dataclass
class Api:
    """An API of the test's own, on the keys of two real ones: one of clients, one that may go in parts."""

    records: list[ConfigRecord] = field(default_factory=list)
    is_allowed: bool = True
    noted: list[Any] = field(default_factory=list)
    planned: int = 0

    def table(self) -> dict[int, ControllerApi]:
        return {
            ApiKey.CREATE_PARTITIONS: ControllerApi(
                CreatePartitionsRequest, self.plan, self.is_authorized, on_request=self.note
            ),
            ApiKey.UNREGISTER_BROKER: ControllerApi(
                UnregisterBrokerRequest,
                self.plan_other,
                self.is_authorized,
                None,
                needs_read_confirmation=False,
            ),
        }

    def plan(self, controller: Controller, message: Any, version: int) -> ControllerResult:
        self.planned += 1
        return ControllerResult(self.records, ANSWER)

    def plan_other(self, controller: Controller, message: Any, version: int) -> ControllerResult:
        return ControllerResult(self.records, UnregisterBrokerResponse(0, 0, None))

    def is_authorized(self, session: Session) -> bool:
        return self.is_allowed

    def note(self, controller: Controller, message: Any) -> None:
        self.noted.append(message)


@pytest.fixture
def api() -> Api:
    return Api([ConfigRecord(GROUP, "g", "a", "1"), ConfigRecord(GROUP, "g", "b", "2")])


@pytest.fixture
def world(api: Api) -> ControllerHarness:
    return ControllerHarness(api.table())


CLIENT_REQUEST = CreatePartitionsRequest([CreatePartitionsTopic("t", 3)])


def test_the_answer_leaves_when_the_records_are_committed_and_not_before(world: ControllerHarness) -> None:
    session = world.ask(CLIENT_REQUEST)
    assert [[record.name for record in batch] for batch in world.batches] == [["a", "b"]]
    assert session.answers == []
    world.commit()
    assert session.answers == [ANSWER]


def test_what_was_not_committed_is_taken_back_and_told_so(world: ControllerHarness) -> None:
    session = world.ask(CLIENT_REQUEST)
    assert world.controller.image.config((GROUP, "g")) == {"a": "1", "b": "2"}
    world.lose_leadership()
    assert world.controller.image.config((GROUP, "g")) == {}
    (answer,) = session.answers
    assert answer.results[0].error_code == ErrorCode.NOT_CONTROLLER
    assert world.forwarded == [], "it may have had its effect: nobody may ask again for the client"


def test_an_answer_without_records_is_a_read(world: ControllerHarness, api: Api) -> None:
    session = world.ask(CLIENT_REQUEST)
    api.records = []
    other = world.ask(CLIENT_REQUEST)
    world.confirm()
    assert other.answers == [], "what it has seen is not committed"
    world.commit()
    assert session.answers == other.answers == [ANSWER]


def test_a_leader_that_cannot_confirm_that_it_is_has_the_client_asked_elsewhere(
    world: ControllerHarness, api: Api
) -> None:
    api.records = []
    session = world.ask(CLIENT_REQUEST)
    world.lose_leadership()
    assert session.answers == []
    assert [request.api_key for request in world.forwarded] == [ApiKey.CREATE_PARTITIONS]


def test_the_image_is_planned_against_what_is_proposed(world: ControllerHarness) -> None:
    assert world.controller.next_offset() == world.log_end
    world.may_append = False
    before = world.controller.next_offset()
    world.ask(CLIENT_REQUEST)
    assert world.controller.next_offset() == before + 2
    assert world.log_end == before


# Whoever does not lead


def test_clients_are_forwarded_and_controller_clients_told(world: ControllerHarness, api: Api) -> None:
    world.is_leader = False
    assert world.ask(CLIENT_REQUEST).answers == []
    assert len(world.forwarded) == 1
    session = world.ask(CLIENT_REQUEST, RecordingSession(is_controller_client=True))
    assert session.answers[0].results[0].error_code == ErrorCode.NOT_CONTROLLER
    assert session.refusals == 1
    assert (api.planned, api.noted) == (0, [])


@pytest.mark.parametrize("key", sorted(CONTROLLER_APIS))
def test_brokers_are_told_at_once_in_every_api(key: int) -> None:
    world = ControllerHarness()
    world.is_leader = False
    session = world.ask(full_request(key, APIS[key].max_version))
    if key in FORWARDABLE:
        assert len(world.forwarded) == 1
    else:
        assert session.answers[0].error_code == ErrorCode.NOT_CONTROLLER
        assert session.refusals == 1


# Rejected requests


def test_only_who_may_is_heard(world: ControllerHarness, api: Api) -> None:
    api.is_allowed = False
    (answer,) = world.ask(CLIENT_REQUEST).answers
    assert answer.results[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (api.planned, api.noted) == (0, [])


def test_more_than_a_batch_holds_is_refused_whole(
    world: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_writer, "MAX_BATCH_BYTES", 20)
    (answer,) = world.ask(CLIENT_REQUEST).answers
    assert answer.results[0].error_code == ErrorCode.POLICY_VIOLATION
    assert world.batches == []
    assert world.controller.image.config((GROUP, "g")) == {}


def test_what_may_go_in_parts_is_answered_with_the_last(
    world: ControllerHarness, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_writer, "MAX_BATCH_BYTES", 20)
    api.records.append(ConfigRecord(GROUP, "g", "c", "3"))
    session = world.ask(UnregisterBrokerRequest(1))
    assert [[record.name for record in batch] for batch in world.batches] == [["a"], ["b"], ["c"]]
    world.proposals.committed(world.log_end - 1)
    assert session.answers == []
    world.commit()
    assert len(session.answers) == 1
    assert world.controller.image.config((GROUP, "g")) == {"a": "1", "b": "2", "c": "3"}


def test_parts_are_taken_back_together(
    world: ControllerHarness, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_writer, "MAX_BATCH_BYTES", 20)
    before = world.controller.image.hash
    session = world.ask(UnregisterBrokerRequest(1))
    world.lose_leadership()
    assert world.controller.image.hash == before
    assert session.answers[0].error_code == ErrorCode.NOT_CONTROLLER


def test_a_full_disk_refuses_what_needs_records_and_nothing_else(world: ControllerHarness, api: Api) -> None:
    world.has_room = False
    (answer,) = world.ask(CLIENT_REQUEST).answers
    assert answer.results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.controller.image.config((GROUP, "g")) == {}
    assert len(api.noted) == 1
    api.records = []
    assert world.answer(CLIENT_REQUEST) == ANSWER


def test_errors_are_counted_each_of_many() -> None:
    world = ControllerHarness()
    world.answer(UnregisterBrokerRequest(7))
    world.answer(full_request(ApiKey.ELECT_LEADERS, 2))
    assert world.statistics.error_responses == {
        (ApiKey.UNREGISTER_BROKER, ErrorCode.BROKER_ID_NOT_REGISTERED): 1,
        (ApiKey.ELECT_LEADERS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): 3,
    }


# Heartbeats


@pytest.fixture
def brokers() -> ControllerHarness:
    """Broker 1 is registered, fenced and leads nothing."""
    world = ControllerHarness()
    world.begin_with(Partition((1,), (), NO_LEADER, elr=(1,)))
    world.answer(registration(1, previous_broker_epoch=5))
    return world


def heartbeat(world: ControllerHarness, **fields: Any) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(1, world.controller.image.brokers[1].epoch, world.log_end, **fields)


def test_a_heartbeat_that_changes_nothing_is_answered_at_once(brokers: ControllerHarness) -> None:
    before = brokers.log_end
    (answer,) = brokers.ask(heartbeat(brokers, want_fence=True)).answers
    assert (answer.error_code, answer.is_fenced) == (0, True)
    assert (brokers.log_end, brokers.reads) == (before, [])


def test_nobody_is_told_that_it_is_unfenced_before_that_is_committed(brokers: ControllerHarness) -> None:
    first = brokers.ask(heartbeat(brokers, want_fence=False))
    second = brokers.ask(heartbeat(brokers, want_fence=False))
    assert first.answers == second.answers == []
    brokers.commit()
    assert [session.answers[0].is_fenced for session in (first, second)] == [False, False]
    assert len(brokers.batches[-1]) >= 1


def test_a_heartbeat_does_not_hurry_what_gathers(brokers: ControllerHarness) -> None:
    brokers.may_append = False
    first = brokers.ask(heartbeat(brokers, want_fence=False))
    before = len(brokers.batches)
    second = brokers.ask(heartbeat(brokers, want_fence=False))
    assert len(brokers.batches) == before
    assert first.answers == second.answers == []
    brokers.proposals.append_pending()
    assert len(brokers.batches) == before + 1
    brokers.commit()
    assert len(first.answers) == len(second.answers) == 1


def test_the_epoch_of_a_broker_is_the_offset_of_its_registration(brokers: ControllerHarness) -> None:
    """Whatever waits before it, and though the quorum appends records of its own when it likes."""
    brokers.may_append = False
    brokers.ask(heartbeat(brokers, want_fence=False))
    session = brokers.ask(registration(2))
    brokers.batches.append(["a record of the voters"])
    brokers.proposals.append_pending()
    brokers.commit()
    log = [record for batch in brokers.batches for record in batch]
    (offset,) = (
        FIRST_OFFSET + position
        for position, record in enumerate(log)
        if isinstance(record, RegisterBrokerRecord) and record.broker_id == 2
    )
    assert session.answers[0].broker_epoch == brokers.controller.image.brokers[2].epoch == offset


def test_a_heartbeat_whose_ground_is_lost_is_told_so(brokers: ControllerHarness) -> None:
    first = brokers.ask(heartbeat(brokers, want_fence=False))
    second = brokers.ask(heartbeat(brokers, want_fence=False))
    brokers.lose_leadership()
    for session in (first, second):
        assert session.answers[0].error_code == ErrorCode.NOT_CONTROLLER
    assert brokers.controller.image.brokers[1].is_fenced


def test_a_heartbeat_counts_on_a_full_disk(brokers: ControllerHarness) -> None:
    brokers.has_room = False
    brokers.now_ms = 50_000.0
    (answer,) = brokers.ask(heartbeat(brokers, want_fence=False)).answers
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert brokers.controller.sessions.is_alive(1, 50_001.0)
    (answer,) = brokers.ask(heartbeat(brokers, want_fence=True)).answers
    assert answer.error_code == 0
