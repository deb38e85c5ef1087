"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken (KIP-48).

A token's HMAC, which serves as its password, is derived from its id and a secret key that all nodes share; the log
has neither.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Final

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.request_context import NO_CONTEXT, RequestContext, Requester
from quorumd.controller.security_records import Token
from quorumd.controller.steps import select_sorted
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from quorumd.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from quorumd.protocol.messages.delegation_token_record import DelegationTokenRecord
from quorumd.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from quorumd.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from quorumd.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from quorumd.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from quorumd.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from quorumd.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from quorumd.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from quorumd.protocol.wire import Message
from quorumd.security.tokens import token_hmac

MAX_RENEWERS: Final = 20
MAX_PRINCIPAL_LENGTH: Final = 255
"""Maximum length of the name of a renewer in characters."""
MAX_SWEPT: Final = 1000
"""Maximum number of tokens that one step of the sweep removes."""
_FOREVER: Final = 2**63 - 1


def _split(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name


def plan_create_delegation_token(
    controller: Controller,
    message: CreateDelegationTokenRequest,
    version: int,
    context: RequestContext = NO_CONTEXT,
) -> ControllerResult:
    """Create a token for the requester or for the owner that it names, which the caller has authorized (KIP-373)."""
    del version
    requester = context.requester
    owner = requester.principal
    if message.owner_principal_name:
        owner = f"{message.owner_principal_type}:{message.owner_principal_name}"
    response = CreateDelegationTokenResponse(0, *_split(owner), *_split(requester.principal))
    error = _unavailable(controller, requester)
    if error is ErrorCode.NONE and any(each.principal_type != "User" for each in message.renewers):
        error = ErrorCode.INVALID_PRINCIPAL_TYPE
    if error is ErrorCode.NONE and not _are_small(message.renewers):
        error = ErrorCode.INVALID_REQUEST
    if controller.image.security.token_counts.get(requester.principal, 0) >= controller.settings.max_tokens:
        error = error or ErrorCode.POLICY_VIOLATION
    if error is not ErrorCode.NONE:
        response.error_code = int(error)
        return ControllerResult((), response)
    settings, now = controller.settings, controller.wall_ms()
    lifetime = settings.token_max_lifetime_ms
    if message.max_lifetime_ms > 0:
        lifetime = min(lifetime, message.max_lifetime_ms)
    max_ms = min(_FOREVER, now + lifetime)
    token = Token(
        str(controller.new_uuid()),
        owner,
        requester.principal,
        tuple(f"{each.principal_type}:{each.principal_name}" for each in message.renewers),
        now,
        max_ms,
        min(max_ms, now + settings.token_expiry_ms),
    )
    response.issue_timestamp_ms, response.expiry_timestamp_ms = now, token.expires_ms
    response.max_timestamp_ms, response.token_id = max_ms, token.id
    response.hmac = controller.token_hmacs.hmac_of(token.id)
    return ControllerResult((_record(token),), response)


def plan_renew_delegation_token(
    controller: Controller,
    message: RenewDelegationTokenRequest,
    version: int,
    context: RequestContext = NO_CONTEXT,
) -> ControllerResult:
    """Postpone the expiry of a token, at most to the end of its lifetime."""
    del version
    found = _usable(controller, message.hmac, context.requester)
    now = controller.wall_ms()
    if isinstance(found, Token) and found.is_expired(now):
        found = ErrorCode.DELEGATION_TOKEN_EXPIRED
    if isinstance(found, ErrorCode):
        return ControllerResult((), RenewDelegationTokenResponse(int(found)))
    period = controller.settings.token_expiry_ms
    if message.renew_period_ms > 0:
        period = min(period, message.renew_period_ms)
    renewed = found._replace(expires_ms=min(found.max_ms, now + period))
    return ControllerResult((_record(renewed),), RenewDelegationTokenResponse(0, renewed.expires_ms))


def plan_expire_delegation_token(
    controller: Controller,
    message: ExpireDelegationTokenRequest,
    version: int,
    context: RequestContext = NO_CONTEXT,
) -> ControllerResult:
    """Set the expiry of a token, or remove it at once if the period is negative."""
    del version
    found = _usable(controller, message.hmac, context.requester)
    now = controller.wall_ms()
    if isinstance(found, Token) and message.expiry_time_period_ms >= 0 and found.is_expired(now):
        found = ErrorCode.DELEGATION_TOKEN_EXPIRED
    if isinstance(found, ErrorCode):
        return ControllerResult((), ExpireDelegationTokenResponse(int(found)))
    if message.expiry_time_period_ms < 0:
        return ControllerResult(
            (RemoveDelegationTokenRecord(found.id),), ExpireDelegationTokenResponse(0, now)
        )
    changed = found._replace(expires_ms=min(found.max_ms, now + message.expiry_time_period_ms))
    return ControllerResult((_record(changed),), ExpireDelegationTokenResponse(0, changed.expires_ms))


def _are_small(renewers: Sequence[CreatableRenewers]) -> bool:
    return len(renewers) <= MAX_RENEWERS and all(
        len(each.principal_name) <= MAX_PRINCIPAL_LENGTH for each in renewers
    )


def _unavailable(controller: Controller, requester: Requester) -> ErrorCode:
    if not requester.may_use_tokens:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if not controller.settings.token_secret_key:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    return ErrorCode.NONE


def _usable(controller: Controller, hmac: bytes, requester: Requester) -> Token | ErrorCode:
    """Return the token with this HMAC, or the error if the requester may not renew it."""
    error = _unavailable(controller, requester)
    if error is not ErrorCode.NONE:
        return error
    tokens = controller.image.security.tokens
    token_id = controller.token_hmacs.find(tokens, hmac)
    if token_id is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    token = tokens[token_id]
    if requester.principal != token.owner and requester.principal not in token.renewers:
        return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    return token


def _record(token: Token) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        token.owner,
        token.requester,
        list(token.renewers),
        token.issued_ms,
        token.max_ms,
        token.expires_ms,
        token.id,
    )


def expired_tokens(image: ClusterImage, now_ms: int) -> list[Message]:
    """Return the records that remove expired tokens, at most MAX_SWEPT. `now_ms`: Unix time."""
    expired = (token.id for token in image.security.tokens.values() if token.is_expired(now_ms))
    return [RemoveDelegationTokenRecord(id) for id, _ in zip(expired, range(MAX_SWEPT), strict=False)]


def describe_delegation_tokens(
    image: ClusterImage,
    message: DescribeDelegationTokenRequest,
    secret_key: str,
    requester: Requester,
    may_see: Callable[[Token], bool],
) -> Generator[None, None, DescribeDelegationTokenResponse]:
    """List the tokens whose owner, requester or a renewer is one of the message's owners, or all if those are null;
    only tokens that the requester holds in one of these roles, or that `may_see` accepts. Two steps per token."""
    tokens = list(image.security.tokens.values())
    return _describe(tokens, message, secret_key, requester, may_see)


def _describe(
    tokens: Sequence[Token],
    message: DescribeDelegationTokenRequest,
    secret_key: str,
    requester: Requester,
    may_see: Callable[[Token], bool],
) -> Generator[None, None, DescribeDelegationTokenResponse]:
    if not requester.may_use_tokens:
        return DescribeDelegationTokenResponse(int(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
    if not secret_key:
        return DescribeDelegationTokenResponse(int(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))
    owners: set[str] | None = None
    if message.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in message.owners}

    def is_shown(token: Token) -> bool:
        holders = _holders(token)
        return (owners is None or not owners.isdisjoint(holders)) and (
            requester.principal in holders or may_see(token)
        )

    shown: list[DescribedDelegationToken] = []
    for token in (yield from select_sorted(tokens, is_shown, lambda token: (token.id,))):
        shown.append(_described(token, secret_key))
        yield
    return DescribeDelegationTokenResponse(0, shown)


def _holders(token: Token) -> Iterable[str]:
    return token.owner, token.requester, *token.renewers


def _described(token: Token, secret_key: str) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        *_split(token.owner),
        *_split(token.requester),
        token.issued_ms,
        token.expires_ms,
        token.max_ms,
        token.id,
        token_hmac(secret_key, token.id),
        [DescribedDelegationTokenRenewer(*_split(renewer)) for renewer in token.renewers],
    )
