"""DescribeQuorum through an unmodified kafka-python."""

from __future__ import annotations

import gc
import socket

from kafka.admin import KafkaAdminClient

PATIENT = {"bootstrap_timeout_ms": 300_000, "reconnect_backoff_max_ms": 500}
"""kafka-python backs off for up to 30 s from an address that refuses connections, unless limited."""


def describe_by_kafka_python(bootstrap: str) -> tuple[int, set[int], set[int]]:
    """Return leader, voters and observers."""
    before = open_sockets()
    client = KafkaAdminClient(bootstrap_servers=bootstrap, client_id="interop", **PATIENT)
    try:
        described = client.describe_metadata_quorum()
    finally:
        client.close()
        close_leaked_sockets(before)
    (partition,) = described["topics"][0]["partitions"]
    assert partition["error"] is None
    voters, observers = (
        {replica["replica_id"] for replica in partition[kind]} for kind in ("current_voters", "observers")
    )
    assert {node["node_id"] for node in described["nodes"]} == voters
    return partition["leader_id"], voters, observers


def open_sockets() -> list[socket.socket]:
    return [each for each in gc.get_objects() if type(each) is socket.socket and each.fileno() != -1]


def close_leaked_sockets(before: list[socket.socket]) -> None:
    """Close sockets that kafka-python leaks after a refused connection: a ResourceWarning fails the test."""
    for left in open_sockets():
        if not any(left is known for known in before):
            left.close()
