"""One broker with a topic, and a client of it."""

from __future__ import annotations

import pytest

from tests.support.broker.api_clients import Client
from tests.support.broker.simulated_brokers import SimulatedBrokers


@pytest.fixture
def cluster() -> SimulatedBrokers:
    cluster = SimulatedBrokers()
    cluster.start()
    cluster.create_topic("events", (1,), (1,))
    cluster.await_leader("events")
    cluster.await_leader("events", 1)
    return cluster


@pytest.fixture
def client(cluster: SimulatedBrokers) -> Client:
    return Client(cluster)
