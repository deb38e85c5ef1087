"""Brokers with listeners for two networks: clients of each get the addresses of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.daemons import PATIENCE_S, Daemon, wait_for
from tests.support.processes.ports import free_port

NETWORKS = ("EXTERNAL", "INTERNAL")
RECORDS = 100


class TwoNetworks(Daemon):
    """A broker with a listener in each of NETWORKS; brokers replicate on the second."""

    def configure(self, extra: str = "") -> None:
        self.ports = {name: free_port() for name in NETWORKS}
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        roles = ["broker"]
        if self.node_id in self.voters:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.port}")
            roles.append("controller")
        super().configure(
            f"process.roles={','.join(roles)}\n"
            f"listeners={','.join(listeners)}\n"
            "listener.security.protocol.map=EXTERNAL:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            "inter.broker.listener.name=INTERNAL\n"
            "controller.listener.names=CONTROLLER\n"
            f"{extra}"
        )

    def address_in(self, network: str) -> str:
        return f"127.0.0.1:{self.ports[network]}"


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[TwoNetworks]]:
    """Start node 1, a controller and broker, and node 2, a broker only."""
    voters = {1: free_port()}
    nodes = [
        TwoNetworks(tmp_path / str(each), each, voters[1], voters, "offsets.topic.replication.factor=2\n")
        for each in (1, 2)
    ]
    try:
        for node in nodes:
            node.start()
        for node in nodes:
            wait_for("the broker to serve clients", lambda node=node: "serves clients" in node.log_text())  # type: ignore[misc] # the type of a default
        yield nodes
        assert [node.node_id for node in nodes if "Traceback" in node.log_text()] == []
    finally:
        for node in nodes:
            node.stop()


@pytest.mark.parametrize("network", NETWORKS)
def test_clients_stay_in_their_network(brokers: list[TwoNetworks], network: str) -> None:
    expected = {node.node_id: node.ports[network] for node in brokers}
    for node in brokers:
        settings = {"bootstrap.servers": node.address_in(network)}
        admin = AdminClient(settings)

        def ports(admin: AdminClient = admin) -> dict[int, int]:
            return {each.id: each.port for each in admin.list_topics(timeout=PATIENCE_S).brokers.values()}

        wait_for("both brokers", lambda ports=ports: ports() == expected)  # type: ignore[misc] # the type of a default
    admin.create_topics([NewTopic("t", 2, 2)])["t"].result(PATIENCE_S)

    producer = Producer({**settings, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("t", str(number).encode(), partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    group = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**settings, **group})
    consumer.subscribe(["t"])
    read: list[int] = []
    wait_for("all records", lambda: len(read) == RECORDS or read.extend(polled(consumer)))
    assert sorted(read) == list(range(RECORDS))
    consumer.commit(asynchronous=False)
    consumer.close()


def polled(consumer: Consumer) -> list[int]:
    return [int(message.value()) for message in consumer.consume(RECORDS, 0.2) if message.error() is None]
