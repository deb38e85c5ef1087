"""What unmodified clients see of a quorum."""

from __future__ import annotations

import gc
import socket

from kafka.admin import KafkaAdminClient

PATIENT = {"bootstrap_timeout_ms": 300_000, "reconnect_backoff_max_ms": 500}
"""For kafka-python, which waits for half a minute before it tries an address again that has refused it often."""


def describe_by_kafka_python(bootstrap: str) -> tuple[int, set[int], set[int]]:
    """Leader, voters and observers."""
    before = open_sockets()
    client = KafkaAdminClient(bootstrap_servers=bootstrap, client_id="interop", **PATIENT)
    try:
        told = client.describe_metadata_quorum()
    finally:
        client.close()
        close_what_kafka_python_forgot(before)
    (partition,) = told["topics"][0]["partitions"]
    assert partition["error"] is None
    voters, observers = (
        {replica["replica_id"] for replica in partition[kind]} for kind in ("current_voters", "observers")
    )
    assert {node["node_id"] for node in told["nodes"]} == voters
    return partition["leader_id"], voters, observers


def open_sockets() -> list[socket.socket]:
    return [thing for thing in gc.get_objects() if type(thing) is socket.socket and thing.fileno() != -1]


def close_what_kafka_python_forgot(before: list[socket.socket]) -> None:
    """It leaves sockets open whose connection was refused; a warning about them is an error here."""
    for left in open_sockets():
        if not any(left is known for known in before):
            left.close()
