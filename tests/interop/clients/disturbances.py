"""Disturbances of the cluster while clients run: killed leaders, rolling restarts and reassignments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from confluent_kafka.admin import AdminClient, PartitionMetadata

from tests.support.processes.daemons import run_quorumd, wait_for

PATIENCE_S = 90.0


class DisturbedCluster(Protocol):
    """A cluster whose nodes can be killed and restarted by id, such as `KafkaCluster`."""

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def nodes(self) -> Sequence[int]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def kill(self, node_id: int) -> None: ...
    def stop_node(self, node_id: int) -> None: ...
    def restart(self, node_id: int) -> None: ...


class Disturbances:
    """Disturbs a cluster; a reassignment applies to the topic of the clients."""

    def __init__(self, cluster: DisturbedCluster, topic: str, directory: Path) -> None:
        self._cluster = cluster
        self._topic = topic
        self._plan = directory / "plan.json"
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        self._shift = 0

    def kill_leader(self) -> str:
        """Kill the leader of partition 0, and restart it."""
        return self.kill(self._partitions()[0].leader)

    def kill(self, node: int) -> str:
        """Kill a node, wait until other nodes lead its partitions, restart it, and wait until it is in sync."""
        led = [number for number, each in self._partitions().items() if each.leader == node]
        self._cluster.kill(node)

        def are_led() -> bool:
            partitions = self._partitions()
            return all(partitions[number].leader not in (node, -1) for number in led)

        wait_for("other leaders", are_led, PATIENCE_S)
        self._cluster.restart(node)
        self.wait_until_in_sync()
        return f"killed {node}, the leader of {len(led)} partitions"

    def elect_preferred(self) -> str:
        """Elect the preferred leader of every partition."""
        where = ("--bootstrap-server", self._cluster.bootstrap_servers)
        done = run_quorumd("partitions", "elect", *where, "--preferred", "--all")
        assert done.returncode == 0, done.stdout + done.stderr
        return "elected preferred leaders"

    def restart_all(self) -> str:
        """Restart the nodes gracefully one after the other, and wait after each until all replicas are in sync."""
        for node in self._cluster.nodes:
            self._cluster.stop_node(node)
            self._cluster.restart(node)
            self.wait_until_in_sync()
        return "restarted all nodes"

    def reassign(self) -> str:
        """Assign other replicas to every partition, and wait until the reassignment is complete."""
        self._shift += 1
        nodes = self._cluster.nodes
        # Replicas and leaders change; every partition keeps at least two replicas for min.insync.replicas.
        choices = [*permutations(nodes, 3), *permutations(nodes, 2)]
        partitions = [
            {
                "topic": self._topic,
                "partition": number,
                "replicas": choices[(7 * number + 5 * self._shift) % len(choices)],
            }
            for number in self._partitions()
        ]
        self._plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
        where = ("--bootstrap-server", self._cluster.bootstrap_servers)
        for action in (("--execute",), ("--verify", "--wait")):
            done = run_quorumd("partitions", "reassign", *where, "--plan", self._plan, *action)
            assert done.returncode == 0, done.stdout + done.stderr
        self.wait_until_in_sync()
        return f"reassigned {len(partitions)} partitions"

    def wait_until_in_sync(self) -> None:
        """Wait until all replicas of all topics are in sync."""
        wait_for("all replicas to be in sync", self._are_in_sync, PATIENCE_S)

    def _are_in_sync(self) -> bool:
        topics = self._admin.list_topics(timeout=PATIENCE_S).topics.values()
        return all(
            set(each.isrs) == set(each.replicas) and each.leader >= 0
            for topic in topics
            for each in topic.partitions.values()
        )

    def _partitions(self) -> dict[int, PartitionMetadata]:
        return dict(self._admin.list_topics(self._topic, PATIENCE_S).topics[self._topic].partitions)
