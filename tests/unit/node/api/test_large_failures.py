"""Leadership is lost, or the disk becomes full, amid a request that is handled in parts: a success in the response
always has its effect, and the results of a list without names stay in the order of the request."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import pytest

from quorumd.controller.controller import ControllerSettings
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from quorumd.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from quorumd.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from quorumd.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.wire import Message
from tests.support.controller.topic_harness import a_broker
from tests.support.node.controller_harness import ControllerHarness
from tests.support.node.recording_session import DecodingSession

COUNT = 2 * MAX_PARTITIONS_PER_PART + 7
NAMES = [f"x{number}" for number in range(COUNT)]
TOPIC, LITERAL, READ, ALLOW, CLIENT_METRICS = 2, 3, 3, 3, 16
ACLS_OF_ALL = [
    DeleteAclsFilter(TOPIC, None, 1, None, None, 1, 1),
    DeleteAclsFilter(TOPIC, "kept", LITERAL, None, None, 1, 1),
]
CHANGES = [AlterableConfig("interval.ms", 0, "100000")]


class FailureHarness(ControllerHarness):
    """Three brokers, topics `d...`, and ACLs of them; every id is different."""

    def __init__(self) -> None:
        super().__init__()
        ids = count(1)
        self.controller.settings = ControllerSettings(has_authorizer=True)
        self.controller.new_uuid = lambda: KafkaUuid(next(ids).to_bytes(16, "big"))
        for number in (1, 2, 3):
            self.controller.image.brokers[number] = a_broker(number)
        for number, name in enumerate(NAMES, 1):
            id = KafkaUuid((number << 64).to_bytes(16, "big"))
            self.image.apply(TopicRecord(f"d{name}", id), [])
            self.image.apply(
                AccessControlEntryRecord(id, TOPIC, f"d{name}", LITERAL, "User:a", "*", READ, ALLOW), []
            )

    def fail(self, is_full: bool) -> None:
        if is_full:
            self.has_free_space = False
        else:
            self.lose_leadership()

    def finish(self) -> None:
        """Run all slices; a leader commits what it has written."""
        for _ in range(3):
            while self.turns:
                self.turns.pop(0)()
            if self.is_leader:
                self.commit()
                self.confirm()


class Case(NamedTuple):
    """A large request, and whether its item at a position has taken effect in the image."""

    message: Message
    results: str
    has_effect: Callable[[Any, int], bool]


CASES = {
    "CreateAcls": Case(
        CreateAclsRequest([AclCreation(TOPIC, name, LITERAL, "User:b", "*", READ, ALLOW) for name in NAMES]),
        "results",
        lambda image, at: (TOPIC, LITERAL, NAMES[at]) in image.security.acls.counts,
    ),
    "DeleteAcls": Case(
        DeleteAclsRequest(ACLS_OF_ALL),
        "filter_results",
        lambda image, at: at == 1 or not image.security.acls.acls,
    ),
    "AlterClientQuotas": Case(
        AlterClientQuotasRequest(
            [EntryData([EntityData("user", name)], [OpData("producer_byte_rate", 1.0)]) for name in NAMES]
        ),
        "entries",
        lambda image, at: (("user", NAMES[at]),) in image.security.quotas,
    ),
    "AlterUserScramCredentials": Case(
        AlterUserScramCredentialsRequest(
            [], [ScramCredentialUpsertion(name, 1, 4096, b"salt", bytes(32)) for name in NAMES]
        ),
        "results",
        lambda image, at: (1, NAMES[at]) in image.security.scram,
    ),
    "IncrementalAlterConfigs": Case(
        IncrementalAlterConfigsRequest(
            [AlterConfigsResource(CLIENT_METRICS, name, CHANGES) for name in NAMES], False
        ),
        "responses",
        lambda image, at: bool(image.config((CLIENT_METRICS, NAMES[at]))),
    ),
    "CreateTopics": Case(
        CreateTopicsRequest([CreatableTopic(name, 1, 2) for name in NAMES]),
        "topics",
        lambda image, at: NAMES[at] in image.topic_ids,
    ),
    "DeleteTopics": Case(
        DeleteTopicsRequest([DeleteTopicState(f"d{name}") for name in NAMES]),
        "responses",
        lambda image, at: f"d{NAMES[at]}" not in image.topic_ids,
    ),
}


@pytest.mark.parametrize("is_full", [False, True], ids=["leadership lost", "disk full"])
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("turns", [0, 1, 2, 4])
@pytest.mark.parametrize("name", CASES)
def test_success_of_an_item_has_its_effect(name: str, turns: int, committed: bool, is_full: bool) -> None:
    case, harness = CASES[name], FailureHarness()
    session = harness.request(case.message, session=DecodingSession())
    for _ in range(min(turns, len(harness.turns))):
        harness.turns.pop(0)()
    if committed:
        harness.commit()
    harness.fail(is_full)
    harness.finish()
    forwarded = [request.message for request, _ in harness.forwarder.forwarded]
    if not session.responses:
        assert forwarded == [case.message], (
            "the first part had no effect, so the next leader gets the request"
        )
        return
    (response,) = session.responses
    results = getattr(response, case.results)
    assert len(results) == (len(ACLS_OF_ALL) if name == "DeleteAcls" else COUNT)
    for position, result in enumerate(results):
        assert result.error_code or case.has_effect(harness.image, position), position
    expected = ErrorCode.KAFKA_STORAGE_ERROR if is_full else ErrorCode.NOT_CONTROLLER
    assert {each.error_code for each in results} <= {0, expected}
    assert turns or any(each.error_code for each in results)
