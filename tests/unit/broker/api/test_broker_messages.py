from __future__ import annotations

import pytest

from quorumd.broker.api.broker_messages import add_registered_brokers
from quorumd.controller.broker import Broker, BrokerEndpoint
from quorumd.controller.cluster_image import ClusterImage
from quorumd.ids import ZERO_UUID
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
    Listener,
)

ENDPOINTS = (BrokerEndpoint("PLAINTEXT", "ten", 9092, 0), BrokerEndpoint("SSL", "ten", 9093, 1))


@pytest.fixture
def image() -> ClusterImage:
    """Unfenced broker 10 that leads 3 partitions, fenced broker 11, and broker 1, also a node of the quorum."""
    image = ClusterImage()
    for broker_id, is_fenced in ((10, False), (11, True), (1, False)):
        image.brokers[broker_id] = Broker(
            broker_id, 500 + broker_id, ZERO_UUID, ENDPOINTS, (), "rack a", is_fenced, False, ()
        )
    image.index.leader_counts[10] = 3
    return image


def quorum() -> dict[int, DescribeClusterBroker]:
    return {node_id: DescribeClusterBroker(node_id, f"node-{node_id}", 9192) for node_id in (1, 2)}


def test_fenced_brokers_are_included_on_request(image: ClusterImage) -> None:
    unfenced, all_brokers = quorum(), quorum()
    add_registered_brokers(unfenced, image, False, False)
    add_registered_brokers(all_brokers, image, True, False)
    assert sorted(unfenced) == [1, 2, 10]
    assert sorted(all_brokers) == [1, 2, 10, 11]
    assert [all_brokers[broker_id].is_fenced for broker_id in (1, 10, 11)] == [False, False, True]


def test_default_broker_entry_matches_kafka(image: ClusterImage) -> None:
    """Some readers fail on unknown tagged fields."""
    brokers_by_id = quorum()
    add_registered_brokers(brokers_by_id, image, False, False)
    assert brokers_by_id[10] == DescribeClusterBroker(10, "ten", 9092, "rack a", False)


def test_registrations_are_included_on_request(image: ClusterImage) -> None:
    brokers_by_id = quorum()
    add_registered_brokers(brokers_by_id, image, False, True)
    listeners = [Listener("PLAINTEXT", "ten", 9092, 0), Listener("SSL", "ten", 9093, 1)]
    assert brokers_by_id[10] == DescribeClusterBroker(
        10, "ten", 9092, "rack a", False, 510, False, 3, listeners
    )
    response = DescribeClusterResponse(brokers=[brokers_by_id[10]])
    assert decode(DescribeClusterResponse, 0, encode(response, 0)).brokers == [brokers_by_id[10]]


def test_quorum_node_keeps_its_discovered_address(image: ClusterImage) -> None:
    brokers_by_id = quorum()
    add_registered_brokers(brokers_by_id, image, False, True)
    assert (brokers_by_id[1].host, brokers_by_id[1].port, brokers_by_id[1].broker_epoch) == (
        "node-1",
        9192,
        501,
    )
    assert brokers_by_id[2] == DescribeClusterBroker(2, "node-2", 9192)


def test_broker_without_listeners_has_no_address(image: ClusterImage) -> None:
    image.brokers[10] = image.brokers[10]._replace(endpoints=())
    brokers_by_id = quorum()
    add_registered_brokers(brokers_by_id, image, False, False)
    assert (brokers_by_id[10].host, brokers_by_id[10].port) == ("", -1)
