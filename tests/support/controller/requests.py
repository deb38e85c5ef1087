"""Requests to the controller whose responses have as many fields as possible."""

from __future__ import annotations

from typing import Any

from quorumd.ids import KafkaUuid
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages import (
    alter_client_quotas_request,
    alter_partition_reassignments_request,
    alter_partition_request,
    alter_user_scram_credentials_request,
    assign_replicas_to_dirs_request,
    broker_heartbeat_request,
    broker_registration_request,
    controller_registration_request,
    create_acls_request,
    create_partitions_request,
    create_topics_request,
    delete_acls_request,
    delete_topics_request,
    elect_leaders_request,
    list_partition_reassignments_request,
    update_features_request,
)
from quorumd.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from quorumd.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from quorumd.protocol.wire import Message

TOPIC_ID = KafkaUuid(b"nobody made this")
DIRECTORY = KafkaUuid(b"a data directory")
BROKER = 101
CONTROLLER = 901


def create_topics(version: int) -> Message:
    wire = create_topics_request
    placed = wire.CreatableTopic("placed", -1, -1, [wire.CreatableReplicaAssignment(0, [901])])
    return wire.CreateTopicsRequest([wire.CreatableTopic("made", 1, 1), placed], 60_000, version > 0)


def delete_topics(version: int) -> Message:
    wire = delete_topics_request
    if version < 6:
        return wire.DeleteTopicsRequest(topic_names=["one", "other"])
    return wire.DeleteTopicsRequest([wire.DeleteTopicState("one"), wire.DeleteTopicState(None, TOPIC_ID)])


def create_partitions(version: int) -> Message:
    wire = create_partitions_request
    return wire.CreatePartitionsRequest(
        [
            wire.CreatePartitionsTopic("one", 3, None),
            wire.CreatePartitionsTopic("other", 2, [wire.CreatePartitionsAssignment([901])]),
        ]
    )


def elect_leaders(version: int) -> Message:
    wire = elect_leaders_request
    return wire.ElectLeadersRequest(
        0, [wire.TopicPartitions("one", [0, 1]), wire.TopicPartitions("other", [0])]
    )


def alter_partition_reassignments(version: int) -> Message:
    wire = alter_partition_reassignments_request
    return wire.AlterPartitionReassignmentsRequest(
        topics=[
            wire.ReassignableTopic(
                "one", [wire.ReassignablePartition(0, [1]), wire.ReassignablePartition(1, None)]
            ),
            wire.ReassignableTopic("other", [wire.ReassignablePartition(0, [1, 2])]),
        ]
    )


def list_partition_reassignments(version: int) -> Message:
    wire = list_partition_reassignments_request
    return wire.ListPartitionReassignmentsRequest(topics=[wire.ListPartitionReassignmentsTopics("one", [0])])


def alter_partition(version: int) -> Message:
    wire = alter_partition_request
    partition = wire.PartitionData(
        0,
        1,
        [] if version >= 3 else [BROKER],
        [wire.BrokerState(BROKER, 7)] if version >= 3 else [],
        0,
        3,
    )
    topic = wire.TopicData("" if version >= 2 else "one", TOPIC_ID, [partition])
    return wire.AlterPartitionRequest(BROKER, 7, [topic])


def update_features(version: int) -> Message:
    wire = update_features_request
    return wire.UpdateFeaturesRequest(
        feature_updates=[wire.FeatureUpdateKey("metadata.version", 25)], validate_only=version > 0
    )


def broker_registration(version: int) -> Message:
    wire = broker_registration_request
    return wire.BrokerRegistrationRequest(
        BROKER,
        "another cluster",
        KafkaUuid(b"of one start of "),
        [wire.Listener("PLAINTEXT", "127.0.0.1", 9092, 0)],
        [wire.Feature("metadata.version", 7, 25)],
        None,
        False,
        [DIRECTORY],
    )


def controller_registration(version: int) -> Message:
    """Build a registration without an incarnation, which is rejected."""
    wire = controller_registration_request
    listener = wire.Listener("CONTROLLER", "127.0.0.1", 9093, 0)
    return wire.ControllerRegistrationRequest(CONTROLLER, listeners=[listener])


def broker_heartbeat(version: int) -> Message:
    wire = broker_heartbeat_request
    return wire.BrokerHeartbeatRequest(BROKER, 7, 3, offline_log_dirs=[DIRECTORY] if version >= 1 else [])


def assign_replicas_to_dirs(version: int) -> Message:
    wire = assign_replicas_to_dirs_request
    topic = wire.TopicData(TOPIC_ID, [wire.PartitionData(0)])
    return wire.AssignReplicasToDirsRequest(BROKER, 7, [wire.DirectoryData(DIRECTORY, [topic])])


def create_acls(version: int) -> Message:
    wire = create_acls_request
    return wire.CreateAclsRequest([wire.AclCreation(2, "t", 3, "User:a", "*", 3, 3)] * 2)


def delete_acls(version: int) -> Message:
    wire = delete_acls_request
    return wire.DeleteAclsRequest([wire.DeleteAclsFilter(1, "t", 3, "User:a", None, 1, 1)])


def alter_client_quotas(version: int) -> Message:
    wire = alter_client_quotas_request
    entity = [wire.EntityData("user", "a"), wire.EntityData("client-id", None)]
    return wire.AlterClientQuotasRequest(
        [wire.EntryData(entity, [wire.OpData("producer_byte_rate", 10.0, False)])]
    )


def alter_user_scram_credentials(version: int) -> Message:
    wire = alter_user_scram_credentials_request
    return wire.AlterUserScramCredentialsRequest(
        [wire.ScramCredentialDeletion("a", 1)],
        [wire.ScramCredentialUpsertion("b", 2, 4096, b"salt", b"salted")],
    )


CONTROLLER_REQUESTS: dict[int, Any] = {
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.ELECT_LEADERS: elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
    ApiKey.ALTER_PARTITION: alter_partition,
    ApiKey.UPDATE_FEATURES: update_features,
    ApiKey.BROKER_REGISTRATION: broker_registration,
    ApiKey.BROKER_HEARTBEAT: broker_heartbeat,
    ApiKey.UNREGISTER_BROKER: lambda version: UnregisterBrokerRequest(BROKER),
    ApiKey.CONTROLLER_REGISTRATION: controller_registration,
    ApiKey.UNREGISTER_CONTROLLER: lambda version: UnregisterControllerRequest(CONTROLLER),
    ApiKey.ALLOCATE_PRODUCER_IDS: lambda version: AllocateProducerIdsRequest(BROKER, 7),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: assign_replicas_to_dirs,
    ApiKey.CREATE_ACLS: create_acls,
    ApiKey.DELETE_ACLS: delete_acls,
    ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: alter_user_scram_credentials,
}
