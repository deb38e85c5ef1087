"""Moves of coordinators: another broker gets the leadership of the partition of a group or a transactional id."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient, PartitionMetadata

from quorumd.broker.coordinator.internal_topics import partition_of
from tests.interop.stock_tools.claims import expect
from tests.support.processes.daemons import run_quorumd, wait_for

OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
REPLICAS = 3
PATIENCE_S = 120.0


class CoordinatorMoves:
    """Moves coordinators between the `brokers` of a cluster."""

    def __init__(self, bootstrap: str, brokers: Sequence[int], directory: Path) -> None:
        self._to = ("--bootstrap-server", bootstrap)
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._brokers = brokers
        self._plan = directory / "move.json"

    def move(self, topic: str, key: str, broker: int) -> None:
        """Make a broker the coordinator of a group or transactional id; the topic must exist."""
        partitions = wait_for(f"topic {topic}", lambda: self._partitions(topic), PATIENCE_S)
        number = partition_of(key, len(partitions))
        others = [each for each in self._brokers if each != broker]
        moved = {"topic": topic, "partition": number, "replicas": [broker, *others][:REPLICAS]}
        self._plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
        self._run("reassign", "--plan", self._plan, "--execute")
        self._run("reassign", "--plan", self._plan, "--verify", "--wait")
        self._run("elect", "--preferred", "--all")

        def leads() -> bool:
            return self._partitions(topic)[number].leader == broker

        wait_for(f"broker {broker} to coordinate {key}", leads, PATIENCE_S)

    def address(self, broker: int) -> tuple[str, int]:
        """Return the address of a broker for clients."""
        found = self._admin.list_topics(timeout=PATIENCE_S).brokers[broker]
        return found.host, found.port

    def _partitions(self, topic: str) -> dict[int, PartitionMetadata]:
        topics = self._admin.list_topics(timeout=PATIENCE_S).topics
        return dict(topics[topic].partitions) if topic in topics else {}

    def _run(self, command: str, *arguments: str | Path) -> None:
        done = run_quorumd("partitions", command, *self._to, *arguments)
        expect(f"exit code of partitions {command}: {done.stderr}", done.returncode, 0)
