"""The model of what an administrator has granted finds decisions and lists that contradict it."""

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC
from quorumd.protocol.messages import alter_client_quotas_request as quotas
from quorumd.protocol.messages import describe_client_quotas_response as described_quotas
from quorumd.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse, EntryData
from quorumd.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from quorumd.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from quorumd.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from quorumd.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from quorumd.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from quorumd.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from quorumd.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from quorumd.protocol.messages.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from quorumd.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from quorumd.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers import InvariantViolation, access
from quorumd.simulator.checkers.access import (
    ALLOW,
    ALTER,
    ALTER_CONFIGS,
    ANY,
    CLUSTER,
    CLUSTER_NAME,
    CREATE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    LITERAL,
    MATCH,
    PREFIXED,
    READ,
    TOPIC,
    AccessIsAsGranted,
    Entry,
    Question,
    concerns,
    selects,
)

AMY = ("User:amy", "10.0.10.1")
ENTRY = Entry(GROUP, "g", LITERAL, "User:amy", "*", ALTER_CONFIGS, ALLOW)
QUESTION = Question(*AMY, ALTER_CONFIGS, GROUP, "g")
DONE = IncrementalAlterConfigsResponse(0, [AlterConfigsResourceResponse()])
REFUSED = IncrementalAlterConfigsResponse(
    0, [AlterConfigsResourceResponse(ErrorCode.GROUP_AUTHORIZATION_FAILED)]
)


def creation(entry: Entry) -> CreateAclsRequest:
    return CreateAclsRequest(
        [
            AclCreation(
                entry.kind, entry.name, entry.pattern, entry.principal,
                entry.host, entry.operation, entry.permission,
            )
        ]
    )  # fmt: skip


def created(checker: AccessIsAsGranted, entry: Entry, now_ms: float, error: int = 0) -> None:
    requested = checker.requested(creation(entry), now_ms)
    checker.responded(requested, CreateAclsResponse(0, [AclCreationResult(error)]), now_ms + 1)


def deleted(checker: AccessIsAsGranted, now_ms: float, matching: list[DeleteAclsMatchingAcl]) -> None:
    wanted = DeleteAclsFilter(ANY, "g", MATCH, "User:amy", None, ANY, ANY)
    requested = checker.requested(DeleteAclsRequest([wanted]), now_ms)
    result = DeleteAclsResponse(0, [DeleteAclsFilterResult(0, None, matching)])
    checker.responded(requested, result, now_ms + 1)


def acls(*entries: Entry) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        0, 0, None,
        [
            DescribeAclsResource(
                e.kind, e.name, e.pattern,
                [AclDescription(e.principal, e.host, e.operation, e.permission)],
            )
            for e in entries
        ],
    )  # fmt: skip


def test_rights_are_granted_until_they_are_deleted() -> None:
    checker = AccessIsAsGranted()
    with pytest.raises(InvariantViolation):
        checker.decided(QUESTION, DONE, 5.0)
    created(checker, ENTRY, 10.0)
    checker.decided(QUESTION, DONE, 20.0)
    with pytest.raises(InvariantViolation):
        checker.settled(QUESTION, REFUSED, 20.0)
    deleted(checker, 30.0, [])
    checker.settled(QUESTION, REFUSED, 40.0)
    with pytest.raises(InvariantViolation):
        checker.decided(QUESTION, DONE, 40.0)


def test_requests_without_response_may_take_effect_or_not() -> None:
    checker = AccessIsAsGranted()
    checker.requested(creation(ENTRY), 10.0)
    assert checker.verdicts(QUESTION, 20.0) == {True, False}
    checker.decided(QUESTION, DONE, 20.0)


@pytest.mark.parametrize(
    ("error", "verdicts"),
    [
        (ErrorCode.INVALID_REQUEST, {False}),
        (ErrorCode.NOT_CONTROLLER, {True, False}),
        (ErrorCode.NONE, {True}),
    ],
)
def test_errors_decide_about_effects(error: ErrorCode, verdicts: set[bool]) -> None:
    checker = AccessIsAsGranted()
    created(checker, ENTRY, 10.0, error)
    assert checker.verdicts(QUESTION, 20.0) == verdicts


@pytest.mark.parametrize(
    ("error", "listed"), [(None, {True, False}), (7, {True, False}), (31, {True}), (0, {True})]
)
def test_deletion_without_result_may_delete_what_is_created_later(
    error: int | None, listed: set[bool]
) -> None:
    for is_listed in (True, False):
        checker = AccessIsAsGranted()
        wanted = DeleteAclsFilter(ANY, "g", MATCH, "User:amy", None, ANY, ANY)
        requested = checker.requested(DeleteAclsRequest([wanted]), 1.0)
        if error is not None:
            result = DeleteAclsResponse(0, [DeleteAclsFilterResult(error)])
            checker.responded(requested, result, 2.0)
        created(checker, ENTRY, 3.0)
        response = acls(ENTRY) if is_listed else acls()
        if is_listed in listed:
            checker.listed(response, 5.0, 6.0)
        else:
            with pytest.raises(InvariantViolation):
                checker.listed(response, 5.0, 6.0)
        assert checker.checked == 1


def test_denials_beat_grants() -> None:
    checker = AccessIsAsGranted()
    created(checker, ENTRY, 10.0)
    created(checker, ENTRY._replace(permission=DENY, pattern=PREFIXED, principal="User:*"), 20.0)
    assert checker.verdicts(QUESTION, 30.0) == {False}


def test_topics_are_created_with_a_right_on_the_cluster() -> None:
    checker = AccessIsAsGranted()
    question = Question(*AMY, CREATE, TOPIC, "t")
    denied = CreateTopicsResponse(
        0, [CreatableTopicResult("t", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    )
    checker.settled(question, denied, 5.0)
    created(checker, Entry(CLUSTER, CLUSTER_NAME, LITERAL, "User:amy", "*", CREATE, ALLOW), 10.0)
    with pytest.raises(InvariantViolation):
        checker.settled(question, denied, 20.0)


@pytest.mark.parametrize(
    ("kind", "name", "operation", "expected"),
    [
        (CLUSTER, CLUSTER_NAME, access.DELETE, {True}),
        (TOPIC, "t", DESCRIBE, {True}),
        (TOPIC, "t", access.DELETE, {True}),  # which implies DESCRIBE
        (CLUSTER, CLUSTER_NAME, DESCRIBE, {False}),
        (TOPIC, "u", access.DELETE, {False}),
    ],
)
def test_everyone_who_may_describe_a_topic_learns_that_it_cannot_be_deleted(
    kind: int, name: str, operation: int, expected: set[bool]
) -> None:
    checker = AccessIsAsGranted()
    created(checker, Entry(kind, name, LITERAL, "User:amy", "*", operation, ALLOW), 10.0)
    question = Question(*AMY, access.DELETE, TOPIC, "t")
    assert checker.verdicts(question, 20.0) == expected
    created(checker, Entry(TOPIC, "t", LITERAL, "User:amy", "*", DESCRIBE, DENY), 30.0)
    assert checker.verdicts(question, 40.0) == (expected if kind == CLUSTER else {False})


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (ENTRY, True),
        (ENTRY._replace(name="h"), False),
        (ENTRY._replace(name="*"), True),
        (ENTRY._replace(name="", pattern=PREFIXED), True),
        (ENTRY._replace(kind=TOPIC), False),
        (ENTRY._replace(principal="User:ben"), False),
        (ENTRY._replace(principal="User:*"), True),
        (ENTRY._replace(host="10.0.10.2"), False),
        (ENTRY._replace(host="10.0.10.0/24"), True),
        (ENTRY._replace(host="10.0.11.0/24"), False),
        (ENTRY._replace(operation=access.ALL), True),
        (ENTRY._replace(operation=DESCRIBE_CONFIGS), False),
        (ENTRY._replace(permission=DENY), True),
    ],
)
def test_acls_concern_requests(entry: Entry, expected: bool) -> None:
    assert concerns(entry, QUESTION) is expected


def test_only_grants_imply_other_operations() -> None:
    question = Question(*AMY, DESCRIBE, TOPIC, "t")
    granted = Entry(TOPIC, "t", LITERAL, "User:amy", "*", READ, ALLOW)
    assert concerns(granted, question)
    assert not concerns(granted._replace(permission=DENY), question)
    assert not concerns(granted._replace(operation=ALTER_CONFIGS), question)


@pytest.mark.parametrize(
    ("name", "pattern_type", "entry", "expected"),
    [
        ("g", LITERAL, ENTRY, True),
        ("g", PREFIXED, ENTRY, False),
        ("gh", MATCH, ENTRY, False),
        ("gh", MATCH, ENTRY._replace(pattern=PREFIXED), True),
        ("gh", MATCH, ENTRY._replace(name="*"), True),
        ("gh", ANY, ENTRY, False),
        (None, ANY, ENTRY, True),
        (None, MATCH, ENTRY, True),
    ],
)
def test_filters_select_names(name: str | None, pattern_type: int, entry: Entry, expected: bool) -> None:
    wanted = DeleteAclsFilter(ANY, name, pattern_type, "User:amy", None, ANY, ANY)
    assert selects(wanted, entry) is expected
    assert not selects(wanted, entry._replace(principal="User:ben"))


def test_nodes_list_what_was_set() -> None:
    checker = AccessIsAsGranted()
    with pytest.raises(InvariantViolation):
        checker.listed(acls(ENTRY), 5.0, 6.0)
    created(checker, ENTRY, 10.0)
    checker.listed(acls(ENTRY), 20.0, 21.0)
    checker.listed(acls(ENTRY, ENTRY._replace(principal="User:carol")), 20.0, 21.0)
    with pytest.raises(InvariantViolation):
        checker.listed(acls(), 20.0, 21.0)
    with pytest.raises(InvariantViolation):
        checker.listed(DONE, 20.0, 21.0)


def test_nodes_delete_only_what_exists() -> None:
    checker = AccessIsAsGranted()
    acl = DeleteAclsMatchingAcl(
        0, None, ENTRY.kind, ENTRY.name, ENTRY.pattern, ENTRY.principal, ENTRY.host, ENTRY.operation, ENTRY.permission
    )  # fmt: skip
    created(checker, ENTRY, 10.0)
    deleted(checker, 20.0, [acl])
    with pytest.raises(InvariantViolation):
        deleted(checker, 30.0, [acl])


def test_nodes_list_quotas() -> None:
    checker = AccessIsAsGranted()
    for remove, now_ms in ((False, 10.0), (True, 20.0)):
        entity = [quotas.EntityData("user", "amy"), quotas.EntityData("client-id", "app")]
        entry = quotas.EntryData(entity, [quotas.OpData("producer_byte_rate", 7, remove)])
        requested = checker.requested(quotas.AlterClientQuotasRequest([entry]), now_ms)
        checker.responded(requested, AlterClientQuotasResponse(0, [EntryData()]), now_ms + 1)
        wire = described_quotas
        parts = [wire.EntityData("client-id", "app"), wire.EntityData("user", "amy")]
        listed = wire.DescribeClientQuotasResponse(
            0, 0, None, [wire.EntryData(parts, [wire.ValueData("producer_byte_rate", 7.0)])]
        )
        if not remove:
            checker.listed(listed, 15.0, 16.0)
    with pytest.raises(InvariantViolation):
        checker.listed(listed, 30.0, 31.0)
    checker.listed(described_quotas.DescribeClientQuotasResponse(0, 0, None, []), 30.0, 31.0)


def test_nodes_list_credentials_by_mechanism() -> None:
    checker = AccessIsAsGranted()

    def altered(request: AlterUserScramCredentialsRequest, now_ms: float, error: int = 0) -> None:
        response = AlterUserScramCredentialsResponse(0, [AlterUserScramCredentialsResult("amy", error)])
        checker.responded(checker.requested(request, now_ms), response, now_ms + 1)

    def listed(*infos: CredentialInfo) -> Message:
        result = DescribeUserScramCredentialsResult("amy", 0, None, list(infos))
        return DescribeUserScramCredentialsResponse(0, 0, None, [result])

    altered(AlterUserScramCredentialsRequest([], [ScramCredentialUpsertion("amy", 1, 5000)]), 10.0)
    altered(AlterUserScramCredentialsRequest([], [ScramCredentialUpsertion("amy", 2, 6000)]), 20.0)
    missing = AlterUserScramCredentialsRequest([ScramCredentialDeletion("ben", 1)], [])
    altered(missing, 30.0, ErrorCode.RESOURCE_NOT_FOUND)
    checker.listed(listed(CredentialInfo(1, 5000), CredentialInfo(2, 6000)), 40.0, 41.0)
    with pytest.raises(InvariantViolation):
        checker.listed(listed(CredentialInfo(2, 6000)), 40.0, 41.0)


def test_only_confirmed_successes_are_decisions_of_the_leader() -> None:
    checker = AccessIsAsGranted()
    checker.decided(Question(*AMY, DESCRIBE, TOPIC, "t"), CreateTopicsResponse(0, []), 5.0)
    checker.decided(QUESTION, REFUSED, 5.0)
    with pytest.raises(InvariantViolation):
        checker.decided(Question(*AMY, ALTER, TOPIC, "t"), CreateTopicsResponse(0, []), 5.0)


def test_nodes_of_the_cluster_may_request_the_metadata_log() -> None:
    checker = AccessIsAsGranted()
    question = Question(*AMY, DESCRIBE, TOPIC, METADATA_TOPIC)
    created(checker, Entry(CLUSTER, CLUSTER_NAME, LITERAL, "User:amy", "*", DESCRIBE, ALLOW), 10.0)
    assert checker.verdicts(question, 20.0) == {False}
    created(checker, Entry(CLUSTER, CLUSTER_NAME, LITERAL, "User:amy", "*", access.ALL, ALLOW), 30.0)
    assert checker.verdicts(question, 40.0) == {True}
