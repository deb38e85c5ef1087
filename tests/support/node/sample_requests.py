"""One request per API and version whose response has as many fields as possible."""

from __future__ import annotations

from typing import Any

from quorumd.ids import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID, KafkaUuid
from quorumd.protocol.apis import ApiKey, request_class
from quorumd.protocol.messages import (
    add_raft_voter_request,
    alter_configs_request,
    alter_quorum_request,
    begin_quorum_epoch_request,
    describe_configs_request,
    describe_quorum_request,
    end_quorum_epoch_request,
    fetch_request,
    incremental_alter_configs_request,
    metadata_request,
    update_raft_voter_request,
    vote_request,
)
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.protocol.wire import Message
from tests.support.controller.requests import CONTROLLER_REQUESTS


def full_request(key: int, version: int) -> Message:
    maker = REQUESTS.get(key)
    return maker(version) if maker is not None else request_class(key)()


def describe_quorum(version: int) -> Message:
    wire = describe_quorum_request
    return wire.DescribeQuorumRequest([wire.TopicData(METADATA_TOPIC, [wire.PartitionData(0)])])


def metadata(version: int) -> Message:
    wire = metadata_request
    names = (METADATA_TOPIC, "another")
    return wire.MetadataRequest([wire.MetadataRequestTopic(name=name) for name in names])


def describe_configs(version: int) -> Message:
    wire = describe_configs_request
    named = ((4, "1"), (4, "2"), (4, ""), (2, "t"), (32, "g"), (99, "x"))
    resources = [wire.DescribeConfigsResource(kind, name, None) for kind, name in named]
    return wire.DescribeConfigsRequest(resources, True)


def alter_configs(version: int) -> Message:
    wire = alter_configs_request
    config = wire.AlterableConfig("a", "1")
    return wire.AlterConfigsRequest([wire.AlterConfigsResource(k, "g", [config]) for k in (32, 2, 99)])


def incremental_alter_configs(version: int) -> Message:
    wire = incremental_alter_configs_request
    config = wire.AlterableConfig("a", 0, "1")
    return wire.IncrementalAlterConfigsRequest(
        [wire.AlterConfigsResource(kind, "g", [config]) for kind in (32, 2, 99)]
    )


def fetch(version: int) -> Message:
    wire = fetch_request
    by_id = version >= 13
    topic = wire.FetchTopic(
        "" if by_id else METADATA_TOPIC,
        METADATA_TOPIC_ID if by_id else ZERO_UUID,
        [wire.FetchPartition(0, -1, 0)],
    )
    return wire.FetchRequest(topics=[topic])


def vote(version: int) -> Message:
    wire = vote_request
    return wire.VoteRequest(None, 1, [wire.TopicData(METADATA_TOPIC, [wire.PartitionData(0, 1, 9)])])


def begin_quorum_epoch(version: int) -> Message:
    wire = begin_quorum_epoch_request
    partition = wire.PartitionData(0, ZERO_UUID, 9, 0)
    return wire.BeginQuorumEpochRequest(None, -1, [wire.TopicData(METADATA_TOPIC, [partition])])


def end_quorum_epoch(version: int) -> Message:
    wire = end_quorum_epoch_request
    partition = wire.PartitionData(0, 9, 0)
    return wire.EndQuorumEpochRequest(None, [wire.TopicData(METADATA_TOPIC, [partition])])


STRANGER = KafkaUuid(bytes(15) + b"\x99")


def alter_quorum(version: int) -> Message:
    """Build a request to add an unknown voter, which is rejected."""
    wire = alter_quorum_request
    partition = wire.PartitionData(0, [wire.TargetVoter(901)])
    return wire.AlterQuorumRequest("", [wire.TopicData(METADATA_TOPIC, [partition])])


def add_raft_voter(version: int) -> Message:
    wire = add_raft_voter_request
    return wire.AddRaftVoterRequest(
        None, 100, 901, STRANGER, [wire.Listener("CONTROLLER", "127.0.0.1", 1)], True
    )


def remove_raft_voter(version: int) -> Message:
    return RemoveRaftVoterRequest(None, 901, STRANGER)


def update_raft_voter(version: int) -> Message:
    wire = update_raft_voter_request
    listeners = [wire.Listener("CONTROLLER", "127.0.0.1", 1)]
    return wire.UpdateRaftVoterRequest(None, 1, 901, STRANGER, listeners, wire.KRaftVersionFeature(0, 1))


REQUESTS: dict[int, Any] = {
    ApiKey.DESCRIBE_QUORUM: describe_quorum,
    ApiKey.METADATA: metadata,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    ApiKey.FETCH: fetch,
    ApiKey.VOTE: vote,
    ApiKey.BEGIN_QUORUM_EPOCH: begin_quorum_epoch,
    ApiKey.END_QUORUM_EPOCH: end_quorum_epoch,
    ApiKey.ALTER_QUORUM: alter_quorum,
    ApiKey.ADD_RAFT_VOTER: add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: remove_raft_voter,
    ApiKey.UPDATE_RAFT_VOTER: update_raft_voter,
    **CONTROLLER_REQUESTS,
}
