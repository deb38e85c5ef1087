"""Rights of requests to brokers: without rights nothing, and with some of them what they allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quorumd.broker.api.rights import Close, Extend
from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.node.broker.clients import BROKER_RULES
from quorumd.protocol.apis import APIS, ApiKey, request_class, response_class
from quorumd.protocol.codec import encode
from quorumd.protocol.messages import (
    add_partitions_to_txn_request,
    alter_replica_log_dirs_request,
    consumer_group_describe_response,
    delete_records_request,
    describe_groups_response,
    describe_producers_request,
    describe_transactions_response,
    list_offsets_request,
    offset_commit_request,
    offset_delete_request,
    offset_fetch_request,
    offset_fetch_response,
    offset_for_leader_epoch_request,
    produce_request,
    txn_offset_commit_request,
    write_txn_markers_request,
)
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.security.acls import Acl, Operation, ResourceType
from tests.support.security.rights import allow, check, on_cluster, ruling_of

TOPIC, GROUP, TRANSACTION = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
IDS = {name: KafkaUuid(bytes(15) + bytes([number])) for number, name in enumerate("ab", 1)}
REFUSALS = {29, 30, 31, 53}
FILTERED = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER}


@pytest.fixture
def image() -> ClusterImage:
    image = ClusterImage()
    for name, topic_id in IDS.items():
        image.apply(TopicRecord(name, topic_id), [])
    return image


def topic_of(struct: Any, version: int, ids_since: int, name: str, partitions: list[Any]) -> Any:
    """A topic by name or, from a version on, by id."""
    if version >= ids_since:
        return struct(topic_id=IDS[name], **{_partitions_field(struct): partitions})
    return struct(name, **{_partitions_field(struct): partitions})


def _partitions_field(struct: Any) -> str:
    return next(each for each in struct.FIELDS if "partition" in each)


def produce(version: int, acks: int = -1) -> Message:
    wire = produce_request
    data = [wire.PartitionProduceData(0, b"records")]
    topics = [topic_of(wire.TopicProduceData, version, 13, name, data) for name in "ab"]
    return wire.ProduceRequest(None, acks, 0, topics)


def list_offsets(version: int) -> Message:
    wire = list_offsets_request
    return wire.ListOffsetsRequest(
        -1, 0, [wire.ListOffsetsTopic(name, [wire.ListOffsetsPartition(0)]) for name in "ab"]
    )


def offset_commit(version: int) -> Message:
    wire = offset_commit_request
    partitions = [wire.OffsetCommitRequestPartition(0, 5)]
    topics = [topic_of(wire.OffsetCommitRequestTopic, version, 10, name, partitions) for name in "ab"]
    return wire.OffsetCommitRequest("g", topics=topics)


def txn_offset_commit(version: int) -> Message:
    wire = txn_offset_commit_request
    partitions = [wire.TxnOffsetCommitRequestPartition(0, 5)]
    topics = [topic_of(wire.TxnOffsetCommitRequestTopic, version, 6, name, partitions) for name in "ab"]
    return wire.TxnOffsetCommitRequest("t", "g", topics=topics)


def offset_fetch(version: int) -> Message:
    wire = offset_fetch_request
    if version < 8:
        return wire.OffsetFetchRequest("g", [wire.OffsetFetchRequestTopic(name, [0]) for name in "ab"])
    topics = [topic_of(wire.OffsetFetchRequestTopics, version, 10, name, [0]) for name in "ab"]
    return wire.OffsetFetchRequest(groups=[wire.OffsetFetchRequestGroup("g", topics=topics)])


def offset_delete(version: int) -> Message:
    wire = offset_delete_request
    partitions = [wire.OffsetDeleteRequestPartition(0)]
    return wire.OffsetDeleteRequest("g", [wire.OffsetDeleteRequestTopic(name, partitions) for name in "ab"])


def delete_records(version: int) -> Message:
    wire = delete_records_request
    partitions = [wire.DeleteRecordsPartition(0, 5)]
    return wire.DeleteRecordsRequest([wire.DeleteRecordsTopic(name, partitions) for name in "ab"])


def offset_for_leader_epoch(version: int) -> Message:
    wire = offset_for_leader_epoch_request
    partitions = [wire.OffsetForLeaderPartition(0, 1, 1)]
    topics = [wire.OffsetForLeaderTopic(name, partitions) for name in "ab"]
    return wire.OffsetForLeaderEpochRequest(-2, topics)


def add_partitions(version: int) -> Message:
    wire = add_partitions_to_txn_request
    topics = [wire.AddPartitionsToTxnTopic(name, [0]) for name in "ab"]
    if version >= 4:
        return wire.AddPartitionsToTxnRequest([wire.AddPartitionsToTxnTransaction("t", 1, 1, False, topics)])
    return wire.AddPartitionsToTxnRequest(v3_and_below_transactional_id="t", v3_and_below_topics=topics)


def write_txn_markers(version: int) -> Message:
    wire = write_txn_markers_request
    topics = [wire.WritableTxnMarkerTopic(name, [0]) for name in "ab"]
    return wire.WriteTxnMarkersRequest([wire.WritableTxnMarker(1, 1, True, topics)])


def describe_producers(version: int) -> Message:
    wire = describe_producers_request
    return wire.DescribeProducersRequest([wire.TopicRequest(name, [0]) for name in "ab"])


def alter_replica_log_dirs(version: int) -> Message:
    wire = alter_replica_log_dirs_request
    topics = [wire.AlterReplicaLogDirTopic(name, [0]) for name in "ab"]
    return wire.AlterReplicaLogDirsRequest([wire.AlterReplicaLogDir("/data", topics)])


def with_fields(key: int, /, **fields: object) -> Callable[[int], Message]:
    def make(version: int) -> Message:
        message: Any = request_class(key)()
        for name, value in fields.items():
            if name in message.FIELDS:
                setattr(message, name, value)
        made: Message = message
        return made

    return make


def find_coordinator(version: int) -> Message:
    key = ApiKey.FIND_COORDINATOR
    if version >= 4:
        return with_fields(key, coordinator_keys=["g", "h"])(version)
    return with_fields(key, key="g")(version)


REQUESTS: dict[int, Callable[[int], Message]] = {
    ApiKey.PRODUCE: produce,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.OFFSET_DELETE: offset_delete,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions,
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.DESCRIBE_GROUPS: with_fields(ApiKey.DESCRIBE_GROUPS, groups=["g", "h"]),
    ApiKey.DELETE_GROUPS: with_fields(ApiKey.DELETE_GROUPS, groups_names=["g", "g", "h"]),
    ApiKey.CONSUMER_GROUP_DESCRIBE: with_fields(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=["g", "h"]),
    ApiKey.DESCRIBE_TRANSACTIONS: with_fields(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=["t"]),
}
for _key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.ADD_OFFSETS_TO_TXN,
             ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID, ApiKey.CONSUMER_GROUP_HEARTBEAT):  # fmt: skip
    REQUESTS[_key] = with_fields(_key, group_id="g", transactional_id="t")


def request_of(key: int, version: int) -> Message:
    return REQUESTS.get(key, with_fields(key))(version)


def finish(ruling: object, key: int) -> Any:
    """The response after a ruling, as if the handler had an empty one."""
    if isinstance(ruling, Message):
        return ruling
    response = response_class(key)()
    if isinstance(ruling, Extend):
        ruling.hook(response)
    return response


VERSIONS = [
    (key, version)
    for key in BROKER_RULES
    for version in range(APIS[key].min_version, APIS[key].max_version + 1)
]


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=str)
def test_client_without_rights_is_refused(key: int, version: int, image: ClusterImage) -> None:
    ruling = ruling_of(BROKER_RULES[key], check(request_of(key, version), version, image=image))
    response = finish(ruling, key)
    encode(response, version)
    found = {error for error, _ in errors_in(response)}
    assert found <= REFUSALS
    if key not in FILTERED and key != ApiKey.DESCRIBE_TOPIC_PARTITIONS:
        assert found or (key == ApiKey.ADD_PARTITIONS_TO_TXN and isinstance(ruling, Message))
        assert not isinstance(ruling, Extend) or ruling.is_complete or version < 8


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=str)
def test_client_with_all_rights_is_served(key: int, version: int, image: ClusterImage) -> None:
    everything = [Acl(kind, 3, "*", "User:alice", "*", Operation.ALL, 3) for kind in ResourceType]
    request = request_of(key, version)
    checked = check(request, version, everything, image)
    ruling = ruling_of(BROKER_RULES[key], checked)
    assert ruling is None or (isinstance(ruling, Extend) and not ruling.is_complete)
    assert encode(checked.request.message, version) == encode(request, version)
    assert not errors_in(finish(ruling, key))


@pytest.mark.parametrize(
    ("key", "operation", "others"),
    [
        (ApiKey.PRODUCE, Operation.WRITE, []),
        (ApiKey.LIST_OFFSETS, Operation.DESCRIBE, []),
        (ApiKey.OFFSET_COMMIT, Operation.READ, [allow(Operation.READ, GROUP, "g")]),
        (
            ApiKey.TXN_OFFSET_COMMIT,
            Operation.READ,
            [allow(Operation.WRITE, TRANSACTION, "t"), allow(Operation.READ, GROUP, "g")],
        ),
        (ApiKey.OFFSET_DELETE, Operation.READ, [allow(Operation.DELETE, GROUP, "g")]),
        (ApiKey.DELETE_RECORDS, Operation.DELETE, []),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, Operation.DESCRIBE, []),
        (ApiKey.DESCRIBE_PRODUCERS, Operation.READ, []),
    ],
)
def test_topics_without_the_right_are_refused_one_by_one(
    image: ClusterImage, key: int, operation: Operation, others: list[Acl]
) -> None:
    for version in range(APIS[key].min_version, APIS[key].max_version + 1):
        checked = check(request_of(key, version), version, [allow(operation, TOPIC, "a"), *others], image)
        ruling = ruling_of(BROKER_RULES[key], checked)
        assert isinstance(ruling, Extend)
        assert not ruling.is_complete
        response = finish(ruling, key)
        encode(response, version)
        assert [error for error, _ in errors_in(response)] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        left: Any = next(value for value in map(checked.message.__getattribute__, checked.message.FIELDS)
                         if isinstance(value, list))  # fmt: skip
        assert [checked.topic_name(topic) for topic in left] == ["a"]


def test_unknown_topic_ids_are_left_to_the_handler(image: ClusterImage) -> None:
    message: Any = produce(13)
    message.topic_data[0].topic_id = KafkaUuid(bytes(15) + b"\x63")
    checked = check(message, 13, [allow(Operation.WRITE, TOPIC, "b")], image)
    assert ruling_of(BROKER_RULES[ApiKey.PRODUCE], checked) is None


def test_refused_produce_without_acks_closes_the_connection(image: ClusterImage) -> None:
    rule = BROKER_RULES[ApiKey.PRODUCE]
    assert isinstance(rule(check(produce(9, acks=0), 9, (), image)), Close)
    both = [allow(Operation.WRITE, TOPIC, name) for name in "ab"]
    assert rule(check(produce(9, acks=0), 9, both, image)) is None


def test_transactional_producers_need_their_transactional_id(image: ClusterImage) -> None:
    message: Any = produce(9)
    message.transactional_id = "t"
    both = [allow(Operation.WRITE, TOPIC, name) for name in "ab"]
    response: Any = ruling_of(BROKER_RULES[ApiKey.PRODUCE], check(message, 9, both, image))
    assert {error for error, _ in errors_in(response)} == {53}
    ruled = ruling_of(
        BROKER_RULES[ApiKey.PRODUCE],
        check(message, 9, [*both, allow(Operation.WRITE, TRANSACTION, "t")], image),
    )
    assert ruled is None


@pytest.mark.parametrize("version", [7, 9, 10])
def test_offsets_of_all_topics_are_filtered(image: ClusterImage, version: int) -> None:
    acls = [allow(Operation.DESCRIBE, GROUP, "g"), allow(Operation.READ, TOPIC, "a")]
    request, wire = offset_fetch_request, offset_fetch_response
    if version < 8:
        message = request.OffsetFetchRequest("g", None)
        response: Any = wire.OffsetFetchResponse(
            topics=[wire.OffsetFetchResponseTopic(name) for name in "ab"]
        )
    else:
        message = request.OffsetFetchRequest(groups=[request.OffsetFetchRequestGroup("g", topics=None)])
        topics = [topic_of(wire.OffsetFetchResponseTopics, version, 10, name, []) for name in "ab"]
        failed = wire.OffsetFetchResponseGroup("h", [], 16)
        response = wire.OffsetFetchResponse(groups=[wire.OffsetFetchResponseGroup("g", topics), failed])
    checked = check(message, version, acls, image)
    ruling = ruling_of(BROKER_RULES[ApiKey.OFFSET_FETCH], checked)
    assert isinstance(ruling, Extend)
    ruling.hook(response)
    left = response.topics if version < 8 else response.groups[0].topics
    assert [checked.topic_name(topic) for topic in left] == ["a"]


def test_offsets_are_fetched_of_topics_with_describe(image: ClusterImage) -> None:
    acls = [allow(Operation.READ, GROUP, "g"), allow(Operation.READ, TOPIC, "a")]
    for version in (7, 9, 10):
        ruling = ruling_of(
            BROKER_RULES[ApiKey.OFFSET_FETCH], check(offset_fetch(version), version, acls, image)
        )
        wire = offset_fetch_response
        response = wire.OffsetFetchResponse(groups=[wire.OffsetFetchResponseGroup("g")])
        assert isinstance(ruling, Extend)
        ruling.hook(response)
        assert [error for error, _ in errors_in(response)] == [29]


def test_authorized_operations_of_groups() -> None:
    message: Any = request_of(ApiKey.DESCRIBE_GROUPS, 5)
    message.include_authorized_operations = True
    ruling = ruling_of(
        BROKER_RULES[ApiKey.DESCRIBE_GROUPS], check(message, 5, [allow(Operation.READ, GROUP, "g")])
    )
    response = describe_groups_response.DescribeGroupsResponse(
        groups=[describe_groups_response.DescribedGroup(0, None, "g")]
    )
    assert isinstance(ruling, Extend)
    ruling.hook(response)
    found = {group.group_id: (group.error_code, group.authorized_operations) for group in response.groups}
    assert found["g"] == (0, 1 << Operation.READ | 1 << Operation.DESCRIBE)
    assert found["h"][0] == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_consumer_groups_with_hidden_topics_are_hidden() -> None:
    wire = consumer_group_describe_response
    ruling = ruling_of(
        BROKER_RULES[ApiKey.CONSUMER_GROUP_DESCRIBE],
        check(
            request_of(ApiKey.CONSUMER_GROUP_DESCRIBE, 1),
            1,
            [allow(Operation.READ, GROUP, name) for name in "gh"] + [allow(Operation.READ, TOPIC, "a")],
        ),
    )
    groups = []
    for group, topic in (("g", "a"), ("h", "b")):
        assigned = wire.Assignment([wire.TopicPartitions(IDS[topic], topic, [0])])
        groups.append(wire.DescribedGroup(0, None, group, members=[wire.Member("m", assignment=assigned)]))
    response = wire.ConsumerGroupDescribeResponse(groups=groups)
    assert isinstance(ruling, Extend)
    ruling.hook(response)
    assert [(each.group_id, each.error_code) for each in response.groups] == [("g", 0), ("h", 29)]


def test_transactions_are_described_without_hidden_topics(image: ClusterImage) -> None:
    wire = describe_transactions_response
    acls = [allow(Operation.DESCRIBE, TRANSACTION, "t"), allow(Operation.READ, TOPIC, "a")]
    ruling = ruling_of(
        BROKER_RULES[ApiKey.DESCRIBE_TRANSACTIONS],
        check(request_of(ApiKey.DESCRIBE_TRANSACTIONS, 0), 0, acls, image),
    )
    state = wire.TransactionState(0, "t", topics=[wire.TopicData(name, [0]) for name in "ab"])
    response = wire.DescribeTransactionsResponse(transaction_states=[state])
    assert isinstance(ruling, Extend)
    ruling.hook(response)
    assert [topic.topic for topic in response.transaction_states[0].topics] == ["a"]


def test_partitions_join_a_transaction_all_or_none(image: ClusterImage) -> None:
    acls = [allow(Operation.WRITE, TRANSACTION, "t"), allow(Operation.WRITE, TOPIC, "a")]
    response: Any = ruling_of(
        BROKER_RULES[ApiKey.ADD_PARTITIONS_TO_TXN], check(add_partitions(3), 3, acls, image)
    )
    errors = {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in response.results_by_topic_v3_and_below
    }
    assert errors == {"a": ErrorCode.OPERATION_NOT_ATTEMPTED, "b": ErrorCode.TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.parametrize(
    ("acls", "error"),
    [
        ([], 31),
        ([on_cluster(Operation.IDEMPOTENT_WRITE)], 0),
        ([allow(Operation.WRITE, TOPIC, "any")], 0),
    ],
)
def test_idempotent_producers_need_some_write(acls: list[Acl], error: int) -> None:
    ruling = ruling_of(
        BROKER_RULES[ApiKey.INIT_PRODUCER_ID],
        check(with_fields(ApiKey.INIT_PRODUCER_ID, transactional_id=None)(5), 5, acls),
    )
    assert finish(ruling, ApiKey.INIT_PRODUCER_ID).error_code == error


def test_consumers_subscribe_to_topics_with_describe() -> None:
    message = with_fields(ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id="g", subscribed_topic_names=["a", "b"])(0)
    acls = [allow(Operation.READ, GROUP, "g"), allow(Operation.READ, TOPIC, "a")]
    response: Any = ruling_of(BROKER_RULES[ApiKey.CONSUMER_GROUP_HEARTBEAT], check(message, 0, acls))
    assert response.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    acls.append(allow(Operation.DESCRIBE, TOPIC, "b"))
    assert ruling_of(BROKER_RULES[ApiKey.CONSUMER_GROUP_HEARTBEAT], check(message, 0, acls)) is None


def test_members_of_the_cluster_need_no_right_to_topics(image: ClusterImage) -> None:
    acls = [on_cluster(Operation.CLUSTER_ACTION)]
    for key in (ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.WRITE_TXN_MARKERS):
        assert ruling_of(BROKER_RULES[key], check(request_of(key, 2), 2, acls, image)) is None
    assert (
        ruling_of(BROKER_RULES[ApiKey.ADD_PARTITIONS_TO_TXN], check(add_partitions(5), 5, acls, image))
        is None
    )


def test_coordinators_are_found_one_by_one() -> None:
    ruling = ruling_of(
        BROKER_RULES[ApiKey.FIND_COORDINATOR],
        check(find_coordinator(4), 4, [allow(Operation.READ, GROUP, "g")]),
    )
    response = finish(ruling, ApiKey.FIND_COORDINATOR)
    assert [(each.key, each.error_code) for each in response.coordinators] == [("h", 30)]
    transaction: Any = find_coordinator(3)
    transaction.key_type = 1
    refused: Any = ruling_of(BROKER_RULES[ApiKey.FIND_COORDINATOR], check(transaction, 3))
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
