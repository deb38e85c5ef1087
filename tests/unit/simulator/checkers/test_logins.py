"""The model of credentials and tokens finds logins, lists and changes that contradict it."""

from __future__ import annotations

import pytest

from quorumd.errors import ErrorCode
from quorumd.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from quorumd.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
)
from quorumd.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from quorumd.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.administered_register import ANY
from quorumd.simulator.checkers.logins import KnownToken, LoginsAreAuthentic, Requester, TokenTerms

CARL, DORA, EVE = "User:carl", "User:dora", "User:eve"
TERMS = TokenTerms(CARL, CARL, (DORA,))
MECHANISM = "SCRAM-SHA-256"


def response(
    owner: str = "carl", requester: str = "carl", expires_ms: int = 20
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        0, "User", owner, "User", requester, 10, expires_ms, 100, "token", b"hmac"
    )


def with_token(checker: LoginsAreAuthentic) -> KnownToken:
    checker.created(checker.creation_requested(TERMS), response(), may_create=True)
    return checker.tokens["token"]


def listed(owner: str = "carl", expires_ms: int = 20, hmac: bytes = b"hmac") -> DescribedDelegationToken:
    renewers = [DescribedDelegationTokenRenewer("User", "dora")]
    return DescribedDelegationToken(
        "User", owner, "User", "carl", 10, expires_ms, 100, "token", hmac, renewers
    )


def test_password_that_was_never_set_is_a_violation() -> None:
    checker = LoginsAreAuthentic()
    checker.scram_login(MECHANISM, "carl", 1, succeeded=False)
    with pytest.raises(InvariantViolation, match="never set"):
        checker.scram_login(MECHANISM, "carl", 1, succeeded=True)
    checker.password_of(MECHANISM, "carl").write(1, 5.0)
    checker.scram_login(MECHANISM, "carl", 1, succeeded=True)


@pytest.mark.parametrize(
    ("error", "possible"),
    [
        (ErrorCode.NONE, {False}),
        (ErrorCode.RESOURCE_NOT_FOUND, {False, True}),
        (ErrorCode.REQUEST_TIMED_OUT, {False, True}),
        (ErrorCode.UNACCEPTABLE_CREDENTIAL, {True}),
    ],
)
def test_settled_login_follows_the_last_password(error: ErrorCode, possible: set[bool]) -> None:
    for succeeded in (False, True):
        checker = LoginsAreAuthentic()
        register = checker.password_of(MECHANISM, "carl")
        checker.password_changed(register, register.write(1, 1.0), ErrorCode.NONE, 2.0)
        checker.password_changed(register, register.write(None, 3.0), error, 4.0)
        if succeeded in possible:
            checker.settled_login(MECHANISM, "carl", 1, succeeded, 5.0)
        else:
            with pytest.raises(InvariantViolation, match="password 1"):
                checker.settled_login(MECHANISM, "carl", 1, succeeded, 5.0)


def test_known_login_must_have_its_outcome() -> None:
    checker = LoginsAreAuthentic()
    checker.known_login("carl", is_valid=True, succeeded=True)
    with pytest.raises(InvariantViolation, match="carl has not logged in"):
        checker.known_login("carl", is_valid=True, succeeded=False)
    with pytest.raises(InvariantViolation, match="carl has logged in"):
        checker.known_login("carl", is_valid=False, succeeded=True)
    with pytest.raises(InvariantViolation, match="forbidden"):
        checker.refuse("forbidden")


@pytest.mark.parametrize(
    ("made", "may_create"),
    [(response(owner="dora"), True), (response(requester="dora"), True), (response(expires_ms=101), True),
     (response(expires_ms=9), True), (response(), False)],
)  # fmt: skip
def test_token_of_others_or_with_wrong_times_is_a_violation(
    made: CreateDelegationTokenResponse, may_create: bool
) -> None:
    checker = LoginsAreAuthentic()
    with pytest.raises(InvariantViolation):
        checker.created(checker.creation_requested(TERMS), made, may_create)


def test_refused_token_must_not_be_listed() -> None:
    checker = LoginsAreAuthentic()
    refused = CreateDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    checker.created(checker.creation_requested(TERMS), refused, may_create=True)
    with pytest.raises(InvariantViolation, match="not requested"):
        checker.listed([listed()], CARL, None, sees_all=True)


@pytest.mark.parametrize("error", [ErrorCode.REQUEST_TIMED_OUT, None])
def test_token_without_a_response_may_be_listed(error: ErrorCode | None) -> None:
    checker = LoginsAreAuthentic()
    creation = checker.creation_requested(TERMS)
    if error is not None:
        checker.created(creation, CreateDelegationTokenResponse(error), may_create=True)
    checker.listed([listed()], CARL, [DORA], sees_all=False)
    assert checker.tokens["token"].latest_expiry_ms() == 100


def test_response_after_the_list_is_of_the_listed_token() -> None:
    checker = LoginsAreAuthentic()
    creation = checker.creation_requested(TERMS)
    checker.listed([listed()], CARL, None, sees_all=False)
    checker.created(creation, response(), may_create=True)
    assert checker.tokens["token"].latest_expiry_ms() == 20


@pytest.mark.parametrize(
    ("shown", "principal", "owners"),
    [
        (listed(), EVE, None),
        (listed(), CARL, [EVE]),
        (listed("dora"), CARL, None),
        (listed(expires_ms=21), CARL, None),
        (listed(hmac=b"other"), CARL, None),
    ],
)
def test_list_with_other_tokens_is_a_violation(
    shown: DescribedDelegationToken, principal: str, owners: list[str] | None
) -> None:
    checker = LoginsAreAuthentic()
    with_token(checker)
    checker.listed([listed()], DORA, [CARL], sees_all=False)
    checker.listed([listed()], EVE, None, sees_all=True)
    with pytest.raises(InvariantViolation):
        checker.listed([shown], principal, owners, sees_all=False)


def test_tokens_of_other_users_are_not_checked() -> None:
    checker = LoginsAreAuthentic()
    checker.listed([listed("eve")], EVE, [CARL], sees_all=False)
    assert checker.tokens == {}


def changed(
    checker: LoginsAreAuthentic,
    principal: str,
    error: ErrorCode = ErrorCode.NONE,
    expires_ms: int = 30,
    is_token: bool = False,
    removes: bool = False,
) -> None:
    """Change the expiry of the token, from 1 to 2 ms."""
    token = checker.tokens.get("token")
    write = None if token is None else token.expiry.write(None if removes else ANY, 1.0)
    made = (ExpireDelegationTokenResponse if removes else RenewDelegationTokenResponse)(error, expires_ms)
    checker.expiry_responded(token, write, Requester(principal, is_token), made, 1.0, 2.0)


def test_owner_and_renewers_change_the_expiry() -> None:
    checker = LoginsAreAuthentic()
    token = with_token(checker)
    changed(checker, CARL)
    changed(checker, DORA, expires_ms=40)
    changed(checker, EVE, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, expires_ms=50)
    changed(checker, CARL, ErrorCode.DELEGATION_TOKEN_EXPIRED, expires_ms=50)
    assert token.latest_expiry_ms() == 40
    changed(checker, CARL, ErrorCode.REQUEST_TIMED_OUT)
    assert token.latest_expiry_ms() == 100


@pytest.mark.parametrize(
    ("principal", "error", "expires_ms", "is_token"),
    [
        (EVE, ErrorCode.NONE, 30, False),
        (CARL, ErrorCode.NONE, 30, True),
        (CARL, ErrorCode.NONE, 101, False),
        (DORA, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0, False),
        (CARL, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, 0, False),
    ],
)
def test_wrong_change_of_the_expiry_is_a_violation(
    principal: str, error: ErrorCode, expires_ms: int, is_token: bool
) -> None:
    checker = LoginsAreAuthentic()
    with_token(checker)
    with pytest.raises(InvariantViolation):
        changed(checker, principal, error, expires_ms, is_token)


def test_unknown_token_cannot_be_changed() -> None:
    checker = LoginsAreAuthentic()
    changed(checker, CARL, ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    with pytest.raises(InvariantViolation, match="no token"):
        changed(checker, CARL)


def test_removed_token_is_of_no_use() -> None:
    checker = LoginsAreAuthentic()
    token = with_token(checker)
    changed(checker, CARL, removes=True)
    checker.settled_token_login(token, succeeded=False, requested_ms=3.0, walls_ms=[0.0])
    checker.settled_list([], CARL, sees_all=True, requested_ms=3.0, walls_ms=[0.0])
    with pytest.raises(InvariantViolation, match="removed"):
        checker.settled_token_login(token, succeeded=True, requested_ms=3.0, walls_ms=[0.0])
    with pytest.raises(InvariantViolation, match="removed"):
        checker.settled_list([listed()], CARL, sees_all=True, requested_ms=3.0, walls_ms=[0.0])
    write = token.expiry.write(ANY, 3.0)
    with pytest.raises(InvariantViolation, match="removed"):
        checker.expiry_responded(
            token, write, Requester(CARL, False), RenewDelegationTokenResponse(0, 20), 3.0, 4.0
        )


def test_token_is_valid_until_it_expires() -> None:
    checker, jumping = LoginsAreAuthentic(), LoginsAreAuthentic(can_jump=True)
    token, other = with_token(checker), with_token(jumping)
    checker.token_login(token, is_right=True, succeeded=True, wall_ms=20.0)
    checker.token_login(token, is_right=False, succeeded=False, wall_ms=20.0)
    jumping.token_login(other, is_right=True, succeeded=True, wall_ms=21.0)
    with pytest.raises(InvariantViolation, match="wrong HMAC"):
        checker.token_login(token, is_right=False, succeeded=True, wall_ms=10.0)
    with pytest.raises(InvariantViolation, match="21 ms"):
        checker.token_login(token, is_right=True, succeeded=True, wall_ms=21.0)


def test_token_that_has_not_expired_is_usable_and_listed() -> None:
    checker, jumping = LoginsAreAuthentic(), LoginsAreAuthentic(can_jump=True)
    token, other = with_token(checker), with_token(jumping)
    for each in (token, other):
        each.expiry.writes[0].value = 2000
    checker.settled_token_login(token, succeeded=False, requested_ms=1.0, walls_ms=[0.0, 1500.0])
    checker.settled_list([], CARL, sees_all=False, requested_ms=1.0, walls_ms=[0.0, 1500.0])
    checker.settled_list([], EVE, sees_all=False, requested_ms=1.0, walls_ms=[0.0])
    jumping.settled_list([], CARL, sees_all=False, requested_ms=1.0, walls_ms=[0.0])
    with pytest.raises(InvariantViolation, match="no client can log in"):
        checker.settled_token_login(token, succeeded=False, requested_ms=1.0, walls_ms=[1499.0])
    with pytest.raises(InvariantViolation, match="does not list"):
        checker.settled_list([], CARL, sees_all=False, requested_ms=1.0, walls_ms=[1499.0])
