"""A closed connection keeps nothing alive."""

from __future__ import annotations

from quorumd.protocol.connection import ClientConnection, ServerConnection
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest


def test_requests_are_dropped() -> None:
    """Otherwise connection and request would hold each other until a full garbage collection."""
    _, data = ClientConnection("client").request(DescribeClusterRequest(), 1)
    connection = ServerConnection(1000, {DescribeClusterRequest.API_KEY: (0, 1)})
    (request,) = connection.receive(data)
    connection.close()
    assert connection.pending == 0
    assert request.connection is None
