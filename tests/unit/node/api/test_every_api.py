"""Every API in every version that a node says it speaks gets an answer, from the leader and from a follower."""

from __future__ import annotations

import pytest

from quorumd.protocol.apis import APIS
from quorumd.protocol.messages import describe_configs_request
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.discover_brokers_request import DiscoverBrokersRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest
from tests.support.node.nodes import Cluster
from tests.support.node.sample_requests import full_request

VERSIONS = [
    (key, version) for key, api in APIS.items() for version in range(api.min_version, api.max_version + 1)
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
    answer = client.ask(full_request(key, version), version)
    assert key == answer.API_KEY
    assert not client.is_closed


@pytest.mark.parametrize(
    ("software", "is_told_of_private_apis"), [("quorumd", True), ("kafka-python", False)]
)
def test_what_is_told_in_api_versions_is_what_is_answered(
    cluster: Cluster, software: str, is_told_of_private_apis: bool
) -> None:
    answer = cluster.client().ask(ApiVersionsRequest(software, "1"), 4)
    told = {
        (entry.api_key, version)
        for entry in answer.api_keys
        for version in range(entry.min_version, entry.max_version + 1)
    }
    assert told == {
        (key, version) for key, version in VERSIONS if is_told_of_private_apis or not APIS[key].private
    }


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize("kind", [2, 4, 16, 32, 99])
@pytest.mark.parametrize("name", ["\x00" * 32_767, "€" * 10_922])
def test_the_longest_names_are_answered(cluster: Cluster, version: int, kind: int, name: str) -> None:
    """The name comes back, and an error text that quotes it must fit beside it."""
    wire = describe_configs_request
    message = wire.DescribeConfigsRequest([wire.DescribeConfigsResource(kind, name, None)])
    answer = cluster.client().ask(message, version)
    assert answer.results[0].resource_name == name


def test_an_address_that_is_none_reaches_no_answer(cluster: Cluster) -> None:
    """It would come back to every client that asks who is there."""
    stranger = cluster.client()
    stranger.ask(DiscoverBrokersRequest(900, 1, "h" * 32_767, 9092), 0)
    assert 900 not in [broker.node_id for broker in stranger.ask(MetadataRequest([]), 1).brokers]
