"""Every API in every version that a node says it speaks gets an answer, from the leader and from a follower."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.ids import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID
from quorumd.protocol.apis import APIS, ApiKey, request_class
from quorumd.protocol.messages import (
    alter_configs_request,
    api_versions_request,
    begin_quorum_epoch_request,
    describe_configs_request,
    describe_quorum_request,
    end_quorum_epoch_request,
    fetch_request,
    incremental_alter_configs_request,
    metadata_request,
    vote_request,
)
from quorumd.protocol.wire import Message
from tests.support.nodes import Cluster

NOT_SPOKEN = (ApiKey.FETCH_SNAPSHOT, ApiKey.ALTER_QUORUM)
"""Schemas that are there for later."""
VERSIONS = [
    (key, version)
    for key, api in APIS.items()
    if key not in NOT_SPOKEN
    for version in range(api.min_version, api.max_version + 1)
]


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    cluster = Cluster(3).start()
    cluster.leader()
    cluster.run(1000)
    return cluster


@pytest.mark.parametrize("asked", ["leader", "follower"])
@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=lambda value: str(value))
def test_every_version_is_answered(cluster: Cluster, asked: str, key: int, version: int) -> None:
    node = cluster.leader() if asked == "leader" else cluster.follower()
    client = cluster.client(node.settings.node_id)
    answer = client.ask(request(key, version), version)
    assert key == answer.API_KEY
    assert not client.is_closed


@pytest.mark.parametrize(
    ("software", "is_told_of_private_apis"), [("quorumd", True), ("kafka-python", False)]
)
def test_what_is_told_in_api_versions_is_what_is_answered(
    cluster: Cluster, software: str, is_told_of_private_apis: bool
) -> None:
    answer = cluster.client().ask(api_versions_request.ApiVersionsRequest(software, "1"), 4)
    told = {
        (entry.api_key, version)
        for entry in answer.api_keys
        for version in range(entry.min_version, entry.max_version + 1)
    }
    assert told == {
        (key, version) for key, version in VERSIONS if is_told_of_private_apis or not APIS[key].private
    }


def request(key: int, version: int) -> Message:
    """A request whose answer has as many fields as it can have."""
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
}
