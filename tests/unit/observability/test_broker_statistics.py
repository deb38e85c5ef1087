"""Statistics of a real broker."""

from __future__ import annotations

from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.observability.broker_statistics import collect_broker_statistics
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.support.node.broker_nodes import BrokerCluster, broker_role


def test_broker_statistics_count_replicas() -> None:
    cluster = BrokerCluster(2)
    for node_id in cluster.voters:
        cluster.start_node(node_id, broker=broker_role(node_id))
    nodes = list(cluster.nodes.values())
    cluster.run_until(lambda: all(node.broker and node.broker.state is BrokerState.RUNNING for node in nodes))
    topics = [CreatableTopic("orders", 4, 2)]
    cluster.leader()
    cluster.client().request(CreateTopicsRequest(topics, 5000), 7)
    cluster.run(5000)
    found = [collect_broker_statistics(node) for node in nodes]
    assert [figures.partitions for figures in found if figures is not None] == [4, 4]
    assert sum(figures.leaders for figures in found if figures is not None) == 4
    assert all(figures is not None and figures.under_replicated == 0 for figures in found)
    broker = nodes[0].broker
    assert broker is not None
    assert broker.broker is not None
    broker.broker.directories.cordon(["*"])
    found = [collect_broker_statistics(node) for node in nodes]
    assert [figures.cordoned_directories for figures in found if figures is not None] == [1, 0]
    cluster.kill(2)
    cluster.run(1000)
    assert collect_broker_statistics(nodes[0]) is not None


def test_node_without_the_role_has_none() -> None:
    cluster = BrokerCluster().start()
    assert collect_broker_statistics(cluster.nodes[1]) is None
