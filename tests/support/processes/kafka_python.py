"""DescribeQuorum through kafka-python, and cleanup of the sockets and threads that kafka-python leaks."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from unittest.mock import patch

from kafka.admin import KafkaAdminClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.selector import NetworkSelector

PATIENT = {"bootstrap_timeout_ms": 300_000, "reconnect_backoff_max_ms": 500}
"""Limits of kafka-python's backoff, by default up to 30 s, from an address that refuses connections."""


def describe_by_kafka_python(bootstrap: str) -> tuple[int, set[int], set[int]]:
    """Return leader, voters and observers."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap, client_id="interop", **PATIENT)) as client:
        described = client.describe_metadata_quorum()
    (partition,) = described["topics"][0]["partitions"]
    assert partition["error"] is None
    voters, observers = (
        {replica["replica_id"] for replica in partition[kind]} for kind in ("current_voters", "observers")
    )
    assert {node["node_id"] for node in described["nodes"]} == voters
    return partition["leader_id"], voters, observers


@contextmanager
def kafka_python_tidied() -> Iterator[None]:
    """Close the sockets of connections that fail inside the block, which kafka-python leaks: their ResourceWarning
    would fail a later test. Stop the clients that were created inside the block and still run, also if their
    constructor failed, since they would try to connect forever.

    Raises:
        AssertionError: a client was not closed.
    """
    connect, start = KafkaNetSocket.sock_connect, NetworkSelector.start
    started: list[NetworkSelector] = []

    async def connect_or_close(
        self: KafkaNetSocket, net: Any, sock: socket.socket, *args: Any, **kwargs: Any
    ) -> socket.socket:
        try:
            return await connect(self, net, sock, *args, **kwargs)
        except BaseException:
            sock.close()
            raise

    def start_and_note(self: NetworkSelector) -> None:
        started.append(self)
        start(self)

    with (
        patch.object(KafkaNetSocket, "sock_connect", connect_or_close),
        patch.object(NetworkSelector, "start", start_and_note),
    ):
        yield
        running = [each for each in started if each._io_thread is not None]
        for each in running:
            each.close()
    assert running == []
