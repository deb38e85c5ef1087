"""Hostile bytes end at most their own connection, never the node or another request."""

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
"""One byte in each stride is changed; the versions take turns, so that each position is changed in some."""


def frame_of(key: int, version: int) -> bytes:
    return ClientConnection("stranger").request(full_request(key, version), version)[1]


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    cluster = Cluster(3).start()
    cluster.leader()
    cluster.run(1000)
    return cluster


def send(cluster: Cluster, node_id: int, data: bytes) -> None:
    """Send on a new connection. An exception of a node's callback propagates here, as it would end a daemon."""
    client = RawClient(cluster, node_id, "stranger")
    client.send_bytes(data)
    cluster.run(2)
    client.close()
    assert cluster.exits == []


class RawClient(Client):
    """Discards responses."""

    def received(self, data: bytes) -> None:
        pass


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=str)
def test_request_with_one_changed_byte(cluster: Cluster, key: int, version: int) -> None:
    frame = frame_of(key, version)
    nodes = sorted(cluster.nodes)
    for position in range(version % STRIDE, len(frame), STRIDE):
        for value in (0x00, 0x7F, 0xFF, frame[position] ^ 0x01):
            changed = bytearray(frame)
            changed[position] = value
            send(cluster, nodes[position % len(nodes)], bytes(changed))


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=str)
def test_truncated_request(cluster: Cluster, key: int, version: int) -> None:
    """The size field matches, so the frame is complete and its message is not."""
    frame = frame_of(key, version)
    for length in range(5, len(frame), STRIDE):
        cut = (length - 4).to_bytes(4, "big") + frame[4:length]
        send(cluster, 1, cut)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200), node_id=st.integers(1, 3))
def test_any_bytes(cluster: Cluster, data: bytes, node_id: int) -> None:
    send(cluster, node_id, data)


def test_quorum_still_works_afterwards(cluster: Cluster) -> None:
    node = cluster.leader()
    response = cluster.client(node.settings.node_id).request(full_request(ApiKey.DESCRIBE_CONFIGS, 4), 4)
    assert [result.error_code for result in response.results][:3] == [0, 0, 0]
