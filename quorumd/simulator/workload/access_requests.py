"""The requests of the administrator of ACLs, quotas and credentials, and of its clients."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from quorumd.ids import METADATA_TOPIC, ZERO_UUID, KafkaUuid
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.endpoint_type import EndpointType
from quorumd.protocol.messages import alter_client_quotas_request as quotas
from quorumd.protocol.messages import alter_partition_reassignments_request as moves
from quorumd.protocol.messages import alter_user_scram_credentials_request as scram
from quorumd.protocol.messages import delete_topics_request as deletions
from quorumd.protocol.messages import elect_leaders_request as elections
from quorumd.protocol.messages import update_features_request as features
from quorumd.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from quorumd.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from quorumd.protocol.messages.describe_acls_request import DescribeAclsRequest
from quorumd.protocol.messages.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from quorumd.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from quorumd.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from quorumd.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers import access
from quorumd.simulator.checkers.access import CLUSTER, CLUSTER_NAME, GROUP, TOPIC, Entry, Question
from quorumd.simulator.workload.config_administrator import describe_request

CLIENTS: Final = (("User:amy", "10.0.10.1"), ("User:amy", "10.0.11.1"), ("User:ben", "10.0.10.2"))
"""Principals, and the hosts from which they connect."""
HOSTS: Final = ("*", "*", "*", "10.0.10.1", "10.0.11.1", "10.0.10.0/24")
GENERATION_MS: Final = 3000.0
"""The interval at which names of topics and groups change, like the names of `ConfigAdministrator`."""
TIMEOUT_MS: Final = 2000
CONFIGS: Final = {
    TOPIC: (int(ConfigResourceType.TOPIC), "flush.ms"),
    GROUP: (int(ConfigResourceType.GROUP), "streams.initial.rebalance.delay.ms"),
}
OPERATIONS: Final = {
    TOPIC: (
        access.CREATE,
        access.ALTER,
        access.DELETE,
        access.DESCRIBE,
        access.DESCRIBE_CONFIGS,
        access.ALTER_CONFIGS,
    ),
    GROUP: (access.DESCRIBE_CONFIGS, access.ALTER_CONFIGS, access.ALTER_CONFIGS),
    CLUSTER: (access.ALTER, access.DESCRIBE, access.DESCRIBE_CONFIGS, access.ALTER_CONFIGS),
}
"""Operations that a client requests."""
GRANTED: Final = {
    TOPIC: (access.ALL, access.READ, access.WRITE, *OPERATIONS[TOPIC]),
    GROUP: (access.ALL, access.READ, *OPERATIONS[GROUP]),
    CLUSTER: (access.ALL, access.CREATE, *OPERATIONS[CLUSTER]),
}
QUOTAS: Final = (("producer_byte_rate", 1), ("consumer_byte_rate", 1), ("controller_mutation_rate", 1e-4))
"""Keys of quotas, and the unit of their values: clients exceed only the last one."""
SCRAM_MECHANISMS: Final = (1, 2)
STRANGER: Final = "User:stranger"
UNKNOWN_NODE: Final = 9998
VARIANTS: Final = 9
"""Requests that need the same right, at most."""


class AccessRequests:
    """Draws requests; values are never used twice."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._values = 5000

    def question(self, client: tuple[str, str], now_ms: float) -> Question:
        """Draw a request of a client."""
        kind = self._random.choice((TOPIC, GROUP, GROUP, CLUSTER))
        operation = self._random.choice(OPERATIONS[kind])
        variant, name = self._random.randrange(VARIANTS), self._name(kind, now_ms)
        if (operation, variant) == (access.DESCRIBE, 1) and kind == TOPIC:
            name = METADATA_TOPIC
        return Question(*client, operation, kind, name, variant)

    def _name(self, kind: int, now_ms: float) -> str:
        if kind == CLUSTER:
            return CLUSTER_NAME
        return f"a{int(now_ms / GENERATION_MS)}.{self._random.randrange(2)}"

    def change(self, known: Sequence[Entry], now_ms: float) -> tuple[Message, int]:
        """Draw a request of the administrator; `known` are the ACLs that it has requested."""
        kinds = (self._create, self._delete, self._quota, self._credential, self._describe)
        (draw,) = self._random.choices(kinds, (8, 4, 2, 2, 3))
        return draw(known, now_ms)

    def _create(self, known: Sequence[Entry], now_ms: float) -> tuple[Message, int]:
        entries = {self._entry(now_ms): None for _ in range(self._random.choice((1, 1, 2, 3)))}
        made = [
            AclCreation(e.kind, e.name, e.pattern, e.principal, e.host, e.operation, e.permission)
            for e in entries
        ]
        return CreateAclsRequest(made), 3

    def _entry(self, now_ms: float) -> Entry:
        random = self._random
        kind = random.choice((TOPIC, TOPIC, GROUP, GROUP, CLUSTER))
        name, pattern = self._name(kind, now_ms), access.LITERAL
        if kind != CLUSTER and random.random() < 0.5:
            length = random.randrange(1, len(name) + 1)
            name, pattern = random.choice((("*", access.LITERAL), (name[:length], access.PREFIXED)))
        host = random.choice(HOSTS) if random.random() < 0.95 else random.choice(("", "10.0.10.0/99"))
        permission = access.ALLOW if random.random() < 0.7 else access.DENY
        return Entry(
            kind,
            name,
            pattern,
            random.choice(access.PRINCIPALS),
            host,
            random.choice(GRANTED[kind]),
            permission,
        )

    def _delete(self, known: Sequence[Entry], now_ms: float) -> tuple[Message, int]:
        return DeleteAclsRequest(
            [self._filter(known, now_ms) for _ in range(self._random.choice((1, 1, 2)))]
        ), 3

    def _filter(self, known: Sequence[Entry], now_ms: float) -> DeleteAclsFilter:
        """Draw a filter with a principal of the model: the ACLs of other principals are not part of the model."""
        random = self._random
        principal = random.choice(access.PRINCIPALS)
        if known and random.random() < 0.7:
            each = random.choice(known)
            host, operation, permission = (
                (None, access.ANY, access.ANY)
                if random.random() < 0.3
                else (each.host or None, each.operation, each.permission)
            )
            return DeleteAclsFilter(
                each.kind, each.name, each.pattern, each.principal, host, operation, permission
            )
        kind = random.choice((access.ANY, TOPIC, GROUP))
        if random.random() < 0.5:
            name = self._name(TOPIC, now_ms)
            return DeleteAclsFilter(kind, name, access.MATCH, principal, None, access.ANY, access.ANY)
        return DeleteAclsFilter(
            kind,
            None,
            random.choice((access.ANY, access.LITERAL, access.PREFIXED)),
            principal,
            random.choice((None, "*", "10.0.10.1")),
            random.choice((access.ANY, access.ALTER_CONFIGS)),
            random.choice((access.ANY, access.DENY)),
        )

    def _quota(self, known: Sequence[Entry], now_ms: float) -> tuple[Message, int]:
        random, wire = self._random, quotas
        entity = [wire.EntityData("user", random.choice(access.USERS))]
        if random.random() < 0.5:
            entity.append(wire.EntityData("client-id", "app"))
        ops = [
            wire.OpData(key, self._value() * unit, random.random() < 0.3)
            for key, unit in random.sample(QUOTAS, random.choice((1, 2)))
        ]
        return wire.AlterClientQuotasRequest([wire.EntryData(entity, ops)], random.random() < 0.1), 1

    def _value(self) -> int:
        self._values += 1
        return self._values

    def _credential(self, known: Sequence[Entry], now_ms: float) -> tuple[Message, int]:
        random, wire = self._random, scram
        user, mechanism = random.choice(access.USERS), random.choice(SCRAM_MECHANISMS)
        if random.random() < 0.3:
            return wire.AlterUserScramCredentialsRequest(
                [wire.ScramCredentialDeletion(user, mechanism)], []
            ), 0
        iterations = self._value() if random.random() < 0.9 else 1
        made = wire.ScramCredentialUpsertion(
            user, mechanism, iterations, random.randbytes(8), random.randbytes(32 * mechanism)
        )
        return wire.AlterUserScramCredentialsRequest([], [made]), 0

    def _describe(self, known: Sequence[Entry], now_ms: float) -> tuple[Message, int]:
        return self._random.choice(LISTS)


LISTS: Final[tuple[tuple[Message, int], ...]] = (
    (DescribeAclsRequest(access.ANY, None, access.ANY, None, None, access.ANY, access.ANY), 3),
    (DescribeClientQuotasRequest([ComponentData("user", 2, None)], False), 1),
    (DescribeUserScramCredentialsRequest(None), 0),
)
"""The requests that list everything that the administrator sets."""

_INVALID_ACL: Final = AclCreation(
    TOPIC, "unknown", access.LITERAL, "without a type", "*", access.READ, access.ALLOW
)
_NOTHING: Final = DeleteAclsFilter(access.ANY, None, access.ANY, STRANGER, None, access.ANY, access.ANY)
CHANGES: Final[tuple[tuple[Message, int], ...]] = (
    (DeleteAclsRequest([_NOTHING]), 3),
    (elections.ElectLeadersRequest(0, [elections.TopicPartitions("unknown", [0])], TIMEOUT_MS), 2),
    (
        moves.AlterPartitionReassignmentsRequest(
            TIMEOUT_MS, True, [moves.ReassignableTopic("unknown", [moves.ReassignablePartition(0, [1])])]
        ),
        1,
    ),
    (features.UpdateFeaturesRequest(TIMEOUT_MS, [features.FeatureUpdateKey("no.version", 1)]), 1),
    (UnregisterBrokerRequest(UNKNOWN_NODE), 0),
    (scram.AlterUserScramCredentialsRequest([scram.ScramCredentialDeletion("stranger", 1)], []), 0),
    (RemoveRaftVoterRequest(None, UNKNOWN_NODE, KafkaUuid(bytes(15) + b"\x01")), 0),
    (CreateAclsRequest([_INVALID_ACL]), 3),
    (DescribeClusterRequest(False, int(EndpointType.CONTROLLER)), 1),
)
"""Requests that change the cluster if it has what they name. The first one changes nothing, and succeeds."""
DESCRIPTIONS: Final[tuple[tuple[Message, int], ...]] = (
    LISTS[0],
    LISTS[2],
    (DescribeQuorumRequest([TopicData(METADATA_TOPIC, [PartitionData(0)])]), 2),
    (ListPartitionReassignmentsRequest(TIMEOUT_MS, None), 0),
)
CONFIG_LISTS: Final[tuple[tuple[Message, int], ...]] = (LISTS[1], (ListConfigResourcesRequest([]), 1))


def access_request(question: Question) -> tuple[Message, int]:
    """Return the request of a client that needs the right in question, and the version of the request."""
    kind, operation, name = question.kind, question.operation, question.name
    if kind == CLUSTER:
        return _cluster_request(question)
    if operation == access.DESCRIBE_CONFIGS:
        return describe_request([(CONFIGS[kind][0], name)]), 4
    if operation == access.ALTER_CONFIGS:
        resource_type, config = CONFIGS[kind]
        configs = [AlterableConfig(config, 0, "1000")]
        return IncrementalAlterConfigsRequest([AlterConfigsResource(resource_type, name, configs)]), 1
    if operation == access.CREATE:
        return CreateTopicsRequest([CreatableTopic(name, 1, 1)], TIMEOUT_MS, True), 7
    if operation == access.ALTER:
        return CreatePartitionsRequest([CreatePartitionsTopic(name, 2, None)], TIMEOUT_MS, True), 3
    if operation == access.DELETE:
        return _deletion(question)
    if question.variant % 2:
        return MetadataRequest([MetadataRequestTopic(ZERO_UUID, name)], False), 12
    return DescribeTopicPartitionsRequest([TopicRequest(name)]), 0


def _deletion(question: Question) -> tuple[Message, int]:
    """Delete a topic that does not exist; every request about an unknown id gets the same error."""
    state, name = deletions.DeleteTopicState, question.name
    if question.variant % 2:
        return deletions.DeleteTopicsRequest([], [name], TIMEOUT_MS), 5
    unknown = KafkaUuid(bytes(15) + bytes((1 + question.variant,)))
    return deletions.DeleteTopicsRequest([state(name), state(None, unknown)], [], TIMEOUT_MS), 6


def _cluster_request(question: Question) -> tuple[Message, int]:
    operation, variant = question.operation, question.variant
    if operation == access.ALTER:
        return CHANGES[variant % len(CHANGES)]
    if operation == access.ALTER_CONFIGS:
        entity = [quotas.EntityData("user", "stranger")]
        ops = [quotas.OpData(QUOTAS[0][0], 1, False)]
        return quotas.AlterClientQuotasRequest([quotas.EntryData(entity, ops)], True), 1
    lists = DESCRIPTIONS if operation == access.DESCRIBE else CONFIG_LISTS
    return lists[variant % len(lists)]
