"""Leader balancing in whole nodes: schedule, steps and leadership changes."""

from __future__ import annotations

from typing import Any

from quorumd.controller.controller import ControllerSettings
from quorumd.controller.partition import Partition, PartitionId, partition_record
from quorumd.ids import KafkaUuid
from quorumd.node.node import Node
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.controller.broker_harness import registration
from tests.support.node.nodes import Cluster

INTERVAL_MS = 5000.0
TOPIC_ID = KafkaUuid(b"the topic's id..")


def make_cluster(interval_ms: float = INTERVAL_MS) -> Cluster:
    """A cluster of two brokers; the first leads none of its preferred partitions."""
    settings = ControllerSettings(
        broker_session_timeout_ms=1e9,
        leader_imbalance_check_interval_ms=interval_ms,
        max_idle_interval_ms=0.0,
    )
    cluster = Cluster(3, controller=settings).start()
    leader = cluster.leader()
    client = cluster.client(leader.settings.node_id)
    for broker_id in (101, 102):
        message = registration(broker_id, cluster_id=leader.cluster_id)
        epoch = client.request(message, 4).broker_epoch
        client.request(BrokerHeartbeatRequest(broker_id, epoch, leader.log.end_offset), 1)
    return cluster


def write_partitions(leader: Node, count: int) -> None:
    records: list[Any] = [TopicRecord("topic", TOPIC_ID)]
    for number in range(count):
        records.append(
            partition_record(PartitionId(TOPIC_ID, number), Partition((101, 102), (101, 102), 102))
        )
    leader.controller.writer.write_batches(records, lambda committed: None)


def imbalance(cluster: Cluster) -> list[int]:
    return [node.state_machine.image.index.imbalanced_count for node in cluster.nodes.values()]


def test_leaders_are_balanced_after_the_interval_and_again() -> None:
    cluster = make_cluster()
    leader = cluster.leader()
    write_partitions(leader, 3)
    cluster.run(INTERVAL_MS - 1000)
    assert imbalance(cluster) == [3, 3, 3]
    cluster.run(1500)
    assert imbalance(cluster) == [0, 0, 0]
    assert leader.statistics.preferred_leader_elections == 3
    assert len(leader.state_machine.image.topics) == 1


def test_each_step_waits_for_the_commit_of_the_previous_one() -> None:
    cluster = make_cluster()
    leader = cluster.leader()
    leader.settings.controller.max_partitions_per_step = 10
    write_partitions(leader, 25)
    seen: list[int] = []
    cluster.run_until(lambda: _note(seen, leader) == 0)
    assert seen[:4] == [25, 15, 5, 0]


def test_all_steps_of_a_round_follow_each_other() -> None:
    cluster = make_cluster()
    leader = cluster.leader()
    leader.settings.controller.max_partitions_per_step = 10
    write_partitions(leader, 25)
    cluster.run(INTERVAL_MS + 500)
    assert imbalance(cluster) == [0, 0, 0]


def _note(seen: list[int], leader: Node) -> int:
    count = leader.state_machine.image.index.imbalanced_count
    if not seen or seen[-1] != count:
        seen.append(count)
    return count


def test_interval_of_zero_disables_balancing() -> None:
    cluster = make_cluster(0.0)
    write_partitions(cluster.leader(), 3)
    cluster.run(400_000)
    assert imbalance(cluster) == [3, 3, 3]


def test_next_leader_continues_balancing() -> None:
    cluster = make_cluster()
    write_partitions(cluster.leader(), 3)
    cluster.run(100)
    cluster.kill(cluster.leader().settings.node_id)
    cluster.run_until(lambda: imbalance(cluster) == [0, 0])
    assert cluster.leader().statistics.preferred_leader_elections == 3
