"""The APIs that the generated messages cover: keys, names, version ranges, header versions, message classes.

A node's request router decides which of them the node serves. A message's module is imported when its class is first
used, since importing all of them would cost a daemon memory and startup time.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final, NamedTuple

from quorumd.errors import UnsupportedVersion
from quorumd.protocol import messages
from quorumd.protocol.messages import ApiKey as ApiKey
from quorumd.protocol.wire import Message

FIRST_PRIVATE_KEY: Final = 1001

FORWARDABLE: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UNREGISTER_CONTROLLER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.ALTER_QUORUM,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
    }
)
"""APIs whose requests a node may forward to the leader in an Envelope, as Kafka's brokers do (KIP-590).

Requests that brokers send for themselves are not forwarded: registration, heartbeats, AlterPartition,
AllocateProducerIds and AssignReplicasToDirs go straight to the leader. (Kafka allows AllocateProducerIds in an
Envelope too, but no broker sends it.)
"""


BROKER_APIS: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_RECORDS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
    }
)
"""APIs that brokers serve and controllers do not."""

RAFT_FETCH_VERSION: Final = 12
"""First version of Fetch that controllers serve: earlier ones lack LastFetchedEpoch and DivergingEpoch."""


class Api(NamedTuple):
    """One API and the versions that its schema describes.

    `flexible_from`: the first flexible version (KIP-482), None if there is none. `forwardable`: whether it is in
    FORWARDABLE. `private`: whether the API is quorumd's own, with a key that Kafka does not have.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int | None
    forwardable: bool
    private: bool

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


APIS: Final[dict[int, Api]] = {
    key: Api(key, *values, forwardable=key in FORWARDABLE, private=key >= FIRST_PRIVATE_KEY)
    for key, values in messages.APIS.items()
}


def api(key: int) -> Api:
    """Look up the API of a key. Raises UnsupportedVersion if there is none."""
    try:
        return APIS[key]
    except KeyError:
        raise UnsupportedVersion(f"unknown API key {key}") from None


@cache
def request_class(key: int) -> type[Message]:
    """The class of an API's requests. Raises UnsupportedVersion for an unknown key."""
    return _message_class(f"{api(key).name}Request")


@cache
def response_class(key: int) -> type[Message]:
    """The class of an API's responses. Raises UnsupportedVersion for an unknown key."""
    return _message_class(f"{api(key).name}Response")


@cache
def record_class(api_key: int) -> type[Message]:
    """The class of a metadata record. Raises UnsupportedVersion for an unknown key."""
    try:
        name = messages.RECORDS[api_key]
    except KeyError:
        raise UnsupportedVersion(f"unknown metadata record type {api_key}") from None
    return _message_class(name)


def request_header_version(key: int, version: int) -> int:
    """Return the version of the request header: 2, with tagged fields, for flexible versions of the API, else 1."""
    return 2 if api(key).is_flexible(version) else 1


def response_header_version(key: int, version: int) -> int:
    """Return the version of the response header: 1, with tagged fields, for flexible versions of the API, else 0.

    Always 0 for ApiVersions (KIP-511): a client reads that response before it knows the server's versions.
    """
    if key == ApiKey.API_VERSIONS:
        return 0
    return 1 if api(key).is_flexible(version) else 0


def unsupported_version(key: int, version: int, supported: tuple[int, int] | None) -> UnsupportedVersion:
    """Build the error about a request of a version outside the supported ones; None if the API is not supported."""
    name = APIS[key].name if key in APIS else f"API key {key}"
    known = f"; supported versions: {supported[0]} to {supported[1]}" if supported is not None else ""
    return UnsupportedVersion(f"{name} v{version} is not supported{known}")


def _message_class(name: str) -> type[Message]:
    module = import_module(f"quorumd.protocol.messages.{messages.MODULES[name]}")
    found: type[Message] = getattr(module, name)
    return found
