"""The ACL operations that requests about groups and transactions require; see `rights`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from quorumd.broker.api.find_coordinator import GROUP_KEY
from quorumd.broker.api.rights import DENIED_TOPIC, Check, Extend, Rule, Ruling, Steps
from quorumd.errors import ErrorCode
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages import (
    add_partitions_to_txn_response,
    consumer_group_describe_response,
    delete_groups_response,
    describe_groups_response,
    describe_transactions_response,
    find_coordinator_response,
    offset_commit_response,
    offset_delete_response,
    offset_fetch_response,
    txn_offset_commit_response,
    write_txn_markers_response,
)
from quorumd.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from quorumd.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from quorumd.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from quorumd.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from quorumd.protocol.messages.delete_groups_request import DeleteGroupsRequest
from quorumd.protocol.messages.describe_groups_request import DescribeGroupsRequest
from quorumd.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from quorumd.protocol.messages.end_txn_request import EndTxnRequest
from quorumd.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from quorumd.protocol.messages.heartbeat_request import HeartbeatRequest
from quorumd.protocol.messages.init_producer_id_request import InitProducerIdRequest
from quorumd.protocol.messages.join_group_request import JoinGroupRequest
from quorumd.protocol.messages.leave_group_request import LeaveGroupRequest
from quorumd.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from quorumd.protocol.messages.offset_delete_request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from quorumd.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from quorumd.protocol.messages.sync_group_request import SyncGroupRequest
from quorumd.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
)
from quorumd.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from quorumd.protocol.wire import Message
from quorumd.security.acls import Operation, ResourceType

DENIED_GROUP: Final = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
DENIED_TRANSACTION: Final = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
BROKERS_ADD_SINCE: Final = 4
"""The first version of AddPartitionsToTxn that only brokers send."""
GROUPS_SINCE: Final = 8
"""The first version of OffsetFetch with several groups."""

GroupMemberRequest = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | ConsumerGroupHeartbeatRequest
    | AddOffsetsToTxnRequest
)
"""Requests for one group, with one error in the response."""


def _may(check: Check[Message], operation: int, group: str) -> bool:
    return check.access.allows(operation, ResourceType.GROUP, group)


def _may_transact(check: Check[Message], operation: int, transactional_id: str) -> bool:
    return check.access.allows(operation, ResourceType.TRANSACTIONAL_ID, transactional_id)


def member_of_group(check: Check[GroupMemberRequest]) -> Ruling:
    """READ on the group."""
    if _may(check, Operation.READ, check.message.group_id):
        return None
    return check.top_level(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def consumer_group_heartbeat(check: Check[ConsumerGroupHeartbeatRequest]) -> Steps:
    """READ on the group, DESCRIBE on the topics to which the member subscribes by name."""
    refused = member_of_group(check)
    if refused is not None:
        return refused
    for name in check.message.subscribed_topic_names or ():
        if not check.access.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            return check.top_level(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        yield 1
    return None


def offset_commit(check: Check[OffsetCommitRequest]) -> Ruling:
    """READ on the group and on the topics."""
    message, wire = check.message, offset_commit_response

    def refuse(
        topic: OffsetCommitRequestTopic, error: int = DENIED_TOPIC
    ) -> offset_commit_response.OffsetCommitResponseTopic:
        return wire.OffsetCommitResponseTopic(
            topic.name,
            topic.topic_id,
            [wire.OffsetCommitResponsePartition(each.partition_index, error) for each in topic.partitions],
        )

    if not _may(check, Operation.READ, message.group_id):
        return wire.OffsetCommitResponse(0, [refuse(topic, DENIED_GROUP) for topic in message.topics])
    return check.filter(message.topics, Operation.READ, "topics", refuse)


def txn_offset_commit(check: Check[TxnOffsetCommitRequest]) -> Ruling:
    """WRITE on the transactional id, READ on the group and on the topics."""
    message, wire = check.message, txn_offset_commit_response

    def refuse(
        topic: TxnOffsetCommitRequestTopic, error: int = DENIED_TOPIC
    ) -> txn_offset_commit_response.TxnOffsetCommitResponseTopic:
        return wire.TxnOffsetCommitResponseTopic(
            topic.name,
            topic.topic_id,
            [wire.TxnOffsetCommitResponsePartition(each.partition_index, error) for each in topic.partitions],
        )

    error = 0
    if not _may_transact(check, Operation.WRITE, message.transactional_id):
        error = DENIED_TRANSACTION
    elif not _may(check, Operation.READ, message.group_id):
        error = DENIED_GROUP
    if error:
        return wire.TxnOffsetCommitResponse(0, [refuse(topic, error) for topic in message.topics])
    return check.filter(message.topics, Operation.READ, "topics", refuse)


def offset_fetch(check: Check[OffsetFetchRequest]) -> Ruling:
    """DESCRIBE on the groups and on the topics. A request for all topics gets those with DESCRIBE."""
    message, wire = check.message, offset_fetch_response
    if check.request.api_version < GROUPS_SINCE:
        return _offset_fetch_of_one(check)
    kept: list[OffsetFetchRequestGroup] = []
    refused: list[OffsetFetchRequestGroup] = []
    for group in message.groups:
        (kept if _may(check, Operation.DESCRIBE, group.group_id) else refused).append(group)
    message.groups = kept
    all_topics = {group.group_id for group in kept if group.topics is None}
    denied: dict[str, list[offset_fetch_response.OffsetFetchResponseTopics]] = {}
    for group in kept:
        if group.topics is not None:
            group.topics, others = check.split(group.topics, Operation.DESCRIBE)
            denied[group.group_id] = [_refused_offsets(topic) for topic in others]
    added = [wire.OffsetFetchResponseGroup(group.group_id, [], DENIED_GROUP) for group in refused]

    def hook(response: offset_fetch_response.OffsetFetchResponse) -> None:
        for group in response.groups:
            if group.error_code:
                continue
            if group.group_id in all_topics:
                group.topics, _ = check.split(group.topics, Operation.DESCRIBE)
            group.topics.extend(denied.get(group.group_id, ()))
        response.groups.extend(added)

    return Extend(hook, not kept)


def _refused_offsets(topic: OffsetFetchRequestTopics) -> offset_fetch_response.OffsetFetchResponseTopics:
    wire = offset_fetch_response
    return wire.OffsetFetchResponseTopics(
        topic.name,
        topic.topic_id,
        [
            wire.OffsetFetchResponsePartitions(number, -1, -1, "", DENIED_TOPIC)
            for number in topic.partition_indexes
        ],
    )


def _offset_fetch_of_one(check: Check[OffsetFetchRequest]) -> Ruling:
    """Check a version with one group, whose error is at the top level since version 2, in partitions before."""
    message, wire = check.message, offset_fetch_response

    def refuse(
        topic: OffsetFetchRequestTopic, error: int = DENIED_TOPIC
    ) -> offset_fetch_response.OffsetFetchResponseTopic:
        return wire.OffsetFetchResponseTopic(
            topic.name,
            [
                wire.OffsetFetchResponsePartition(number, -1, -1, "", error)
                for number in topic.partition_indexes
            ],
        )

    if not _may(check, Operation.DESCRIBE, message.group_id):
        topics = [refuse(topic, DENIED_GROUP) for topic in message.topics or ()]
        return wire.OffsetFetchResponse(0, topics, DENIED_GROUP)
    if message.topics is not None:
        kept, refused = check.split(message.topics, Operation.DESCRIBE)
        message.topics = kept
        added = [refuse(topic) for topic in refused]
        return Extend(lambda response: response.topics.extend(added)) if added else None

    def hook(response: offset_fetch_response.OffsetFetchResponse) -> None:
        response.topics, _ = check.split(response.topics, Operation.DESCRIBE)

    return Extend(hook)


def offset_delete(check: Check[OffsetDeleteRequest]) -> Ruling:
    """DELETE on the group, READ on the topics."""
    message, wire = check.message, offset_delete_response
    if not _may(check, Operation.DELETE, message.group_id):
        return check.top_level(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def refuse(topic: OffsetDeleteRequestTopic) -> offset_delete_response.OffsetDeleteResponseTopic:
        return wire.OffsetDeleteResponseTopic(
            topic.name,
            [
                wire.OffsetDeleteResponsePartition(each.partition_index, DENIED_TOPIC)
                for each in topic.partitions
            ],
        )

    return check.filter(message.topics, Operation.READ, "topics", refuse)


def find_coordinator(check: Check[FindCoordinatorRequest]) -> Ruling:
    """DESCRIBE on the groups or the transactional ids."""
    message, wire = check.message, find_coordinator_response
    is_group = message.key_type == GROUP_KEY
    kind = ResourceType.GROUP if is_group else ResourceType.TRANSACTIONAL_ID
    error = DENIED_GROUP if is_group else DENIED_TRANSACTION
    if check.request.api_version < 4:
        if check.access.allows(Operation.DESCRIBE, kind, message.key):
            return None
        return wire.FindCoordinatorResponse(0, error, ErrorCode(error).name, -1, "", -1)
    keys = message.coordinator_keys
    allowed = check.access.allowed(Operation.DESCRIBE, kind, keys)
    if len(allowed) == len(set(keys)):
        return None
    message.coordinator_keys = [key for key in keys if key in allowed]
    added = [
        wire.Coordinator(key, -1, "", -1, error, ErrorCode(error).name) for key in keys if key not in allowed
    ]
    return Extend(lambda response: response.coordinators.extend(added), not message.coordinator_keys)


def describe_groups(check: Check[DescribeGroupsRequest]) -> Ruling:
    """DESCRIBE on the groups."""
    message, wire = check.message, describe_groups_response
    allowed = check.access.allowed(Operation.DESCRIBE, ResourceType.GROUP, message.groups)
    added = [
        wire.DescribedGroup(DENIED_GROUP, None, group) for group in message.groups if group not in allowed
    ]
    message.groups = [group for group in message.groups if group in allowed]

    def hook(response: describe_groups_response.DescribeGroupsResponse) -> None:
        _add_group_operations(check, response.groups)
        response.groups.extend(added)

    return Extend(hook, not message.groups)


def _add_group_operations(
    check: Check[DescribeGroupsRequest | ConsumerGroupDescribeRequest],
    groups: Iterable[
        describe_groups_response.DescribedGroup | consumer_group_describe_response.DescribedGroup
    ],
) -> None:
    """Set the authorized operations of the groups in a response, if they are requested."""
    if check.message.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = check.access.operations(ResourceType.GROUP, group.group_id)


def consumer_group_describe(check: Check[ConsumerGroupDescribeRequest]) -> Ruling:
    """DESCRIBE on the groups and on the topics that their members are assigned."""
    message, wire = check.message, consumer_group_describe_response
    allowed = check.access.allowed(Operation.DESCRIBE, ResourceType.GROUP, message.group_ids)
    added = [
        wire.DescribedGroup(DENIED_GROUP, None, group) for group in message.group_ids if group not in allowed
    ]
    message.group_ids = [group for group in message.group_ids if group in allowed]

    def describe(
        group: consumer_group_describe_response.DescribedGroup,
    ) -> consumer_group_describe_response.DescribedGroup:
        names = {
            topic.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for topic in assignment.topic_partitions
        }
        if len(check.access.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)) == len(names):
            return group
        return wire.DescribedGroup(
            DENIED_TOPIC, "the client may not describe every topic of the group", group.group_id
        )

    def hook(response: consumer_group_describe_response.ConsumerGroupDescribeResponse) -> None:
        _add_group_operations(check, response.groups)
        response.groups = [*map(describe, response.groups), *added]

    return Extend(hook, not message.group_ids)


def delete_groups(check: Check[DeleteGroupsRequest]) -> Ruling:
    """DELETE on the groups."""
    message, wire = check.message, delete_groups_response
    allowed = check.access.allowed(Operation.DELETE, ResourceType.GROUP, message.groups_names)
    added = [
        wire.DeletableGroupResult(group, DENIED_GROUP)
        for group in dict.fromkeys(message.groups_names)
        if group not in allowed
    ]
    if not added:
        return None
    message.groups_names = [group for group in message.groups_names if group in allowed]
    return Extend(lambda response: response.results.extend(added), not message.groups_names)


def init_producer_id(check: Check[InitProducerIdRequest]) -> Ruling:
    """WRITE on the transactional id; without one, IDEMPOTENT_WRITE on the cluster or WRITE on any topic."""
    transactional_id, access = check.message.transactional_id, check.access
    if transactional_id is not None:
        if _may_transact(check, Operation.WRITE, transactional_id):
            return None
        return check.top_level(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if access.allows_cluster(Operation.IDEMPOTENT_WRITE, logs_denied=False) or access.allows_any(
        Operation.WRITE, ResourceType.TOPIC
    ):
        return None
    return check.top_level(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def add_partitions_to_txn(check: Check[AddPartitionsToTxnRequest]) -> Ruling:
    """CLUSTER_ACTION for brokers, WRITE on the transactional id and on the topics for clients."""
    message, wire = check.message, add_partitions_to_txn_response
    if check.request.api_version >= BROKERS_ADD_SINCE:
        if check.access.allows_cluster(Operation.CLUSTER_ACTION):
            return None
        return check.top_level(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def refuse(
        topic: AddPartitionsToTxnTopic, error: int
    ) -> add_partitions_to_txn_response.AddPartitionsToTxnTopicResult:
        results = [wire.AddPartitionsToTxnPartitionResult(number, error) for number in topic.partitions]
        return wire.AddPartitionsToTxnTopicResult(topic.name, results)

    topics = message.v3_and_below_topics
    if not _may_transact(check, Operation.WRITE, message.v3_and_below_transactional_id):
        results = [refuse(topic, DENIED_TRANSACTION) for topic in topics]
        return wire.AddPartitionsToTxnResponse(0, 0, [], results)
    kept, refused = check.split(topics, Operation.WRITE)
    if not refused:
        return None
    # Either all partitions are added to the transaction or none.
    results = [refuse(topic, DENIED_TOPIC) for topic in refused]
    results += [refuse(topic, int(ErrorCode.OPERATION_NOT_ATTEMPTED)) for topic in kept]
    return wire.AddPartitionsToTxnResponse(0, 0, [], results)


def add_offsets_to_txn(check: Check[AddOffsetsToTxnRequest]) -> Ruling:
    """WRITE on the transactional id, READ on the group."""
    if not _may_transact(check, Operation.WRITE, check.message.transactional_id):
        return check.top_level(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return member_of_group(check)


def end_txn(check: Check[EndTxnRequest]) -> Ruling:
    """WRITE on the transactional id."""
    if _may_transact(check, Operation.WRITE, check.message.transactional_id):
        return None
    return check.top_level(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def write_txn_markers(check: Check[WriteTxnMarkersRequest]) -> Ruling:
    """ALTER or CLUSTER_ACTION on the cluster."""
    access, wire = check.access, write_txn_markers_response
    if access.allows_cluster(Operation.ALTER, logs_denied=False) or access.allows_cluster(
        Operation.CLUSTER_ACTION
    ):
        return None
    error = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return wire.WriteTxnMarkersResponse(
        [
            wire.WritableTxnMarkerResult(
                marker.producer_id,
                [
                    wire.WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            wire.WritableTxnMarkerPartitionResult(number, error)
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in check.message.markers
        ]
    )


def describe_transactions(check: Check[DescribeTransactionsRequest]) -> Ruling:
    """DESCRIBE on the transactional ids and on the topics in the response."""
    message, wire = check.message, describe_transactions_response
    ids = message.transactional_ids
    allowed = check.access.allowed(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ids)
    added = [wire.TransactionState(DENIED_TRANSACTION, each) for each in ids if each not in allowed]
    message.transactional_ids = [each for each in ids if each in allowed]

    def hook(response: describe_transactions_response.DescribeTransactionsResponse) -> None:
        for state in response.transaction_states:
            state.topics, _ = check.split(state.topics, Operation.DESCRIBE)
        response.transaction_states.extend(added)

    return Extend(hook, not message.transactional_ids)


GROUP_RULES: Final[Mapping[int, Rule]] = {
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.OFFSET_DELETE: offset_delete,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.JOIN_GROUP: member_of_group,
    ApiKey.SYNC_GROUP: member_of_group,
    ApiKey.HEARTBEAT: member_of_group,
    ApiKey.LEAVE_GROUP: member_of_group,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit,
    ApiKey.END_TXN: end_txn,
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
}
"""The rules by API key. ListGroups and ListTransactions check the groups and transactional ids that they list."""
