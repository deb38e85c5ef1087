"""The client that sends many requests at once, in pieces, and does not always read."""

from __future__ import annotations

from random import Random

from quorumd.simulator.workload.impolite_client import ImpoliteClient
from tests.support.simulator.simulated_cluster import elect, make_cluster, run


def test_impolite_clients_get_responses_until_they_hang_up() -> None:
    cluster = make_cluster(3)
    elect(cluster)
    client = ImpoliteClient(cluster, Random(1), 20.0)
    client.start()
    run(cluster, 20_000.0)
    client.running = False
    run(cluster, 10_000.0)
    counters = client.counters.copy()
    assert counters["impolite: requests"] > counters["impolite: responses"] > 1000
    assert counters["impolite: hung up"] > 5
    run(cluster, 5000.0)
    assert client.counters == counters
