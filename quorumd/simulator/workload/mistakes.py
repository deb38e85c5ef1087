"""Requests of a careless administrator, each invalid in one way, and the errors that it must get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from quorumd.errors import ErrorCode as E
from quorumd.ids import METADATA_TOPIC, KafkaUuid
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.framing import SIZE
from quorumd.protocol.messages import alter_client_quotas_request as quotas
from quorumd.protocol.messages import alter_partition_reassignments_request as moves
from quorumd.protocol.messages import alter_user_scram_credentials_request as scram
from quorumd.protocol.messages import create_partitions_request as growth
from quorumd.protocol.messages import create_topics_request as topics
from quorumd.protocol.messages import delete_topics_request as deletions
from quorumd.protocol.messages import describe_client_quotas_request as listed_quotas
from quorumd.protocol.messages import describe_quorum_request as quorum
from quorumd.protocol.messages import describe_user_scram_credentials_request as users
from quorumd.protocol.messages import elect_leaders_request as elections
from quorumd.protocol.messages import incremental_alter_configs_request as configs
from quorumd.protocol.messages import update_features_request as features
from quorumd.protocol.messages.alter_configs_request import AlterConfigsRequest
from quorumd.protocol.messages.alter_configs_request import AlterConfigsResource as ReplacedResource
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from quorumd.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from quorumd.protocol.messages.describe_acls_request import DescribeAclsRequest
from quorumd.protocol.messages.envelope_request import EnvelopeRequest
from quorumd.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from quorumd.protocol.wire import Message
from quorumd.security.forwarded_principals import serialize

TIMEOUT_MS: Final = 2000
UNKNOWN: Final = "unknown"
UNKNOWN_BROKER: Final = 9998
_LONG: Final = 2**63


class Mistake(NamedTuple):
    """A request in one of its versions, and the error codes of which it must get at least one and no other."""

    request: Message
    version: int
    expected: frozenset[int]


def _mistake(request: Message, *expected: E, version: int | None = None) -> Mistake:
    used = request.MAX_VERSION if version is None else version
    return Mistake(request, used, frozenset(int(each) for each in expected))


def draw_mistake(random: Random) -> Mistake:
    """Draw a request."""
    return random.choice(_KINDS)(random)


# Quotas

_Entity = Sequence[tuple[str, str | None]]
_USER: Final[_Entity] = (("user", UNKNOWN),)
_IP: Final[_Entity] = (("ip", "10.0.0.1"),)
_QUOTAS: Final[tuple[tuple[_Entity, tuple[tuple[str, float], ...]], ...]] = (
    ((), (("producer_byte_rate", 1.0),)),
    ((("user", "a"), ("user", "b")), (("producer_byte_rate", 1.0),)),
    ((("group", "a"),), (("producer_byte_rate", 1.0),)),
    ((("user", ""),), (("producer_byte_rate", 1.0),)),
    ((("ip", "10.0.0.1"), ("user", "a")), (("connection_creation_rate", 1.0),)),
    ((("ip", "host.example"),), (("connection_creation_rate", 1.0),)),
    ((("ip", None),), (("producer_byte_rate", 1.0),)),
    (_IP, (("connection_creation_rate", float(2**31)),)),
    (_USER, (("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0))),
    (_USER, (("no_quota", 1.0),)),
    (_USER, (("consumer_byte_rate", 0.0),)),
    (_USER, (("request_percentage", -1.0),)),
    (_USER, (("producer_byte_rate", float(_LONG) * 4),)),
    (_USER, (("producer_byte_rate", 1.5),)),
    ((*_USER, ("client-id", "a"), ("ip", "10.0.0.1"), ("group", "a")), (("producer_byte_rate", 1.0),)),
    (_USER, (("producer_byte_rate", 1.0),) * 17),
)
_QUOTA_FILTERS: Final[tuple[tuple[E, tuple[tuple[str, int, str | None], ...]], ...]] = (
    (E.INVALID_REQUEST, (("user", 2, None), ("user", 1, None))),
    (E.INVALID_REQUEST, (("", 2, None),)),
    (E.UNSUPPORTED_VERSION, (("group", 2, None),)),
    (E.INVALID_REQUEST, (("user", 9, None),)),
    (E.INVALID_REQUEST, (("user", 0, None),)),
    (E.INVALID_REQUEST, (("user", 1, "a"),)),
    (E.INVALID_REQUEST, (("ip", 2, None), ("user", 2, None))),
)


def _quota(random: Random) -> Mistake:
    entity, values = random.choice(_QUOTAS)
    parts = [quotas.EntityData(*each) for each in entity]
    entry = quotas.EntryData(parts, [quotas.OpData(*each) for each in values])
    entries = [entry] if random.random() < 0.8 else [entry, entry]
    return _mistake(quotas.AlterClientQuotasRequest(entries, random.random() < 0.3), E.INVALID_REQUEST)


def _repeated_quota(random: Random) -> Mistake:
    """Set a valid quota of the same entity twice, whose types are in any order."""
    parts = [quotas.EntityData("user", UNKNOWN), quotas.EntityData("client-id", UNKNOWN)]
    entries = [
        quotas.EntryData(random.sample(parts, 2), [quotas.OpData("producer_byte_rate", 1.0, False)])
        for _ in range(2)
    ]
    return _mistake(quotas.AlterClientQuotasRequest(entries, False), E.INVALID_REQUEST)


def _quota_filter(random: Random) -> Mistake:
    error, components = random.choice(_QUOTA_FILTERS)
    found = [listed_quotas.ComponentData(*each) for each in components]
    return _mistake(listed_quotas.DescribeClientQuotasRequest(found, False), error)


def _narrow_quota_filter(random: Random) -> Mistake:
    """A valid filter for the entities of one user, or of one user and no client id."""
    component = listed_quotas.ComponentData("user", *random.choice(((0, "amy"), (1, None), (0, UNKNOWN))))
    request = listed_quotas.DescribeClientQuotasRequest([component], random.random() < 0.5)
    return _mistake(request, E.NONE)


# Credentials


def _credential(random: Random) -> Mistake:
    made = scram.ScramCredentialUpsertion(UNKNOWN, 1, 4096, b"salt", b"x" * 32)
    error, deleted = E.UNACCEPTABLE_CREDENTIAL, [scram.ScramCredentialDeletion(UNKNOWN, 1)]
    way = random.randrange(6)
    if way == 0:
        made.name = ""
    elif way == 1:
        made.mechanism, error = 9, E.UNSUPPORTED_SASL_MECHANISM
    elif way == 2:
        made.iterations = random.choice((1, 1 << 20))
    elif way == 3:
        error = E.DUPLICATE_RESOURCE
        return _mistake(scram.AlterUserScramCredentialsRequest(deleted, [made]), error)
    else:
        error = E.RESOURCE_NOT_FOUND
        return _mistake(scram.AlterUserScramCredentialsRequest(deleted, []), error)
    return _mistake(scram.AlterUserScramCredentialsRequest([], [made]), error)


def _credential_list(random: Random) -> Mistake:
    names = random.choice(((UNKNOWN,), (UNKNOWN, UNKNOWN), ("amy", "amy")))
    error = E.RESOURCE_NOT_FOUND if len(names) == 1 else E.DUPLICATE_RESOURCE
    return _mistake(
        users.DescribeUserScramCredentialsRequest([users.UserName(each) for each in names]), error
    )


# ACLs

_ACLS: Final = (
    {"resource_type": 9},
    {"resource_pattern_type": 9},
    {"operation": 99},
    {"permission_type": 9},
    {"resource_type": 4},
    {"resource_name": ""},
    {"principal": "amy"},
    {"host": ""},
    {"host": "10.0.0.0/99"},
)
_NO_AUTHORIZER: Final = E.SECURITY_DISABLED


def _acl(random: Random) -> Mistake:
    acl = AclCreation(2, UNKNOWN, 3, "User:unknown", "*", 3, 3)
    for name, value in random.choice(_ACLS).items():
        setattr(acl, name, value)
    request = CreateAclsRequest([acl] * random.choice((1, 1, 3)))
    # A range of hosts is refused at old metadata versions whatever it is.
    return _mistake(request, E.INVALID_REQUEST, E.UNSUPPORTED_VERSION, _NO_AUTHORIZER)


def _acl_filter(random: Random) -> Mistake:
    wanted = DeleteAclsFilter(2, UNKNOWN, 3, "User:unknown", None, 1, 1)
    field = random.choice(("resource_type_filter", "pattern_type_filter", "operation", "permission_type"))
    setattr(wanted, field, 99)
    if random.random() < 0.6:
        request: Message = DeleteAclsRequest([wanted] * random.choice((1, 1, 3)))
    else:
        request = DescribeAclsRequest(
            wanted.resource_type_filter, UNKNOWN, wanted.pattern_type_filter, None, None,
            wanted.operation, wanted.permission_type,
        )  # fmt: skip
    return _mistake(request, E.INVALID_REQUEST, _NO_AUTHORIZER)


# Topics

_REMOTE: Final = {"remote.storage.enable": "true"}
_TOPIC_CONFIGS: Final[tuple[dict[str, str], ...]] = (
    {"no.config": "1"},
    {"retention.ms": "many"},
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
    {"cleanup.policy": "forget"},
    {"min.cleanable.dirty.ratio": "half"},
    {"min.cleanable.dirty.ratio": "1.5"},
    {"min.cleanable.dirty.ratio": "-Infinity"},
    {"min.cleanable.dirty.ratio": "0x1p99999"},
    {"min.cleanable.dirty.ratio": "-0x1p99999d"},
    {"leader.replication.throttled.replicas": "0:1,x"},
    {"compression.type": "none of these"},
    {"segment.bytes": "1"},
    {"segment.bytes": str(1 << 40)},
    {**_REMOTE, "cleanup.policy": "compact"},
    {**_REMOTE, "retention.ms": "10", "local.retention.ms": "11"},
    {**_REMOTE, "retention.ms": "10", "local.retention.ms": "-1"},
    {**_REMOTE, "retention.bytes": "10", "local.retention.bytes": "11"},
    {**_REMOTE, "retention.ms": "10", "remote.copy.lag.ms": "11"},
    {**_REMOTE, "remote.log.copy.disable": "true", "retention.ms": "9", "local.retention.ms": "8"},
)
_VALID_TOPIC_CONFIGS: Final[tuple[dict[str, str], ...]] = (
    {"min.cleanable.dirty.ratio": "5e-1f"},
    {"min.cleanable.dirty.ratio": "0x1p-3"},
    {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "0:1,1:2"},
    {"compression.type": "zstd", "compression.zstd.level": "3"},
    _REMOTE,
    {**_REMOTE, "cleanup.policy": "delete", "retention.bytes": "9"},
    {**_REMOTE, "remote.log.copy.disable": "true"},
    {**_REMOTE, "retention.ms": "10", "local.retention.ms": "10", "remote.copy.lag.ms": "9"},
)
_ASSIGNMENTS: Final[tuple[tuple[tuple[int, list[int]], ...], ...]] = (
    ((0, []),),
    ((0, [UNKNOWN_BROKER]),),
    ((0, [UNKNOWN_BROKER, UNKNOWN_BROKER]),),
    ((0, [UNKNOWN_BROKER]), (0, [UNKNOWN_BROKER])),
)


def _topic(name: str = UNKNOWN, partitions: int = 1, replicas: int = 1) -> topics.CreatableTopic:
    return topics.CreatableTopic(name, partitions, replicas)


def _new_topic(random: Random) -> Mistake:
    named: tuple[tuple[topics.CreatableTopic, E], ...] = (
        (_topic(METADATA_TOPIC), E.INVALID_REQUEST),
        (_topic("not valid!"), E.INVALID_TOPIC),
        (_topic(""), E.INVALID_TOPIC),
        (_topic("x" * 300), E.INVALID_TOPIC),
        (_topic(".."), E.INVALID_TOPIC),
        (_topic(partitions=0), E.INVALID_PARTITIONS),
        (_topic(partitions=-2), E.INVALID_PARTITIONS),
        (_topic(replicas=0), E.INVALID_REPLICATION_FACTOR),
        (_topic(replicas=90), E.INVALID_REPLICATION_FACTOR),
        (_topic(partitions=10_001, replicas=90), E.POLICY_VIOLATION),
    )
    topic, error = random.choice(named)
    requested = [topic] if random.random() < 0.8 else [topic, topic]
    request = topics.CreateTopicsRequest(requested, TIMEOUT_MS, random.random() < 0.3)
    duplicate = (E.INVALID_REQUEST,) if len(requested) > 1 else ()
    # A request with a topic twice counts no partitions for it.
    also = (E.INVALID_REPLICATION_FACTOR,) if duplicate else ()
    return _mistake(request, error, *duplicate, *also)


def _assigned_topic(random: Random) -> Mistake:
    topic = _topic(partitions=-1, replicas=-1)
    topic.assignments = [topics.CreatableReplicaAssignment(*each) for each in random.choice(_ASSIGNMENTS)]
    error = E.INVALID_REPLICA_ASSIGNMENT
    if random.random() < 0.2:
        topic.num_partitions, error = 1, E.INVALID_REQUEST
    return _mistake(topics.CreateTopicsRequest([topic], TIMEOUT_MS, False), error)


def _colliding_topics(random: Random) -> Mistake:
    """Two topics with metrics of the same name; the first needs more brokers than there are."""
    requested = [_topic("un.known", replicas=90), _topic("un_known", replicas=90)]
    request = topics.CreateTopicsRequest(requested, TIMEOUT_MS, False)
    return _mistake(request, E.INVALID_TOPIC, E.INVALID_REPLICATION_FACTOR)


def _topic_configs(random: Random) -> Mistake:
    topic = _topic(replicas=90)
    expected = [E.INVALID_CONFIG]
    values = random.choice(_TOPIC_CONFIGS)
    if random.random() < 0.3:
        values = random.choice(_VALID_TOPIC_CONFIGS)
        expected.append(E.INVALID_REPLICATION_FACTOR)
    topic.configs = [topics.CreatableTopicConfig(*each) for each in values.items()]
    if random.random() < 0.1:
        topic.configs.append(topics.CreatableTopicConfig("retention.ms", None))
    return _mistake(topics.CreateTopicsRequest([topic], TIMEOUT_MS, True), *expected)


def _growth(random: Random) -> Mistake:
    named = [growth.CreatePartitionsTopic(UNKNOWN, 2, None)] * random.choice((1, 2))
    request = growth.CreatePartitionsRequest(named, TIMEOUT_MS)
    return _mistake(request, E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_REQUEST)


def _deletion(random: Random) -> Mistake:
    state, id = deletions.DeleteTopicState, KafkaUuid(random.randbytes(16))
    topic, error = random.choice(
        (
            (state(UNKNOWN), E.UNKNOWN_TOPIC_OR_PARTITION),
            (state(None, id), E.UNKNOWN_TOPIC_ID),
            (state(UNKNOWN, id), E.INVALID_REQUEST),
            (state(None), E.INVALID_REQUEST),
        )
    )
    request = deletions.DeleteTopicsRequest([topic], [], TIMEOUT_MS)
    return _mistake(request, error, E.UNKNOWN_TOPIC_OR_PARTITION)


def _reassignment(random: Random) -> Mistake:
    replicas = random.choice((None, [], [1, 1], [UNKNOWN_BROKER]))
    topic = moves.ReassignableTopic(
        UNKNOWN, [moves.ReassignablePartition(0, replicas)] * random.choice((1, 2))
    )
    request = moves.AlterPartitionReassignmentsRequest(TIMEOUT_MS, random.random() < 0.5, [topic])
    return _mistake(request, E.UNKNOWN_TOPIC_OR_PARTITION)


def _election(random: Random) -> Mistake:
    topic = elections.TopicPartitions(UNKNOWN, [0, 1])
    kind, error = random.choice(
        ((0, E.UNKNOWN_TOPIC_OR_PARTITION), (1, E.UNKNOWN_TOPIC_OR_PARTITION), (9, E.INVALID_REQUEST))
    )
    named = None if kind == 9 and random.random() < 0.5 else [topic]
    return _mistake(elections.ElectLeadersRequest(kind, named, TIMEOUT_MS), error)


# Features and configs

_FEATURES: Final[tuple[tuple[tuple[str, int], ...], ...]] = (
    (("no.version", 1),),
    (("metadata.version", 999),),
    (("metadata.version", 1),),
    (("kraft.version", 2),),
    (("share.version", 9), ("share.version", 9)),
    (("group.version", -1),),
    tuple((f"no.version.{number}", 1) for number in range(101)),
)


def _feature(random: Random) -> Mistake:
    updates = [features.FeatureUpdateKey(*each) for each in random.choice(_FEATURES)]
    request, version = features.UpdateFeaturesRequest(TIMEOUT_MS, updates), random.choice((0, 1, 2, 2))
    if version == 0:
        updates[0].allow_downgrade = random.random() < 0.5
    else:
        updates[0].upgrade_type = random.choice((1, 1, 2, 3, 9))
        request.validate_only = random.random() < 0.3
    return _mistake(request, E.INVALID_UPDATE_VERSION, E.INVALID_REQUEST, version=version)


_BROKER_CONFIG: Final = (4, "1")
_GROUP: Final = (32, UNKNOWN)
_METRICS: Final = (16, UNKNOWN)
_CONFIGS: Final[tuple[tuple[tuple[int, str], str, int, str | None], ...]] = (
    ((99, "x"), "a", 0, "1"),
    ((4, "01"), "log.retention.ms", 0, "1"),
    ((2, UNKNOWN), "retention.ms", 0, "1"),
    ((2, ""), "retention.ms", 0, "1"),
    (_BROKER_CONFIG, "cordoned.log.dirs", 0, "/unknown"),
    (_BROKER_CONFIG, "cordoned.log.dirs", 2, "/a,/b"),
    (_BROKER_CONFIG, "unclean.leader.election.enable", 0, "perhaps"),
    (_GROUP, "no.config", 0, "1"),
    (_GROUP, "consumer.session.timeout.ms", 0, "1"),
    (_GROUP, "consumer.session.timeout.ms", 2, "1"),
    (_GROUP, "consumer.heartbeat.interval.ms", 0, "99999999"),
    (_GROUP, "streams.assignor.name", 0, "none"),
    (_GROUP, "errors.deadletterqueue.topic.name", 0, "__internal"),
    (_GROUP, "streams.rack.aware.assignment.tags", 0, "a,a"),
    (_GROUP, "streams.rack.aware.assignment.tags", 0, "a,,b"),
    (_GROUP, "share.auto.offset.reset", 0, "by_duration:-PT1S"),
    (_GROUP, "share.auto.offset.reset", 0, "by_duration:-P1DT1H"),
    (_GROUP, "share.auto.offset.reset", 0, "by_duration:1S"),
    (_GROUP, "share.auto.offset.reset", 0, "newest"),
    (_GROUP, "consumer.session.timeout.ms", 9, "1"),
    (_GROUP, "consumer.session.timeout.ms", 3, None),
    (_METRICS, "no.config", 0, "1"),
    (_METRICS, "interval.ms", 0, "1"),
    (_METRICS, "match", 0, "name=x"),
    (_METRICS, "match", 0, "client_id=["),
)
_VALID_GROUP_CONFIGS: Final = (
    ("consumer.heartbeat.interval.ms", "15000"),
    ("share.session.timeout.ms", "45000"),
    ("share.auto.offset.reset", "by_duration:P1DT2H3M4.5S"),
    ("share.auto.offset.reset", "by_duration:-P1DT-25H"),
    ("streams.rack.aware.assignment.tags", "zone,rack"),
    ("errors.deadletterqueue.topic.name", "dead"),
)
_CONFIG_ERRORS: Final = (
    E.INVALID_CONFIG, E.INVALID_REQUEST, E.UNSUPPORTED_VERSION, E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_TOPIC,
)  # fmt: skip


def _config(random: Random) -> Mistake:
    resource, name, operation, value = random.choice(_CONFIGS)
    changed = configs.AlterConfigsResource(*resource, [configs.AlterableConfig(name, operation, value)])
    resources = [changed] if random.random() < 0.8 else [changed, changed]
    return _mistake(configs.IncrementalAlterConfigsRequest(resources, False), *_CONFIG_ERRORS)


def _valid_config(random: Random) -> Mistake:
    """Only validate a change that is valid."""
    name, value = random.choice(_VALID_GROUP_CONFIGS)
    changed = configs.AlterConfigsResource(*_GROUP, [configs.AlterableConfig(name, 0, value)])
    return _mistake(configs.IncrementalAlterConfigsRequest([changed], True), E.NONE)


def _replacement(random: Random) -> Mistake:
    resource = ReplacedResource(*random.choice(((2, UNKNOWN), (99, "x"), (4, "x"), (16, ""))))
    return _mistake(AlterConfigsRequest([resource] * random.choice((1, 2)), False), *_CONFIG_ERRORS)


def _description(random: Random) -> Mistake:
    """Describe the quorum of another partition, or of too many topics."""
    way = random.randrange(3)
    topic = quorum.TopicData(random.choice((UNKNOWN, METADATA_TOPIC)), [quorum.PartitionData(1)])
    named = [topic] if way else [quorum.TopicData(f"topic{number}", []) for number in range(101)]
    request = quorum.DescribeQuorumRequest(named)
    return _mistake(request, E.UNKNOWN_TOPIC_OR_PARTITION if way else E.INVALID_REQUEST)


def _resource_list(random: Random) -> Mistake:
    """List resources with configs, also those that no version lists."""
    kinds = random.choice(([], [2], [4, 8], [16, 32], [99], [2, 99]))
    return _mistake(ListConfigResourcesRequest(kinds), E.UNSUPPORTED_VERSION if 99 in kinds else E.NONE)


def _envelope(random: Random) -> Mistake:
    """A forwarded request whose principal, host or content is invalid."""
    wrapped = topics.CreateTopicsRequest([_topic(f"topic{number}", replicas=90) for number in range(3)])
    data = bytes(ClientConnection("client").request(wrapped, wrapped.MAX_VERSION)[1])[SIZE.size :]
    # With a valid principal, so that a damaged large request is refused only while it is decoded.
    envelope = EnvelopeRequest(data, serialize("User:client", False), bytes(4))
    way = random.randrange(4)
    if way == 0:
        envelope.request_principal = random.choice((b"\xff", b"\x00\x00", random.randbytes(20)))
    elif way == 1:
        envelope.client_host_address = random.choice((b"", bytes(3), bytes(17)))
    elif way == 2:
        envelope.request_data = random.choice((data[:9], data[:-9], b"", data[: len(data) // 2]))
    else:
        unknown = ApiVersionsRequest("client", "1")
        envelope.request_data = bytes(ClientConnection("client").request(unknown, 3)[1])[SIZE.size :]
    errors = (E.PRINCIPAL_DESERIALIZATION_FAILURE, E.INVALID_REQUEST, E.UNSUPPORTED_VERSION)
    return _mistake(envelope, *errors)


_KINDS: Final[tuple[Callable[[Random], Mistake], ...]] = (
    _quota,
    _quota,
    _repeated_quota,
    _quota_filter,
    _narrow_quota_filter,
    _credential,
    _credential_list,
    _acl,
    _acl_filter,
    _new_topic,
    _assigned_topic,
    _colliding_topics,
    _topic_configs,
    _topic_configs,
    _growth,
    _deletion,
    _reassignment,
    _election,
    _feature,
    _config,
    _config,
    _valid_config,
    _replacement,
    _description,
    _resource_list,
    _envelope,
    _envelope,
)
