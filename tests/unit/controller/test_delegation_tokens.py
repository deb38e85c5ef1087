"""Delegation tokens: creation, renewal, expiry, and who sees them."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.delegation_tokens import (
    MAX_PRINCIPAL_LENGTH,
    MAX_RENEWERS,
    MAX_SWEPT,
    describe_delegation_tokens,
    expired_tokens,
    plan_create_delegation_token,
    plan_expire_delegation_token,
    plan_renew_delegation_token,
)
from quorumd.controller.request_context import RequestContext, Requester
from quorumd.errors import ErrorCode
from quorumd.ports import ANONYMOUS
from quorumd.protocol.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from quorumd.protocol.messages.delegation_token_record import DelegationTokenRecord
from quorumd.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from quorumd.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from quorumd.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from quorumd.security.tokens import token_hmac
from tests.support.protocol.steps import run_steps
from tests.support.security.controllers import SecurityController

ALICE, BOB = Requester("User:alice"), Requester("User:bob")
HOUR = 3600 * 1000


@pytest.fixture
def controller() -> SecurityController:
    return SecurityController(
        token_secret_key="secret", token_max_lifetime_ms=10 * HOUR, token_expiry_ms=2 * HOUR
    )


def create(
    controller: SecurityController, requester: Requester = ALICE, lifetime: int = -1, **fields: Any
) -> Any:
    message = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers("User", "bob")], max_lifetime_ms=lifetime
    )
    for name, value in fields.items():
        setattr(message, name, value)
    return controller.commit(
        plan_create_delegation_token(controller.controller, message, 3, RequestContext(requester))
    ).response


def renew(controller: SecurityController, hmac: bytes, requester: Requester = ALICE, period: int = -1) -> Any:
    message = RenewDelegationTokenRequest(hmac, period)
    return controller.commit(
        plan_renew_delegation_token(controller.controller, message, 2, RequestContext(requester))
    ).response


def expire(
    controller: SecurityController, hmac: bytes, requester: Requester = ALICE, period: int = -1
) -> Any:
    message = ExpireDelegationTokenRequest(hmac, period)
    return controller.commit(
        plan_expire_delegation_token(controller.controller, message, 2, RequestContext(requester))
    ).response


def test_token_belongs_to_its_requester(controller: SecurityController) -> None:
    response = create(controller)
    now = controller.now_ms
    assert response.error_code == 0
    assert (response.principal_type, response.principal_name) == ("User", "alice")
    assert (response.expiry_timestamp_ms, response.max_timestamp_ms) == (now + 2 * HOUR, now + 10 * HOUR)
    assert response.hmac == token_hmac("secret", response.token_id)
    token = controller.image.security.tokens[response.token_id]
    assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:bob",))


def test_token_may_have_another_owner_and_a_shorter_life(controller: SecurityController) -> None:
    response = create(controller, lifetime=HOUR, owner_principal_type="User", owner_principal_name="carol")
    assert (response.principal_name, response.token_requester_principal_name) == ("carol", "alice")
    assert response.expiry_timestamp_ms == response.max_timestamp_ms == controller.now_ms + HOUR


@pytest.mark.parametrize("lifetime", [-1, 0])
def test_token_without_a_lifetime_has_the_longest(controller: SecurityController, lifetime: int) -> None:
    response = create(controller, lifetime=lifetime)
    assert response.max_timestamp_ms == controller.now_ms + 10 * HOUR
    assert create(controller, lifetime=1).max_timestamp_ms == controller.now_ms + 1


@pytest.mark.parametrize("requester", [Requester(ANONYMOUS), Requester("User:alice", is_token=True)])
def test_client_without_an_identity_of_its_own_gets_no_token(
    controller: SecurityController, requester: Requester
) -> None:
    denied = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert create(controller, requester).error_code == denied
    assert renew(controller, b"", requester).error_code == denied
    assert expire(controller, b"", requester).error_code == denied


def test_renewers_are_users(controller: SecurityController) -> None:
    response = create(controller, renewers=[CreatableRenewers("Group", "x")])
    assert response.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert controller.image.security.tokens == {}


def test_without_a_secret_there_are_no_tokens() -> None:
    controller = SecurityController()
    for response in (create(controller), renew(controller, b""), expire(controller, b"")):
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_renewal_moves_the_expiry_within_the_lifetime(controller: SecurityController) -> None:
    hmac = create(controller).hmac
    controller.now_ms += HOUR
    assert renew(controller, hmac, BOB).expiry_timestamp_ms == controller.now_ms + 2 * HOUR
    assert renew(controller, hmac, period=HOUR).expiry_timestamp_ms == controller.now_ms + HOUR
    for _ in range(8):
        controller.now_ms += HOUR
        last = renew(controller, hmac).expiry_timestamp_ms
    assert last == 1_000_000 + 10 * HOUR


def test_only_holders_renew_and_expire(controller: SecurityController) -> None:
    hmac = create(controller).hmac
    stranger = Requester("User:mallory")
    assert renew(controller, hmac, stranger).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert expire(controller, hmac, stranger).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(controller, b"x").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_expired_token_can_only_be_removed(controller: SecurityController) -> None:
    hmac = create(controller).hmac
    controller.now_ms += 3 * HOUR
    assert renew(controller, hmac).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(controller, hmac, period=0).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(controller, hmac).error_code == 0
    assert controller.image.security.tokens == {}


def test_expiry_can_be_set(controller: SecurityController) -> None:
    hmac = create(controller).hmac
    assert expire(controller, hmac, period=HOUR).expiry_timestamp_ms == controller.now_ms + HOUR
    assert expire(controller, hmac, period=99 * HOUR).expiry_timestamp_ms == controller.now_ms + 10 * HOUR


def test_sweep_removes_expired_tokens_in_steps(controller: SecurityController) -> None:
    for number in range(MAX_SWEPT + 1):
        record = DelegationTokenRecord("User:a", "User:a", [], 0, 10, 10, f"t{number}")
        controller.image.apply(record, [])
    create(controller)
    records = expired_tokens(controller.image, controller.now_ms)
    assert len(records) == MAX_SWEPT
    for record in records:
        controller.image.apply(record, [])
    assert len(expired_tokens(controller.image, controller.now_ms)) == 1


def describe(controller: SecurityController, requester: Requester, owners: list[str] | None = None) -> Any:
    named = None if owners is None else [DescribeDelegationTokenOwner("User", name) for name in owners]
    _, response = run_steps(
        describe_delegation_tokens(
            controller.image,
            DescribeDelegationTokenRequest(named),
            controller.controller.settings.token_secret_key,
            requester,
            lambda token: requester.principal == "User:admin",
        )
    )
    return response


def test_holders_see_their_tokens(controller: SecurityController) -> None:
    create(controller)
    for requester, count in ((ALICE, 1), (BOB, 1), (Requester("User:x"), 0), (Requester("User:admin"), 1)):
        assert len(describe(controller, requester).tokens) == count
    (token,) = describe(controller, ALICE).tokens
    assert token.hmac == token_hmac("secret", token.token_id)
    assert [renewer.principal_name for renewer in token.renewers] == ["bob"]
    assert len(describe(controller, ALICE, ["alice"]).tokens) == 1
    assert describe(controller, ALICE, ["carol"]).tokens == []
    assert describe(controller, ALICE, []).tokens == []


def test_tokens_are_described_to_clients_with_an_identity() -> None:
    without = SecurityController()
    assert describe(without, ALICE).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    anonymous = describe(without, Requester(ANONYMOUS)).error_code
    assert anonymous == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_principal_may_request_a_limited_number_of_tokens() -> None:
    """Every authenticated client may request tokens for itself."""
    controller = SecurityController(token_secret_key="secret", max_tokens=2)
    first, _ = (create(controller) for _ in range(2))
    assert create(controller).error_code == ErrorCode.POLICY_VIOLATION
    assert create(controller, BOB).error_code == 0
    assert renew(controller, first.hmac).error_code == 0
    assert create(controller).error_code == ErrorCode.POLICY_VIOLATION
    assert expire(controller, first.hmac).error_code == 0
    assert create(controller).error_code == 0


@pytest.mark.parametrize(("count", "length"), [(MAX_RENEWERS + 1, 1), (1, MAX_PRINCIPAL_LENGTH + 1)])
def test_tokens_have_few_renewers_with_short_names(
    controller: SecurityController, count: int, length: int
) -> None:
    renewers = [CreatableRenewers("User", "b" * length)] * count
    assert create(controller, renewers=renewers).error_code == ErrorCode.INVALID_REQUEST
    allowed = [CreatableRenewers("User", "b" * MAX_PRINCIPAL_LENGTH)] * MAX_RENEWERS
    assert create(controller, renewers=allowed).error_code == 0
