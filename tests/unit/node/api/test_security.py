"""Lists of ACLs, quotas, SCRAM credentials and delegation tokens are taken at once, and described in slices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from quorumd.controller.controller import ControllerSettings
from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint, KafkaUuid
from quorumd.node.api.forwarding import decode_response
from quorumd.node.api.security import SecurityApis
from quorumd.node.settings import NodeSettings
from quorumd.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from quorumd.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData
from quorumd.protocol.messages.delegation_token_record import DelegationTokenRecord
from quorumd.protocol.messages.describe_acls_request import DescribeAclsRequest
from quorumd.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from quorumd.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from quorumd.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from quorumd.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from quorumd.protocol.response_task import STEPS_PER_UNIT
from quorumd.protocol.wire import Message
from quorumd.security.acls import Acl, Operation, ResourceType
from tests.support.call_counter import CallCounter
from tests.support.node.api_harness import ApiHarness
from tests.support.node.recording_session import request_of
from tests.support.node.scripted_discovery import LISTENER
from tests.support.node.scripted_image import ScriptedCommits, ScriptedImage
from tests.support.security.rights import allow, authorizer_of

SLICE = 20
COUNT = 40 * SLICE
CALLS_PER_STEP = 40
"""Those of one token are the most: an HMAC and the rights of the client."""
EVERY_ACL = DescribeAclsRequest(1, None, 1, None, None, 1, 1)


class SecurityApiHarness(ApiHarness):
    """A node with an authorizer. Nothing is committed before `commit_image`."""

    def __init__(self, acls: Iterable[Acl] | None = ()) -> None:
        """`acls`: those of the authorizer; None without an authorizer."""
        self.commits = ScriptedCommits(is_behind=True)
        here = Endpoint(LISTENER, "here", 9092)
        super().__init__(
            authorizer=None if acls is None else authorizer_of(acls),
            slice_partitions=SLICE,
            state_machine=ScriptedImage(),
            committed_image=self.commits,
            settings=NodeSettings(
                2, "/data", here, here, controller=ControllerSettings(token_secret_key="secret")
            ),
        )
        self.session.origin.principal = "User:admin"
        self.calls = CallCounter()
        self.handlers = {route.api_key: route.handler for route in SecurityApis(self.context).routes()}

    def add(self, *records: Message) -> None:
        for record in records:
            self.image.apply(record, [])

    def request(self, message: Message, version: int) -> None:
        request = request_of(message, version)
        with self.calls.counted():
            self.handlers[request.api_key](self.session, request)

    def commit_image(self, is_committed: bool = True) -> None:
        outcomes, self.commits.waiting[:] = list(self.commits.waiting), []
        for outcome in outcomes:
            with self.calls.counted():
                outcome(is_committed)

    def take_turns(self) -> int:
        """Run all slices; return their number."""
        turns = 0
        while self.turns:
            turns += 1
            with self.calls.counted():
                self.turns.pop(0)()
        return turns

    def described(self, message: Message, version: int) -> Any:
        self.request(message, version)
        self.commit_image()
        self.take_turns()
        return self.response()

    def response(self) -> Any:
        """The only response."""
        (encoded,) = self.session.responses
        return decode_response(self.session.held[-1], encoded)


@pytest.fixture
def harness() -> SecurityApiHarness:
    return SecurityApiHarness()


def acl(number: int) -> AccessControlEntryRecord:
    """ACLs of one topic each, whose names are not in the order of their ids."""
    name = f"t{number * 7 % COUNT:04}"
    return AccessControlEntryRecord(
        KafkaUuid(number.to_bytes(16, "big")), 2, name, 3, f"User:{number}", "*", 3, 3
    )


def quota(number: int) -> ClientQuotaRecord:
    return ClientQuotaRecord([EntityData("user", f"u{number}")], "producer_byte_rate", 1.0, False)


def credential(number: int) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(f"u{number}", 1, b"salt", b"stored", b"server", 4096)


def token(number: int) -> DelegationTokenRecord:
    return DelegationTokenRecord("User:admin", "User:admin", ["User:a"], 0, 1 << 40, 1 << 40, f"t{number}")


LISTS = {
    "acls": (acl, EVERY_ACL, 3, "resources"),
    "quotas": (quota, DescribeClientQuotasRequest([], False), 1, "entries"),
    "credentials": (credential, DescribeUserScramCredentialsRequest(None), 0, "results"),
    "tokens": (token, DescribeDelegationTokenRequest(None), 3, "tokens"),
}


@pytest.mark.parametrize("kind", LISTS)
def test_turns_of_long_lists_are_bounded(harness: SecurityApiHarness, kind: str) -> None:
    record, message, version, field = LISTS[kind]
    harness.add(*map(record, range(COUNT)))
    harness.request(message, version)
    assert len(harness.session.held) == 1, "later requests of the connection wait"
    harness.commit_image()
    turns = harness.take_turns()
    response = harness.response()
    assert len(getattr(response, field)) == COUNT
    assert turns >= 2 * COUNT // (STEPS_PER_UNIT * SLICE)
    assert harness.calls.longest <= CALLS_PER_STEP * STEPS_PER_UNIT * SLICE


def test_acls_are_described_by_pattern(harness: SecurityApiHarness) -> None:
    harness.add(*map(acl, range(COUNT)))
    response = harness.described(EVERY_ACL, 3)
    names = [each.resource_name for each in response.resources]
    assert names == [f"t{number:04}" for number in range(COUNT)]


def test_acls_are_those_of_one_moment(harness: SecurityApiHarness) -> None:
    """A list that mixes two moments may lack both the old and the new ACL of a principal."""
    harness.add(*map(acl, range(COUNT - 1)))
    harness.request(EVERY_ACL, 3)
    harness.add(RemoveAccessControlEntryRecord(acl(0).id), acl(COUNT - 1))
    harness.commit_image()
    harness.take_turns()
    response = harness.response()
    assert {each.resource_name for each in response.resources} == {
        acl(number).resource_name for number in range(COUNT - 1)
    }


def test_acls_wait_for_their_commit(harness: SecurityApiHarness) -> None:
    harness.add(acl(0))
    harness.request(EVERY_ACL, 3)
    assert (harness.session.responses, harness.turns) == ([], [])
    harness.add(RemoveAccessControlEntryRecord(acl(0).id))
    harness.commit_image(False)
    assert harness.session.responses == [], "what replaced the lost ACL must be committed, too"
    harness.commit_image()
    response = harness.response()
    assert response.resources == []


@pytest.mark.parametrize("slices", [0, 3])
def test_list_for_a_closed_connection_ends(harness: SecurityApiHarness, slices: int) -> None:
    harness.add(*map(acl, range(COUNT)))
    harness.request(EVERY_ACL, 3)
    (cancel,) = harness.session.on_unblocked
    if not slices:
        cancel()
    harness.commit_image()
    for _ in range(slices):
        harness.turns.pop(0)()
    cancel()
    assert harness.take_turns() <= 2
    assert harness.session.responses == []


def test_short_list_is_sent_at_once(harness: SecurityApiHarness) -> None:
    harness.add(*map(acl, range(SLICE // 4)))
    harness.request(EVERY_ACL, 3)
    harness.commit_image()
    assert len(harness.session.responses) == 1


def test_short_lists_share_a_slice(harness: SecurityApiHarness) -> None:
    for _ in range(4):
        harness.request(EVERY_ACL, 3)
    harness.commit_image()
    assert len(harness.session.responses) == 4


def test_unknown_filter_is_refused(harness: SecurityApiHarness) -> None:
    unknown = DescribeAclsRequest(77, None, 1, None, None, 1, 1)
    assert harness.described(unknown, 3).error_code == ErrorCode.INVALID_REQUEST


def test_without_an_authorizer_there_are_no_acls() -> None:
    harness = SecurityApiHarness(acls=None)
    harness.add(acl(0))
    harness.request(EVERY_ACL, 3)
    (response,) = harness.session.responses
    assert (response.error_code, response.resources) == (ErrorCode.SECURITY_DISABLED, [])


@pytest.mark.parametrize(
    ("principal", "acls", "seen"),
    [
        ("User:alice", [], set()),
        ("User:admin", [], {"t0", "t1"}),
        ("User:alice", [allow(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "t1")], {"t1"}),
        ("User:alice", [allow(Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:admin")], {"t0", "t1"}),
        ("User:alice", [allow(Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:other")], set()),
    ],
)
def test_tokens_of_others_need_the_right_to_the_token_or_its_owner(
    principal: str, acls: list[Acl], seen: set[str]
) -> None:
    harness = SecurityApiHarness(acls)
    harness.session.origin.principal = principal
    harness.add(token(0), token(1))
    response = harness.described(DescribeDelegationTokenRequest(None), 3)
    assert {each.token_id for each in response.tokens} == seen
