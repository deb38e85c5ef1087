"""Leader and follower respond to every supported version of every API."""

from __future__ import annotations

import pytest

from quorumd.protocol.apis import APIS, BROKER_APIS, RAFT_FETCH_VERSION, ApiKey
from quorumd.protocol.messages import describe_configs_request
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.discover_brokers_request import DiscoverBrokersRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest
from tests.support.node.nodes import Cluster
from tests.support.node.sample_requests import full_request

FIRST_VERSIONS = {
    key: RAFT_FETCH_VERSION if key == ApiKey.FETCH else api.min_version
    for key, api in APIS.items()
    if key not in BROKER_APIS
}
VERSIONS = [
    (key, version)
    for key, first in FIRST_VERSIONS.items()
    for version in range(first, APIS[key].max_version + 1)
]


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    cluster = Cluster(3).start()
    cluster.leader()
    cluster.run(1000)
    return cluster


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=lambda value: str(value))
def test_every_version_gets_a_response(cluster: Cluster, role: str, key: int, version: int) -> None:
    node = cluster.leader() if role == "leader" else cluster.follower()
    client = cluster.client(node.settings.node_id)
    response = client.request(full_request(key, version), version)
    assert key == response.API_KEY
    assert not client.is_closed


@pytest.mark.parametrize(("software", "lists_private_apis"), [("quorumd", True), ("kafka-python", False)])
def test_api_versions_lists_every_supported_version(
    cluster: Cluster, software: str, lists_private_apis: bool
) -> None:
    response = cluster.client().request(ApiVersionsRequest(software, "1"), 4)
    reported = {
        (entry.api_key, version)
        for entry in response.api_keys
        for version in range(entry.min_version, entry.max_version + 1)
    }
    assert reported == {
        (key, version) for key, version in VERSIONS if lists_private_apis or not APIS[key].private
    }


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize("kind", [2, 4, 16, 32, 99])
@pytest.mark.parametrize("name", ["\x00" * 32_767, "€" * 10_922])
def test_longest_resource_names_get_a_response(cluster: Cluster, version: int, kind: int, name: str) -> None:
    """The response holds the name and an error message that quotes it."""
    wire = describe_configs_request
    message = wire.DescribeConfigsRequest([wire.DescribeConfigsResource(kind, name, None)])
    response = cluster.client().request(message, version)
    assert response.results[0].resource_name == name


def test_invalid_broker_address_is_not_published(cluster: Cluster) -> None:
    """It would be in every Metadata response."""
    stranger = cluster.client()
    stranger.request(DiscoverBrokersRequest(900, 1, "h" * 32_767, 9092), 0)
    assert 900 not in [broker.node_id for broker in stranger.request(MetadataRequest([]), 1).brokers]
