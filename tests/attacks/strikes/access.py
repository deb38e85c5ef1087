"""Floods of requests about access and configs by users, administrators and those without rights."""

from __future__ import annotations

from contextlib import closing, suppress
from functools import partial

from quorumd.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from quorumd.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from quorumd.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from quorumd.protocol.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from quorumd.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from quorumd.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from quorumd.protocol.messages.describe_acls_request import DescribeAclsRequest
from quorumd.protocol.messages.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from quorumd.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from quorumd.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from quorumd.protocol.wire import Message
from tests.attacks.strikes.large_arrays import repeat
from tests.attacks.target import HUGE_TOPIC, Address, Peer, Target, log_in

ADMINISTRATOR, USER = "admin", "alice"
ITEMS = 5000
FILTERS = 1000
"""Filters of one request, each of which is compared with all that there is."""
RESOURCES = 20
CONFIGS = 1000
"""As many as a resource may have in a request."""
ANY, TOPIC = 1, 2
READ, DENY, ALLOW = 3, 2, 3
BROKER_LOGGER, TOPIC_CONFIGS, CLIENT_METRICS = 8, 2, 16
MATCH, PREFIXED = 2, 4
EQUALS, DEFAULT_NAME, ANY_NAME = 0, 1, 2
SHA_256 = 1

Messages = list[tuple[Message, int]]


def flood_acls(target: Target, user: str) -> None:
    """Create ACLs with prefixes of many lengths and networks, list them with filters that match all or none, and
    delete them with many filters."""
    created = [
        AclCreation(
            TOPIC, f"{'p' * (number % 200)}-{number}", PREFIXED, f"User:{number}", _host(number), READ, ALLOW
        )
        for number in range(ITEMS)
    ]
    unmatched = [
        DeleteAclsFilter(TOPIC, f"{'p' * 200}-{number}", MATCH, f"User:none-{number}", None, ANY, ANY)
        for number in range(FILTERS)
    ]
    _send(
        target,
        user,
        [
            (CreateAclsRequest(created), 3),
            (DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY), 3),
            (DescribeAclsRequest(TOPIC, "p" * 249, MATCH, None, None, ANY, ANY), 3),
            (DeleteAclsRequest(unmatched), 3),
            (DeleteAclsRequest([DeleteAclsFilter(TOPIC, None, ANY, None, None, ANY, ANY)] * 2), 3),
        ],
    )


def _host(number: int) -> str:
    return f"10.{number % 250}.{number // 250}.1"


def flood_quotas(target: Target, user: str) -> None:
    """Set and remove the quotas of many users and client ids, and describe them with every kind of filter."""

    def entries(remove: bool) -> list[EntryData]:
        ops = [OpData(key, 1e6, remove) for key in ("producer_byte_rate", "consumer_byte_rate")]
        return [
            EntryData([EntityData("user", f"user-{number}"), EntityData("client-id", f"id-{number}")], ops)
            for number in range(ITEMS)
        ]

    users = ComponentData("user", ANY_NAME, None)
    one_client = ComponentData("client-id", EQUALS, "id-7")
    _send(
        target,
        user,
        [
            (AlterClientQuotasRequest(entries(remove=False), False), 1),
            (DescribeClientQuotasRequest([], False), 1),
            (DescribeClientQuotasRequest([users, one_client], False), 1),
            (DescribeClientQuotasRequest([users] * ITEMS, False), 1),
            (DescribeClientQuotasRequest([ComponentData("user", DEFAULT_NAME, None)], True), 1),
            (AlterClientQuotasRequest(entries(remove=True), False), 1),
        ],
    )


def flood_scram(target: Target, user: str) -> None:
    """Create and delete the credentials of many users, and describe named users and all."""
    names = [f"user-{number}" for number in range(ITEMS)]
    salt = bytes(16)
    upsertions = [ScramCredentialUpsertion(name, SHA_256, 4096, salt, bytes(32)) for name in names]
    deletions = [ScramCredentialDeletion(name, SHA_256) for name in names]
    _send(
        target,
        user,
        [
            (AlterUserScramCredentialsRequest([], upsertions), 0),
            (DescribeUserScramCredentialsRequest(None), 0),
            (DescribeUserScramCredentialsRequest([UserName(name) for name in names]), 0),
            (AlterUserScramCredentialsRequest(deletions, []), 0),
            (AlterUserScramCredentialsRequest([deletions[0]] * ITEMS, [upsertions[0]] * ITEMS), 0),
        ],
    )


def flood_tokens(target: Target, user: str) -> None:
    """Create tokens with as many renewers as they may have, renew one again and again, describe those of many owners
    and all, and renew and expire tokens that do not exist."""
    renewers = [CreatableRenewers("User", f"renewer-{number}") for number in range(20)]
    owners = [DescribeDelegationTokenOwner("User", f"owner-{number}") for number in range(ITEMS)]
    creation = CreateDelegationTokenRequest("User", user, renewers, 3_600_000)
    hmac = b"unknown"
    with suppress(OSError), closing(Peer(_address(target))) as peer:
        log_in(peer, user)
        response = peer.request(creation, 3)
        assert isinstance(response, CreateDelegationTokenResponse)
        hmac = response.hmac or hmac
    creations: Messages = [(creation, 3)] * 20
    renewals: Messages = [(RenewDelegationTokenRequest(hmac, 3_600_000), 2)] * 20
    _send(
        target,
        user,
        [
            *creations,
            *renewals,
            (DescribeDelegationTokenRequest(None), 3),
            (DescribeDelegationTokenRequest(owners), 3),
            (RenewDelegationTokenRequest(b"unknown", 3_600_000), 2),
            (ExpireDelegationTokenRequest(b"unknown", -1), 2),
            (CreateDelegationTokenRequest("User", user, renewers * ITEMS, 3_600_000), 3),
        ],
    )


def flood_configs(target: Target, user: str) -> None:
    """Change the configs of a topic and of many subscriptions of metrics, with valid and with unknown names, and
    describe those of many resources."""
    unknown = [AlterableConfig(f"config-{number}", 0, "1") for number in range(CONFIGS)]
    valid = [AlterableConfig("retention.ms", 0, str(number)) for number in range(CONFIGS)]
    lists = [AlterableConfig("cleanup.policy", 2, "delete,compact") for _ in range(CONFIGS)]
    metrics = [AlterableConfig("interval.ms", 0, "100000")]

    def subscriptions() -> list[AlterConfigsResource]:
        return [AlterConfigsResource(CLIENT_METRICS, f"metrics-{number}", metrics) for number in range(ITEMS)]

    topics = [DescribeConfigsResource(TOPIC_CONFIGS, f"topic-{number}", None) for number in range(ITEMS)]
    huge = [DescribeConfigsResource(TOPIC_CONFIGS, HUGE_TOPIC, None)] * ITEMS
    changes = [
        [AlterConfigsResource(TOPIC_CONFIGS, HUGE_TOPIC, [AlterableConfig("retention.ms", 0, "3600000")])],
        *([AlterConfigsResource(TOPIC_CONFIGS, HUGE_TOPIC, configs)] for configs in (unknown, valid, lists)),
        [
            AlterConfigsResource(TOPIC_CONFIGS, f"{HUGE_TOPIC}-{number}", unknown)
            for number in range(RESOURCES)
        ],
        subscriptions(),
    ]
    _send(
        target,
        user,
        [
            *((IncrementalAlterConfigsRequest(resources, False), 1) for resources in changes),
            (DescribeConfigsRequest(topics, True, True), 4),
            (DescribeConfigsRequest(huge, True, True), 4),
        ],
    )


def _send(target: Target, user: str, messages: Messages) -> None:
    repeat(target, _address(target), messages, user=user)


def _address(target: Target) -> Address:
    """The listener of the leader at which users log in."""
    return target.sasl[list(target.nodes).index(target.leader)]


def flood_everything(target: Target, user: str) -> None:
    """Send all of these floods one after the other."""
    total, target.seconds = target.seconds, target.seconds / len(FLOODS)
    for flood in FLOODS.values():
        flood(target, user)
    target.seconds = total


FLOODS = {
    "changes of ACLs": flood_acls,
    "changes of quotas": flood_quotas,
    "changes of SCRAM credentials": flood_scram,
    "changes of tokens": flood_tokens,
    "changes of configs": flood_configs,
}
BY_ADMINISTRATOR = {name: partial(flood, user=ADMINISTRATOR) for name, flood in FLOODS.items()}
without_rights = partial(flood_everything, user=USER)
