"""kafka-python moves replicas to the other log directory of real brokers, under load and with a killed broker."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from kafka import TopicPartitionReplica
from kafka.admin import KafkaAdminClient

from tests.support.processes.daemons import wait_for
from tests.support.processes.kafka_python import PATIENT
from tests.support.processes.log_directories import TOPIC, DirectoryCluster, TwoDirectories, Writing

PARTITIONS = range(4)
PATIENCE_S = 60
PROPERTIES = (
    "broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=200\nlog.segment.delete.delay.ms=100\n"
)


def test_replicas_move_under_load(tmp_path: Path) -> None:
    with DirectoryCluster(tmp_path, 3, PROPERTIES).running() as cluster:
        first, second, _ = cluster.nodes
        cluster.create_topic(len(PARTITIONS), min_insync_replicas="2")
        with Writing(cluster.bootstrap) as writing:
            writing.await_more()
            move_to_second(cluster, first)
            move_to_second(cluster, second)
            second.kill()
            second.restart()
            cluster.await_brokers({each.node_id for each in cluster.nodes})
            # Moves that had not started before the kill are requested again.
            move_to_second(cluster, second)
            for node in (first, second):
                await_second(node)
            cluster.await_isrs({number: {1, 2, 3} for number in PARTITIONS})
            writing.await_more()
        writing.verify()


def move_to_second(cluster: DirectoryCluster, node: TwoDirectories) -> None:
    replicas = {TopicPartitionReplica(TOPIC, number, node.node_id): str(node.second) for number in PARTITIONS}
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","), **PATIENT)) as admin:
        assert {error.errno for error in admin.alter_replica_log_dirs(replicas).values()} == {0}


def await_second(node: TwoDirectories) -> None:
    wait_for("the moves", lambda: node.numbers(node.second) == set(PARTITIONS), PATIENCE_S)
    assert node.numbers(node.first) == set()
