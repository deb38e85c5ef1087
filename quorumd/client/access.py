"""Requests about ACLs, SCRAM credentials, client quotas and delegation tokens, on an admin client.

Every function raises RequestFailed for the first error of a response.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence

from quorumd.client.cluster_client import ClusterClient, raise_on_error
from quorumd.protocol.messages import alter_client_quotas_request as alter_quotas
from quorumd.protocol.messages import alter_user_scram_credentials_request as alter_users
from quorumd.protocol.messages import create_delegation_token_request as create_token
from quorumd.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from quorumd.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from quorumd.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from quorumd.protocol.messages.create_acls_response import CreateAclsResponse
from quorumd.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from quorumd.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from quorumd.protocol.messages.delete_acls_response import DeleteAclsResponse
from quorumd.protocol.messages.describe_acls_request import DescribeAclsRequest
from quorumd.protocol.messages.describe_acls_response import DescribeAclsResponse
from quorumd.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from quorumd.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse, EntryData
from quorumd.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from quorumd.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from quorumd.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from quorumd.protocol.messages.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from quorumd.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from quorumd.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from quorumd.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from quorumd.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from quorumd.security.acls import Acl, AclFilter
from quorumd.security.sasl.scram import BY_NAME, salted_password

SALT_BYTES = 24


async def list_acls(admin: ClusterClient, selected: AclFilter) -> list[Acl]:
    """Return the ACLs that the filter selects."""
    response = await admin.request(
        DescribeAclsRequest(*_filter_fields(selected)), DescribeAclsResponse, "leader"
    )
    raise_on_error(response.error_code, response.error_message, "DescribeAcls")
    return [
        Acl(
            resource.resource_type,
            resource.pattern_type,
            resource.resource_name,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in response.resources
        for acl in resource.acls
    ]


def _filter_fields(
    selected: AclFilter,
) -> tuple[int, str | None, int, str | None, str | None, int, int]:
    return (
        selected.resource_type,
        selected.name,
        selected.pattern_type,
        selected.principal,
        selected.host,
        selected.operation,
        selected.permission,
    )


async def add_acls(admin: ClusterClient, acls: Sequence[Acl]) -> None:
    """Create ACLs; existing ACLs are unchanged."""
    creations = [
        AclCreation(
            acl.resource_type,
            acl.name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission,
        )
        for acl in acls
    ]
    response = await admin.request(CreateAclsRequest(creations), CreateAclsResponse, "leader")
    for acl, result in zip(acls, response.results, strict=True):
        raise_on_error(result.error_code, result.error_message, f"ACL of {acl.principal}")


async def remove_acls(admin: ClusterClient, selected: AclFilter) -> list[Acl]:
    """Delete the ACLs that the filter selects, and return them."""
    request = DeleteAclsRequest([DeleteAclsFilter(*_filter_fields(selected))])
    response = await admin.request(request, DeleteAclsResponse, "leader")
    (result,) = response.filter_results
    raise_on_error(result.error_code, result.error_message, "DeleteAcls")
    return [
        Acl(
            acl.resource_type,
            acl.pattern_type,
            acl.resource_name,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for acl in result.matching_acls
    ]


async def list_users(admin: ClusterClient) -> list[DescribeUserScramCredentialsResult]:
    """Return the SCRAM credentials of all users, without secrets."""
    request = DescribeUserScramCredentialsRequest(None)
    response = await admin.request(request, DescribeUserScramCredentialsResponse, "leader")
    raise_on_error(response.error_code, response.error_message, "DescribeUserScramCredentials")
    return response.results


async def set_password(
    admin: ClusterClient, user: str, mechanism: str, password: str, iterations: int
) -> None:
    """Set the SCRAM credential of a user; only the salted and hashed password is sent."""
    salt = secrets.token_bytes(SALT_BYTES)
    scram = BY_NAME[mechanism]
    salted = salted_password(scram, password, salt, iterations)
    upsertion = alter_users.ScramCredentialUpsertion(user, scram.type, iterations, salt, salted)
    await _alter_users(admin, alter_users.AlterUserScramCredentialsRequest([], [upsertion]))


async def remove_password(admin: ClusterClient, user: str, mechanism: str) -> None:
    """Remove the SCRAM credential of a user."""
    deletion = alter_users.ScramCredentialDeletion(user, BY_NAME[mechanism].type)
    await _alter_users(admin, alter_users.AlterUserScramCredentialsRequest([deletion], []))


async def _alter_users(admin: ClusterClient, request: alter_users.AlterUserScramCredentialsRequest) -> None:
    response = await admin.request(request, AlterUserScramCredentialsResponse, "leader")
    for result in response.results:
        raise_on_error(result.error_code, result.error_message, f"user {result.user!r}")


async def list_quotas(admin: ClusterClient) -> list[EntryData]:
    """Return the quotas of all entities."""
    request = DescribeClientQuotasRequest([], False)
    response = await admin.request(request, DescribeClientQuotasResponse, "leader")
    raise_on_error(response.error_code, response.error_message, "DescribeClientQuotas")
    return response.entries or []


async def alter_quota(
    admin: ClusterClient, entity: Mapping[str, str | None], values: Mapping[str, float | None]
) -> None:
    """Set quotas of one entity; the value None removes a quota. The name None stands for the default entity."""
    parts = [alter_quotas.EntityData(kind, name) for kind, name in entity.items()]
    ops = [alter_quotas.OpData(key, value or 0.0, value is None) for key, value in values.items()]
    request = alter_quotas.AlterClientQuotasRequest([alter_quotas.EntryData(parts, ops)], False)
    response = await admin.request(request, AlterClientQuotasResponse, "leader")
    for result in response.entries:
        raise_on_error(result.error_code, result.error_message, "AlterClientQuotas")


async def list_tokens(admin: ClusterClient) -> list[DescribedDelegationToken]:
    """Return the delegation tokens that the client may describe."""
    request = DescribeDelegationTokenRequest(None)
    response = await admin.request(request, DescribeDelegationTokenResponse, "leader")
    raise_on_error(response.error_code, None, "DescribeDelegationToken")
    return response.tokens


async def create_delegation_token(
    admin: ClusterClient, owner: str | None, renewers: Iterable[str], lifetime_ms: int
) -> CreateDelegationTokenResponse:
    """Create a token. Principals are `Type:Name`; by default the client itself is the owner."""
    kind, name = (None, None) if owner is None else owner.split(":", 1)
    named = [create_token.CreatableRenewers(*renewer.split(":", 1)) for renewer in renewers]
    request = create_token.CreateDelegationTokenRequest(kind, name, named, lifetime_ms)
    response = await admin.request(request, CreateDelegationTokenResponse, "leader")
    raise_on_error(response.error_code, None, "CreateDelegationToken")
    return response


async def renew_token(admin: ClusterClient, hmac: bytes, period_ms: int) -> int:
    """Renew a token and return its new time of expiry."""
    request = RenewDelegationTokenRequest(hmac, period_ms)
    response = await admin.request(request, RenewDelegationTokenResponse, "leader")
    raise_on_error(response.error_code, None, "RenewDelegationToken")
    return response.expiry_timestamp_ms


async def expire_token(admin: ClusterClient, hmac: bytes, period_ms: int) -> int:
    """Set the time of expiry of a token and return it; a negative period removes the token."""
    request = ExpireDelegationTokenRequest(hmac, period_ms)
    response = await admin.request(request, ExpireDelegationTokenResponse, "leader")
    raise_on_error(response.error_code, None, "ExpireDelegationToken")
    return response.expiry_timestamp_ms
