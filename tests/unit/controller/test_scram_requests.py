"""AlterUserScramCredentials and DescribeUserScramCredentials."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quorumd.controller.scram_requests import (
    describe_user_scram_credentials,
    plan_alter_user_scram_credentials,
)
from quorumd.errors import ErrorCode
from quorumd.node.state.image_credentials import ImageCredentials
from quorumd.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from quorumd.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from quorumd.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResult,
)
from tests.support.protocol.steps import run_steps
from tests.support.security.controllers import SecurityController
from tests.support.text import CountedName


def upsertion(name: str = "alice", mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", b"salted password")


def alter(
    controller: SecurityController,
    *upsertions: ScramCredentialUpsertion,
    deletions: tuple[ScramCredentialDeletion, ...] = (),
) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(list(deletions), list(upsertions))
    result = controller.commit(plan_alter_user_scram_credentials(controller.controller, request, 0))
    return {each.user: each.error_code for each in result.response.results}


def test_credentials_are_set_and_removed() -> None:
    controller = SecurityController()
    store = ImageCredentials(lambda: controller.image, None)
    assert alter(controller, upsertion()) == {"alice": 0}
    found = store.scram("SCRAM-SHA-256", "alice")
    assert found is not None
    assert (found.salt, found.iterations, len(found.stored_key)) == (b"salt", 4096, 32)
    assert alter(controller, deletions=(ScramCredentialDeletion("alice", 1),)) == {"alice": 0}
    assert store.scram("SCRAM-SHA-256", "alice") is None


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (upsertion(name=""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16_385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_invalid_credentials_are_refused(change: ScramCredentialUpsertion, error: ErrorCode) -> None:
    controller = SecurityController()
    assert alter(controller, change, upsertion("bob")) == {change.name: error, "bob": 0}


def test_missing_credential_cannot_be_removed() -> None:
    controller = SecurityController()
    alter(controller, upsertion())
    missing = (ScramCredentialDeletion("alice", 2),)
    assert alter(controller, deletions=missing) == {"alice": ErrorCode.RESOURCE_NOT_FOUND}


def test_user_is_altered_once_per_request() -> None:
    controller = SecurityController()
    alter(controller, upsertion())
    found = alter(controller, upsertion(mechanism=2), deletions=(ScramCredentialDeletion("alice", 1),))
    assert found == {"alice": ErrorCode.DUPLICATE_RESOURCE}
    assert list(controller.image.security.scram) == [(1, "alice")]


def described(controller: SecurityController, *names: str) -> Sequence[DescribeUserScramCredentialsResult]:
    users = [UserName(name) for name in names] or None
    request = DescribeUserScramCredentialsRequest(users)
    return run_steps(describe_user_scram_credentials(controller.image, request))[1].results


def describe(controller: SecurityController, *names: str) -> dict[str, tuple[int, list[int]]]:
    return {
        each.user: (each.error_code, [info.mechanism for info in each.credential_infos])
        for each in described(controller, *names)
    }


def test_credentials_are_described_without_secrets() -> None:
    controller = SecurityController()
    alter(controller, upsertion(), upsertion("bob", 2))
    alter(controller, upsertion(mechanism=2))
    assert describe(controller) == {"alice": (0, [1, 2]), "bob": (0, [2])}
    assert describe(controller, "bob", "carol") == {
        "bob": (0, [2]),
        "carol": (ErrorCode.RESOURCE_NOT_FOUND, []),
    }
    assert describe(controller, "bob", "bob") == {"bob": (ErrorCode.DUPLICATE_RESOURCE, [])}


def test_errors_of_described_users_have_reasons() -> None:
    controller = SecurityController()
    alter(controller, upsertion())
    reasons = {
        each.user: each.error_message for each in described(controller, "alice", "bob", "carol", "carol")
    }
    assert reasons == {
        "alice": None,
        "bob": "The user has no SCRAM credential.",
        "carol": "A user must not occur twice in a request.",
    }


def test_users_are_not_compared_with_all_others_of_a_request() -> None:
    CountedName.comparisons = 0
    names = [CountedName(f"user-{number}") for number in range(200)]
    assert len(describe(SecurityController(), *names)) == 200
    assert CountedName.comparisons < 10 * len(names)
