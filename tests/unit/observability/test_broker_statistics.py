"""Statistics of a real broker."""

from __future__ import annotations

from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.errors import ErrorCode
from quorumd.observability.broker_statistics import (
    LogDirectoryStatistics,
    collect_broker_statistics,
    collect_log_directory_statistics,
)
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.node.broker_nodes import BrokerCluster, broker_role


def test_broker_statistics_count_replicas() -> None:
    cluster = BrokerCluster(2)
    for node_id in cluster.voters:
        cluster.start_node(node_id, broker=broker_role(node_id))
    nodes = list(cluster.nodes.values())
    cluster.run_until(lambda: all(node.broker and node.broker.state is BrokerState.RUNNING for node in nodes))
    topics = [CreatableTopic("orders", 4, 2)]
    cluster.leader()
    cluster.client().request(CreateTopicsRequest(topics, 5000), 7)
    cluster.run(5000)
    found = [collect_broker_statistics(node) for node in nodes]
    assert [figures.partitions for figures in found if figures is not None] == [4, 4]
    assert sum(figures.leaders for figures in found if figures is not None) == 4
    assert all(figures is not None and figures.under_replicated == 0 for figures in found)
    broker = nodes[0].broker
    assert broker is not None
    assert broker.broker is not None
    broker.broker.directories.cordon(["*"])
    found = [collect_broker_statistics(node) for node in nodes]
    cordoned = [[each.is_cordoned for each in figures.log_directories] for figures in found if figures]
    assert cordoned == [[True], [False]]
    cluster.kill(2)
    cluster.run(1000)
    assert collect_broker_statistics(nodes[0]) is not None


def test_log_directory_statistics_count_moves_and_failures() -> None:
    cluster = SimulatedBrokers(log_directories=("/first", "/second"))
    cluster.start()
    cluster.create_topic("events", (1,), (1,))
    cluster.await_leader("events", 0)
    cluster.produce_and_wait("events", number=0)
    broker = cluster.brokers[1].broker
    hosted = cluster.hosted(1, "events", 0)
    assert hosted is not None
    source, target = (hosted.directory, *(set(broker.directories.all) - {hosted.directory}))
    cluster.abandons_request = lambda request: request.API_KEY == ApiKey.ASSIGN_REPLICAS_TO_DIRS

    def figures(path: str) -> LogDirectoryStatistics:
        found = {each.path: each for each in collect_log_directory_statistics(broker.partitions)}
        assert list(found) == ["/first", "/second"]
        return found[path]

    size = hosted.log.size_bytes
    assert figures(source.path)[1:5] == (True, False, size, 0)
    assert figures(target.path)[1:5] == (True, False, 0, 0)
    assert figures(source.path).space.total_bytes > figures(source.path).space.usable_bytes > 0
    errors: list[ErrorCode] = []
    broker.moves.alter("events", 0, target.path, errors.append)
    assert figures(target.path)[3:5] == (0, 1)
    cluster.run_for(1_000.0)
    assert errors == [ErrorCode.NONE]
    assert figures(target.path)[3:5] == (size, 1)
    broker.partitions.fail_directory(target, "the disk is broken")
    assert figures(target.path)[1:] == (False, False, 0, 0, (-1, -1))
    assert figures(source.path).log_bytes == size


def test_node_without_the_role_has_none() -> None:
    cluster = BrokerCluster().start()
    assert collect_broker_statistics(cluster.nodes[1]) is None
