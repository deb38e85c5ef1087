"""DescribeNode: the nodes of the quorum."""

from __future__ import annotations

from quorumd.protocol.messages.describe_node_request import DescribeNodeRequest
from tests.support.node.nodes import Cluster, host_of


def test_description_lists_the_nodes_of_the_quorum() -> None:
    cluster = Cluster(3).start()
    cluster.leader()
    description = cluster.client(1).request(DescribeNodeRequest(), 0)
    nodes = [(node.node_id, node.host, node.port) for node in description.nodes]
    assert nodes == [(node_id, host_of(node_id), 9092) for node_id in (1, 2, 3)]
