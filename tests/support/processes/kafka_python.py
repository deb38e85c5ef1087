"""DescribeQuorum through an unmodified kafka-python."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from kafka.admin import KafkaAdminClient
from kafka.net.inet import KafkaNetSocket

PATIENT = {"bootstrap_timeout_ms": 300_000, "reconnect_backoff_max_ms": 500}
"""kafka-python backs off for up to 30 s from an address that refuses connections, unless limited."""


def describe_by_kafka_python(bootstrap: str) -> tuple[int, set[int], set[int]]:
    """Return leader, voters and observers."""
    with leaked_sockets_closed():
        client = KafkaAdminClient(bootstrap_servers=bootstrap, client_id="interop", **PATIENT)
        try:
            described = client.describe_metadata_quorum()
        finally:
            client.close()
    (partition,) = described["topics"][0]["partitions"]
    assert partition["error"] is None
    voters, observers = (
        {replica["replica_id"] for replica in partition[kind]} for kind in ("current_voters", "observers")
    )
    assert {node["node_id"] for node in described["nodes"]} == voters
    return partition["leader_id"], voters, observers


@contextmanager
def leaked_sockets_closed() -> Iterator[None]:
    """Close the sockets that kafka-python opens within and leaks after a refused connection: a ResourceWarning fails
    the test. Other sockets of the process stay open, such as those of broker stand-ins and of a session of Spark."""
    with ExitStack() as opened:

        def open_socket(*args: int) -> socket.socket:
            return opened.enter_context(socket.socket(*args))

        with patch.object(KafkaNetSocket, "socket", staticmethod(open_socket)):
            yield
