"""The client that reads no responses, and the bound of what nodes hold for it."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.stream import Side
from quorumd.simulator.node_settings import MAX_HELD_BYTES, MAX_UNSENT_BYTES
from quorumd.simulator.workload.unread_responses import HOST, NAMES, TOPIC_BYTES, UnreadResponses
from tests.support.simulator.simulated_cluster import elect, make_cluster, run


def start_client(cluster: Cluster) -> UnreadResponses:
    elect(cluster)
    client = UnreadResponses(cluster, Random(1), 100.0)
    client.start()
    return client


def sides_of_client(cluster: Cluster) -> list[Side]:
    return [side for side in cluster.network.links if side.host == HOST]


def test_connections_that_are_not_read_are_aborted() -> None:
    cluster = make_cluster(3, unread_ms=100.0)
    client = start_client(cluster)
    run(cluster, 30_000.0)
    client.running = False
    run(cluster, 10_000.0)
    assert client.counters["unread: aborted by the node"] > 3
    assert client.counters["unread: bytes read late"] > 100_000
    assert client.counters["unread: largest"] > MAX_UNSENT_BYTES // 2
    assert not sides_of_client(cluster)
    counters = client.counters.copy()
    run(cluster, 5000.0)
    assert client.counters == counters


@pytest.mark.parametrize(
    ("each", "count"), [(MAX_UNSENT_BYTES + 2 * NAMES[-1] * TOPIC_BYTES + 1, 1), (MAX_HELD_BYTES // 3, 4)]
)
def test_more_than_the_limits_is_a_violation(each: int, count: int) -> None:
    cluster = make_cluster(1, unread_ms=1.0)
    client = start_client(cluster)
    while len(sides_of_client(cluster)) < count:
        run(cluster, 1.0)
    machine = cluster.machines[1]
    client.check(machine)
    for side in sides_of_client(cluster)[:count]:
        side.far.stream.unsent_bytes = each
    with pytest.raises(InvariantViolation, match="unread responses are bounded"):
        client.check(machine)
