from __future__ import annotations

import pytest

from quorumd.controller.broker import Broker, BrokerEndpoint
from quorumd.controller.cluster_image import ClusterImage
from quorumd.ids import ZERO_UUID
from quorumd.node.api.broker_messages import add_registered_brokers
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.messages.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
    Listener,
)

ENDPOINTS = (BrokerEndpoint("PLAINTEXT", "ten", 9092, 0), BrokerEndpoint("SSL", "ten", 9093, 1))


@pytest.fixture
def image() -> ClusterImage:
    """With an unfenced broker 10 that leads 3 partitions, a fenced one 11, and 1, which is a node of the quorum."""
    image = ClusterImage()
    for broker_id, is_fenced in ((10, False), (11, True), (1, False)):
        image.brokers[broker_id] = Broker(
            broker_id, 500 + broker_id, ZERO_UUID, ENDPOINTS, (), "rack a", is_fenced, False, ()
        )
    image.index.leader_counts[10] = 3
    return image


def quorum() -> dict[int, DescribeClusterBroker]:
    return {node_id: DescribeClusterBroker(node_id, f"node-{node_id}", 9192) for node_id in (1, 2)}


def test_fenced_brokers_are_told_to_those_who_ask_for_them(image: ClusterImage) -> None:
    without, having = quorum(), quorum()
    add_registered_brokers(without, image, False, False)
    add_registered_brokers(having, image, True, False)
    assert sorted(without) == [1, 2, 10]
    assert sorted(having) == [1, 2, 10, 11]
    assert [having[broker_id].is_fenced for broker_id in (1, 10, 11)] == [False, False, True]


def test_a_broker_is_told_as_kafka_tells_it(image: ClusterImage) -> None:
    """Not every reader skips tagged fields that it does not know."""
    brokers_by_id = quorum()
    add_registered_brokers(brokers_by_id, image, False, False)
    assert brokers_by_id[10] == DescribeClusterBroker(10, "ten", 9092, "rack a", False)


def test_whoever_asks_is_told_all_that_is_known_of_a_broker(image: ClusterImage) -> None:
    brokers_by_id = quorum()
    add_registered_brokers(brokers_by_id, image, False, True)
    listeners = [Listener("PLAINTEXT", "ten", 9092, 0), Listener("SSL", "ten", 9093, 1)]
    assert brokers_by_id[10] == DescribeClusterBroker(
        10, "ten", 9092, "rack a", False, 510, False, 3, listeners
    )
    answer = DescribeClusterResponse(brokers=[brokers_by_id[10]])
    assert decode(DescribeClusterResponse, 0, encode(answer, 0)).brokers == [brokers_by_id[10]]


def test_a_node_of_the_quorum_stays_where_it_was_found(image: ClusterImage) -> None:
    brokers_by_id = quorum()
    add_registered_brokers(brokers_by_id, image, False, True)
    assert (brokers_by_id[1].host, brokers_by_id[1].port, brokers_by_id[1].broker_epoch) == (
        "node-1",
        9192,
        501,
    )
    assert brokers_by_id[2] == DescribeClusterBroker(2, "node-2", 9192)


def test_a_broker_without_listeners_is_nowhere(image: ClusterImage) -> None:
    image.brokers[10] = image.brokers[10]._replace(endpoints=())
    brokers_by_id = quorum()
    add_registered_brokers(brokers_by_id, image, False, False)
    assert (brokers_by_id[10].host, brokers_by_id[10].port) == ("", -1)
