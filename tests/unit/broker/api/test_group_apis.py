"""Requests about groups and offsets, from the wire to the log and back."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from quorumd.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from quorumd.protocol.messages.delete_groups_request import DeleteGroupsRequest
from quorumd.protocol.messages.describe_groups_request import DescribeGroupsRequest
from quorumd.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from quorumd.protocol.messages.heartbeat_request import HeartbeatRequest
from quorumd.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from quorumd.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from quorumd.protocol.messages.list_groups_request import ListGroupsRequest
from quorumd.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from quorumd.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from quorumd.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from quorumd.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from quorumd.security.acls import Operation, ResourceType
from quorumd.security.authorizer import Access
from quorumd.security.authorizer import Client as AccessClient
from tests.support.broker.api_clients import Client, cluster_with_groups
from tests.support.security.rights import allow, authorizer_of


@pytest.fixture
def client() -> Client:
    cluster = cluster_with_groups()
    cluster.create_topic("topic", (1,), (1,))
    client = Client(cluster)
    client.find_coordinator("g")
    cluster.run_for(1_000)
    return client


def topic_id(client: Client) -> KafkaUuid:
    found: KafkaUuid = client.cluster.controller.image.topic_ids["topic"]
    return found


def join(client: Client, version: int | None = None, member_id: str = "") -> Any:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    return client.call(JoinGroupRequest("g", 10_000, 20_000, member_id, None, "consumer", protocols), version)


def stable_member(client: Client) -> str:
    member_id: str = join(client).member_id
    joined = join(client, member_id=member_id)
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, member_id)
    assignment = [SyncGroupRequestAssignment(member_id, b"mine")]
    synced = client.call(SyncGroupRequest("g", 1, member_id, None, "consumer", "range", assignment))
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    return member_id


def commit(client: Client, version: int | None = None, group: str = "g", **by: Any) -> list[int]:
    partitions = [OffsetCommitRequestPartition(number, 10 + number) for number in (0, 1, 2)]
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(partitions=partitions, **by)])
    response = client.call(request, version)
    return [partition.error_code for partition in response.topics[0].partitions]


def test_topic_of_offsets_is_created_when_it_is_first_needed() -> None:
    cluster = cluster_with_groups()
    client = Client(cluster)
    first = client.call(FindCoordinatorRequest("g"), 3)
    assert first.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.find_coordinator("g") == 1
    assert len(cluster.controller.image.topic_by_name("__consumer_offsets").partitions) == 3
    found = client.call(FindCoordinatorRequest("g"), 3)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "broker-1", 9092)
    unsupported = client.call(FindCoordinatorRequest(key_type=2, coordinator_keys=["g:t:0"]))
    assert unsupported.coordinators[0].error_code == ErrorCode.INVALID_REQUEST


def test_missing_brokers_leave_groups_without_coordinator() -> None:
    cluster = cluster_with_groups(replicas=3)
    client = Client(cluster)
    for _ in range(3):
        response = client.call(FindCoordinatorRequest("g"), 3)
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        cluster.run_for(2_000)


def test_member_joins_syncs_and_leaves(client: Client) -> None:
    member_id = stable_member(client)
    assert client.call(HeartbeatRequest("g", 1, member_id)).error_code == 0
    left = client.call(LeaveGroupRequest("g", members=[MemberIdentity(member_id), MemberIdentity("x")]))
    assert [member.error_code for member in left.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]


def test_earliest_versions_of_members(client: Client) -> None:
    joined = join(client, 0)
    assert (joined.error_code, joined.protocol_name) == (0, "range")
    member_id = joined.member_id
    assignment = [SyncGroupRequestAssignment(member_id, b"mine")]
    assert client.call(SyncGroupRequest("g", 1, member_id, assignments=assignment), 0).assignment == b"mine"
    assert client.call(HeartbeatRequest("g", 1, member_id), 0).error_code == 0
    assert client.call(LeaveGroupRequest("g", member_id), 0).error_code == 0
    assert client.call(LeaveGroupRequest("g", member_id), 0).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_sync_needs_the_protocol_from_version_5_on(client: Client) -> None:
    member_id = stable_member(client)
    synced = client.call(SyncGroupRequest("g", 1, member_id), 5)
    assert synced.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", [2, 5, 9])
def test_offsets_are_committed_by_name(client: Client, version: int) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(client, version, name="topic") == [0, 0, unknown]
    assert commit(client, version, name="missing") == [unknown] * 3


def test_offsets_are_committed_and_fetched_by_topic_id(client: Client) -> None:
    id, missing = topic_id(client), KafkaUuid(b"0123456789abcdef")
    assert commit(client, topic_id=id) == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert commit(client, topic_id=missing) == [ErrorCode.UNKNOWN_TOPIC_ID] * 3
    topics = [OffsetFetchRequestTopics(topic_id=id, partition_indexes=[1, 5]),
              OffsetFetchRequestTopics(topic_id=missing, partition_indexes=[0])]  # fmt: skip
    groups = [OffsetFetchRequestGroup("g", topics=topics), OffsetFetchRequestGroup("g", topics=None)]
    chosen, everything = client.call(OffsetFetchRequest(groups=groups)).groups
    found = {
        (topic.topic_id, each.partition_index): each for topic in chosen.topics for each in topic.partitions
    }
    assert found[id, 1].committed_offset == 11
    assert found[id, 5].committed_offset == -1
    assert found[missing, 0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert [each.committed_offset for each in everything.topics[0].partitions] == [10, 11]


@pytest.mark.parametrize("version", [1, 2, 5, 7])
def test_offsets_of_one_group_are_fetched(client: Client, version: int) -> None:
    commit(client, 9, name="topic")
    response = client.call(OffsetFetchRequest("g", [OffsetFetchRequestTopic("topic", [0, 1])]), version)
    assert [each.committed_offset for each in response.topics[0].partitions] == [10, 11]
    assert response.error_code == 0


def test_other_broker_is_not_the_coordinator() -> None:
    cluster = cluster_with_groups((1, 2))
    client = Client(cluster)
    client.find_coordinator("g")
    client.broker_id = 3 - client.broker_id
    member = HeartbeatRequest("g", 1, "m")
    assert client.call(member).error_code == ErrorCode.NOT_COORDINATOR
    response = client.call(OffsetFetchRequest("g", [OffsetFetchRequestTopic("topic", [0])]), 1)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert join(client).error_code == ErrorCode.NOT_COORDINATOR


def test_groups_are_listed_described_and_deleted(client: Client) -> None:
    member_id = stable_member(client)
    listed = client.call(ListGroupsRequest()).groups
    assert [(each.group_id, each.group_state, each.group_type) for each in listed] == [
        ("g", "Stable", "classic")
    ]
    assert client.call(ListGroupsRequest(["empty"])).groups == []
    assert client.call(ListGroupsRequest(["STABLE"], ["classic"])).groups != []
    described, unknown = client.call(DescribeGroupsRequest(["g", "other"])).groups
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert [(each.member_id, each.client_host) for each in described.members] == [(member_id, "/127.0.0.1")]
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    before = client.call(DescribeGroupsRequest(["other"]), 5).groups[0]
    assert (before.error_code, before.group_state) == (0, "Dead")
    deleted = client.call(DeleteGroupsRequest(["g", "other"])).results
    assert [each.error_code for each in deleted] == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
    client.call(LeaveGroupRequest("g", members=[MemberIdentity(member_id)]))
    assert client.call(DeleteGroupsRequest(["g"])).results[0].error_code == 0


def test_offsets_are_deleted(client: Client) -> None:
    commit(client, 9, name="topic")
    topics = [
        OffsetDeleteRequestTopic("topic", [OffsetDeleteRequestPartition(0)]),
        OffsetDeleteRequestTopic("missing", [OffsetDeleteRequestPartition(0)]),
    ]
    response = client.call(OffsetDeleteRequest("g", topics))
    errors = [each.partitions[0].error_code for each in response.topics]
    assert errors == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert client.call(OffsetDeleteRequest("other", topics)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_consumer_group_is_assigned_and_described(client: Client) -> None:
    joined = client.call(
        ConsumerGroupHeartbeatRequest("c", "m", 0, None, None, 30_000, ["topic"], topic_partitions=[])
    )
    assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms) == (0, 1, 5_000)
    assigned = [(each.topic_id, each.partitions) for each in joined.assignment.topic_partitions]
    assert assigned == [(topic_id(client), [0, 1])]
    stayed = client.call(ConsumerGroupHeartbeatRequest("c", "m", 1))
    assert (stayed.error_code, stayed.assignment) == (0, None)
    found, unknown = client.call(ConsumerGroupDescribeRequest(["c", "g"])).groups
    assert (found.group_state, found.group_epoch, found.assignor_name) == ("Stable", 1, "uniform")
    topic = found.members[0].assignment.topic_partitions[0]
    assert (topic.topic_name, topic.partitions) == ("topic", [0, 1])
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_topics_that_match_and_may_be_described_are_assigned(client: Client) -> None:
    cluster = client.cluster
    for name in ("orders-1", "orders-2", "other"):
        cluster.create_topic(name, (1,), (1,))
    cluster.run_for(1_000)
    acls = [allow(Operation.READ, ResourceType.TOPIC, name) for name in ("orders-1", "other", "later")]
    access = Access(authorizer_of(acls), AccessClient("User:alice", "10.0.0.1", "ConsumerGroupHeartbeat"))
    client.use(list(cluster.brokers[1].broker.routes(lambda session, key: access)))
    joining = ConsumerGroupHeartbeatRequest(
        "c", "m", 0, None, None, 30_000, None, "^orders-.*|later", topic_partitions=[]
    )

    def topics(joined: Any) -> list[str]:
        image = cluster.controller.image
        return [image.topics[topic.topic_id].name for topic in joined.assignment.topic_partitions]

    joined = client.call(joining)
    assert (joined.error_code, topics(joined)) == (0, [])
    cluster.run_for(1)
    assert topics(client.call(ConsumerGroupHeartbeatRequest("c", "m", 1))) == ["orders-1"]
    member = client.call(ConsumerGroupDescribeRequest(["c"])).groups[0].members[0]
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == ([], "^orders-.*|later")
    cluster.create_topic("later", (1,), (1,))
    cluster.run_for(10_000)
    client.call(ConsumerGroupHeartbeatRequest("c", "m", 2))
    cluster.run_for(1)
    assert sorted(topics(client.call(ConsumerGroupHeartbeatRequest("c", "m", 2)))) == ["later", "orders-1"]
    refused = client.call(ConsumerGroupHeartbeatRequest("c", "m", 3, subscribed_topic_regex="("))
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_earlier_consumers_get_their_member_id(client: Client) -> None:
    request = ConsumerGroupHeartbeatRequest("c", "", 0, None, None, 30_000, ["topic"], topic_partitions=[])
    assert client.call(request).error_code == ErrorCode.INVALID_REQUEST
    joined = client.call(request, 0)
    assert joined.error_code == 0
    assert joined.member_id.startswith("test-")


def test_groups_survive_the_loss_of_their_coordinator() -> None:
    cluster = cluster_with_groups((1, 2, 3), replicas=3)
    cluster.create_topic("topic", (1, 2, 3), (1, 2, 3))
    client = Client(cluster)
    first = client.find_coordinator("g")
    cluster.run_for(2_000)
    member_id = stable_member(client)
    assert commit(client, 9, "g", name="topic")[:2] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    cluster.brokers[first].kill()
    client.broker_id = next(number for number in (1, 2, 3) if number != first)
    cluster.run_for(15_000)
    assert client.find_coordinator("g") != first
    assert client.call(HeartbeatRequest("g", 1, member_id)).error_code == 0
