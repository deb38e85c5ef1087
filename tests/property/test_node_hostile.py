"""Bytes from strangers end their own connection at worst: never the node, nor anybody else's request."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.connection import ClientConnection
from tests.support.node.nodes import Client, Cluster
from tests.support.node.sample_requests import full_request

VERSIONS = [
    (key, version) for key, api in APIS.items() for version in range(api.min_version, api.max_version + 1)
]
STRIDE = 3
"""Every so many bytes one is changed, in turn over the versions, so that each position has its turn in some."""


def frame_of(key: int, version: int) -> bytes:
    return ClientConnection("stranger").request(full_request(key, version), version)[1]


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    cluster = Cluster(3).start()
    cluster.leader()
    cluster.run(1000)
    return cluster


def send(cluster: Cluster, node_id: int, data: bytes) -> None:
    """Over a connection of its own. What a callback of a node raises comes out here, as it would end a daemon."""
    client = RawClient(cluster, node_id, "stranger")
    client.send_bytes(data)
    cluster.run(2)
    client.close()
    assert cluster.exits == []


class RawClient(Client):
    """Takes whatever comes back."""

    def received(self, data: bytes) -> None:
        pass


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=str)
def test_a_request_with_one_byte_changed(cluster: Cluster, key: int, version: int) -> None:
    frame = frame_of(key, version)
    nodes = sorted(cluster.nodes)
    for position in range(version % STRIDE, len(frame), STRIDE):
        for value in (0x00, 0x7F, 0xFF, frame[position] ^ 0x01):
            changed = bytearray(frame)
            changed[position] = value
            send(cluster, nodes[position % len(nodes)], bytes(changed))


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=str)
def test_a_request_that_is_cut_off(cluster: Cluster, key: int, version: int) -> None:
    """The size before it says so: the frame is whole and its message is not."""
    frame = frame_of(key, version)
    for length in range(5, len(frame), STRIDE):
        cut = (length - 4).to_bytes(4, "big") + frame[4:length]
        send(cluster, 1, cut)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200), node_id=st.integers(1, 3))
def test_any_bytes(cluster: Cluster, data: bytes, node_id: int) -> None:
    send(cluster, node_id, data)


def test_and_the_quorum_still_works(cluster: Cluster) -> None:
    node = cluster.leader()
    response = cluster.client(node.settings.node_id).ask(full_request(ApiKey.DESCRIBE_CONFIGS, 4), 4)
    assert [result.error_code for result in response.results][:3] == [0, 0, 0]
