from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest

from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.partition import NO_LEADER, Partition
from quorumd.controller.request_context import RequestContext, Requester
from quorumd.errors import ErrorCode
from quorumd.node.api.controller_table import CONTROLLER_APIS, SEVERAL_BATCHES, ControllerApi
from quorumd.node.api.error_responses import ENVELOPE_APIS
from quorumd.node.state import metadata_writer
from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from quorumd.protocol.messages.create_partitions_response import CreatePartitionsResponse
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from quorumd.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from quorumd.security.acls import AclIndex
from quorumd.security.authorizer import Authorizer, AuthorizerSettings
from tests.support.controller.broker_harness import registration
from tests.support.node.api_harness import FIRST_OFFSET
from tests.support.node.controller_harness import ControllerHarness
from tests.support.node.recording_session import RecordingSession
from tests.support.node.sample_requests import full_request
from tests.support.security.rights import authorizer_of

GROUP = 32
RESPONSE = CreatePartitionsResponse(7)


@dataclass
class Api:
    """Test APIs on the keys of two real ones: a client API and one whose records may be split."""

    records: list[ConfigRecord] = field(default_factory=list)
    noted: list[Any] = field(default_factory=list)
    planned: int = 0

    def table(self) -> dict[int, ControllerApi]:
        return {
            ApiKey.CREATE_PARTITIONS: ControllerApi(CreatePartitionsRequest, self.plan, on_request=self.note),
            ApiKey.UNREGISTER_BROKER: ControllerApi(
                UnregisterBrokerRequest,
                self.plan_other,
                SEVERAL_BATCHES,
                needs_read_confirmation=False,
            ),
        }

    def plan(
        self, controller: Controller, message: Any, version: int, context: RequestContext
    ) -> ControllerResult:
        self.planned += 1
        return ControllerResult(self.records, RESPONSE)

    def plan_other(
        self, controller: Controller, message: Any, version: int, context: RequestContext
    ) -> ControllerResult:
        return ControllerResult(self.records, UnregisterBrokerResponse(0, 0, None))

    def note(self, controller: Controller, message: Any) -> None:
        self.noted.append(message)


@pytest.fixture
def api() -> Api:
    return Api([ConfigRecord(GROUP, "g", "a", "1"), ConfigRecord(GROUP, "g", "b", "2")])


@pytest.fixture
def harness(api: Api) -> ControllerHarness:
    return ControllerHarness(api.table())


CLIENT_REQUEST = CreatePartitionsRequest([CreatePartitionsTopic("t", 3)])


def test_response_is_sent_on_commit(harness: ControllerHarness) -> None:
    session = harness.request(CLIENT_REQUEST)
    assert [[record.name for record in batch] for batch in harness.batches] == [["a", "b"]]
    assert session.responses == []
    harness.commit()
    assert session.responses == [RESPONSE]


def test_uncommitted_records_are_rolled_back_and_reported(harness: ControllerHarness) -> None:
    session = harness.request(CLIENT_REQUEST)
    assert harness.controller.image.config((GROUP, "g")) == {"a": "1", "b": "2"}
    harness.lose_leadership()
    assert harness.controller.image.config((GROUP, "g")) == {}
    (response,) = session.responses
    assert response.results[0].error_code == ErrorCode.NOT_CONTROLLER
    assert harness.forwarded == [], "the records may be committed: a retry could apply them twice"


def test_result_without_records_is_confirmed_like_a_read(harness: ControllerHarness, api: Api) -> None:
    session = harness.request(CLIENT_REQUEST)
    api.records = []
    other = harness.request(CLIENT_REQUEST)
    harness.confirm()
    assert other.responses == [], "the image that it read is not committed"
    harness.commit()
    assert session.responses == other.responses == [RESPONSE]


def test_unconfirmed_read_is_forwarded_to_the_next_leader(harness: ControllerHarness, api: Api) -> None:
    api.records = []
    session = harness.request(CLIENT_REQUEST)
    harness.lose_leadership()
    assert session.responses == []
    assert [request.api_key for request in harness.forwarded] == [ApiKey.CREATE_PARTITIONS]


def test_next_offset_includes_pending_records(harness: ControllerHarness) -> None:
    assert harness.controller.next_offset() == harness.log_end
    harness.is_flushing = True
    before = harness.controller.next_offset()
    harness.request(CLIENT_REQUEST)
    assert harness.controller.next_offset() == before + 2
    assert harness.log_end == before


# Followers


def test_follower_forwards_broker_clients_and_rejects_controller_clients(
    harness: ControllerHarness, api: Api
) -> None:
    harness.is_leader = False
    assert harness.request(CLIENT_REQUEST).responses == []
    assert len(harness.forwarded) == 1
    session = harness.request(CLIENT_REQUEST, RecordingSession(is_controller_client=True))
    assert session.responses[0].results[0].error_code == ErrorCode.NOT_CONTROLLER
    assert session.refusals == 1
    assert (api.planned, api.noted) == (0, [])


@pytest.mark.parametrize("key", sorted(CONTROLLER_APIS))
def test_follower_rejects_every_api_that_is_not_forwardable(key: int) -> None:
    harness = ControllerHarness()
    harness.is_leader = False
    session = harness.request(full_request(key, APIS[key].max_version))
    if key in ENVELOPE_APIS:
        assert len(harness.forwarded) == 1
    else:
        assert session.responses[0].error_code == ErrorCode.NOT_CONTROLLER
        assert session.refusals == 1


# Rejected requests


def test_unauthorized_request_is_rejected(api: Api) -> None:
    harness = ControllerHarness(api.table(), authorizer=authorizer_of())
    (response,) = harness.request(deepcopy(CLIENT_REQUEST)).responses
    assert {result.error_code for result in response.results} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert (api.planned, api.noted) == (0, [])


def test_client_has_an_error_until_the_acls_are_loaded(api: Api) -> None:
    loading = Authorizer(AuthorizerSettings(), AclIndex, lambda: False, lambda: 0.0)
    harness = ControllerHarness(api.table(), authorizer=loading)
    (response,) = harness.request(deepcopy(CLIENT_REQUEST)).responses
    assert {result.error_code for result in response.results} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert api.planned == 0


def test_this_process_needs_no_rights(api: Api) -> None:
    harness = ControllerHarness(api.table(), authorizer=authorizer_of())
    session = RecordingSession()
    session.origin.is_internal = True
    harness.request(CLIENT_REQUEST, session)
    assert api.planned == 1


def test_follower_forwards_without_a_check_of_its_own(api: Api) -> None:
    harness = ControllerHarness(api.table(), authorizer=authorizer_of())
    harness.is_leader = False
    harness.request(CLIENT_REQUEST)
    assert len(harness.forwarded) == 1


def test_request_larger_than_a_batch_is_rejected(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_writer, "MAX_BATCH_BYTES", 20)
    (response,) = harness.request(CLIENT_REQUEST).responses
    assert response.results[0].error_code == ErrorCode.POLICY_VIOLATION
    assert harness.batches == []
    assert harness.controller.image.config((GROUP, "g")) == {}


def test_split_request_is_acknowledged_with_its_last_batch(
    harness: ControllerHarness, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_writer, "MAX_BATCH_BYTES", 20)
    api.records.append(ConfigRecord(GROUP, "g", "c", "3"))
    session = harness.request(UnregisterBrokerRequest(1))
    assert [[record.name for record in batch] for batch in harness.batches] == [["a"], ["b"], ["c"]]
    harness.proposals.committed(harness.log_end - 1)
    assert session.responses == []
    harness.commit()
    assert len(session.responses) == 1
    assert harness.controller.image.config((GROUP, "g")) == {"a": "1", "b": "2", "c": "3"}


def test_batches_of_a_split_request_are_rolled_back_together(
    harness: ControllerHarness, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_writer, "MAX_BATCH_BYTES", 20)
    before = harness.controller.image.hash
    session = harness.request(UnregisterBrokerRequest(1))
    harness.lose_leadership()
    assert harness.controller.image.hash == before
    assert session.responses[0].error_code == ErrorCode.NOT_CONTROLLER


def test_full_disk_rejects_only_requests_that_write_records(harness: ControllerHarness, api: Api) -> None:
    harness.has_free_space = False
    (response,) = harness.request(CLIENT_REQUEST).responses
    assert response.results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert harness.controller.image.config((GROUP, "g")) == {}
    assert len(api.noted) == 1
    api.records = []
    assert harness.response_to(CLIENT_REQUEST) == RESPONSE


def test_every_error_of_a_response_is_counted() -> None:
    harness = ControllerHarness()
    harness.response_to(UnregisterBrokerRequest(7))
    harness.response_to(full_request(ApiKey.ELECT_LEADERS, 2))
    assert harness.statistics.error_responses == {
        (ApiKey.UNREGISTER_BROKER, ErrorCode.BROKER_ID_NOT_REGISTERED): 1,
        (ApiKey.ELECT_LEADERS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): 3,
    }


# Heartbeats


@pytest.fixture
def brokers() -> ControllerHarness:
    """Broker 1 is registered, fenced and leads no partition."""
    harness = ControllerHarness()
    harness.begin_with(Partition((1,), (), NO_LEADER, elr=(1,)))
    harness.response_to(registration(1, previous_broker_epoch=5))
    return harness


def heartbeat(harness: ControllerHarness, **fields: Any) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(1, harness.controller.image.brokers[1].epoch, harness.log_end, **fields)


def test_heartbeat_without_changes_is_acknowledged_immediately(brokers: ControllerHarness) -> None:
    before = brokers.log_end
    (response,) = brokers.request(heartbeat(brokers, want_fence=True)).responses
    assert (response.error_code, response.is_fenced) == (0, True)
    assert (brokers.log_end, brokers.reads) == (before, [])


def test_unfencing_is_acknowledged_on_commit(brokers: ControllerHarness) -> None:
    first = brokers.request(heartbeat(brokers, want_fence=False))
    second = brokers.request(heartbeat(brokers, want_fence=False))
    assert first.responses == second.responses == []
    brokers.commit()
    assert [session.responses[0].is_fenced for session in (first, second)] == [False, False]
    assert len(brokers.batches[-1]) >= 1


def test_heartbeat_does_not_flush_pending_records(brokers: ControllerHarness) -> None:
    brokers.is_flushing = True
    first = brokers.request(heartbeat(brokers, want_fence=False))
    before = len(brokers.batches)
    second = brokers.request(heartbeat(brokers, want_fence=False))
    assert len(brokers.batches) == before
    assert first.responses == second.responses == []
    brokers.proposals.append_pending()
    assert len(brokers.batches) == before + 1
    brokers.commit()
    assert len(first.responses) == len(second.responses) == 1


def test_broker_epoch_is_the_offset_of_the_registration(brokers: ControllerHarness) -> None:
    """Pending records and records of the quorum may precede it in the log."""
    brokers.is_flushing = True
    brokers.request(heartbeat(brokers, want_fence=False))
    session = brokers.request(registration(2))
    brokers.batches.append(["a record of the voters"])
    brokers.proposals.append_pending()
    brokers.commit()
    log = [record for batch in brokers.batches for record in batch]
    (offset,) = (
        FIRST_OFFSET + position
        for position, record in enumerate(log)
        if isinstance(record, RegisterBrokerRecord) and record.broker_id == 2
    )
    assert session.responses[0].broker_epoch == brokers.controller.image.brokers[2].epoch == offset


def test_pending_heartbeats_fail_when_leadership_is_lost(brokers: ControllerHarness) -> None:
    first = brokers.request(heartbeat(brokers, want_fence=False))
    second = brokers.request(heartbeat(brokers, want_fence=False))
    brokers.lose_leadership()
    for session in (first, second):
        assert session.responses[0].error_code == ErrorCode.NOT_CONTROLLER
    assert brokers.controller.image.brokers[1].is_fenced


def test_heartbeat_renews_the_session_on_a_full_disk(brokers: ControllerHarness) -> None:
    brokers.has_free_space = False
    brokers.time.pass_ms(50_000)
    (response,) = brokers.request(heartbeat(brokers, want_fence=False)).responses
    assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert brokers.controller.sessions.is_alive(1, brokers.time.clock.now_ms() + 1)
    (response,) = brokers.request(heartbeat(brokers, want_fence=True)).responses
    assert response.error_code == 0


# Context of planners


def test_planner_gets_the_authenticated_client_of_the_session() -> None:
    contexts: list[RequestContext] = []

    def plan(
        controller: Controller, message: CreatePartitionsRequest, version: int, context: RequestContext
    ) -> ControllerResult:
        contexts.append(context)
        return ControllerResult((), RESPONSE)

    table = {ApiKey.CREATE_PARTITIONS: ControllerApi(CreatePartitionsRequest, plan)}
    session = RecordingSession()
    session.origin.principal, session.origin.token_authenticated = "User:alice", True
    ControllerHarness(table).request(CLIENT_REQUEST, session)
    assert contexts == [RequestContext(Requester("User:alice", is_token=True))]
