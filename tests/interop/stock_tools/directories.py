"""Kafka's tools move and cordon log directories of quorumd's brokers, and list the resources of configs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.interop.stock_tools.claims import Step, expect
from tests.interop.stock_tools.tools import CONFIGS, LOG_DIRS, REASSIGN, TOPICS, StockTools
from tests.interop.stock_tools.traffic import Traffic
from tests.support.processes.daemons import run_quorumd, wait_for
from tests.support.processes.log_directories import DirectoryCluster, TwoDirectories

TOPIC, LATER, WIDE = "orders", "later", "wide"
RECORDS = 5_000
CORDONS = "cordoned.log.dirs"
Replica = tuple[str, bool]
"""A partition, and whether it is a future replica."""


class Directories:
    """Claims about three nodes with both roles and two log directories each."""

    def __init__(self, tools: StockTools, cluster: DirectoryCluster, directory: Path) -> None:
        self._tools = tools
        self._cluster = cluster
        self._directory = directory
        self._to = ("--bootstrap-server", cluster.bootstrap)
        self._traffic = Traffic(tools, cluster.bootstrap, TOPIC)

    def steps(self) -> list[Step]:
        return [
            ("kafka-log-dirs describes the directories of each broker", self.describe),
            ("kafka-reassign-partitions moves a replica to the other directory of its broker", self.move),
            ("kafka-reassign-partitions moves a replica to a directory of another broker", self.reassign),
            ("kafka-reassign-partitions fails for an unknown directory, and changes nothing", self.refuse),
            ("kafka-configs and quorumd configs cordon directories: new replicas avoid them", self.cordon),
            ("a replica cannot be moved to a cordoned directory", self.refuse_cordoned),
            ("kafka-topics names the brokers whose directories are all cordoned", self.cordon_broker),
            ("uncordoned directories get replicas again", self.uncordon),
            ("kafka-configs lists brokers, groups and client metrics", self.list_resources),
        ]

    def describe(self) -> str:
        self._tools.run(
            TOPICS, *self._to, "--create", "--topic", TOPIC, "--replica-assignment", "1:2,2:3,3:1"
        )
        with self._traffic.producing(RECORDS):
            pass
        described = self._described()
        expect(
            "the directories",
            sorted(described),
            sorted(str(path) for node in self._cluster.nodes for path in (node.first, node.second)),
        )
        replicas = sorted(name for found in described.values() for name, _ in found)
        expect("the replicas", replicas, [f"{TOPIC}-{number}" for number in (0, 0, 1, 1, 2, 2)])
        return f"{len(replicas)} replicas in {len(described)} directories"

    def move(self) -> str:
        first = self._cluster.nodes[0]
        target = self._other_directory(first, f"{TOPIC}-0")
        with self._traffic.producing():
            self._execute([1, 2], [target, "any"], 0)
            self._await_completion()
        expect("the moved replica", (f"{TOPIC}-0", False) in self._described()[target], True)
        return self._traffic.check()

    def reassign(self) -> str:
        target = str(self._cluster.nodes[0].second)
        self._execute([2, 1], ["any", target], 1)
        self._await_completion()
        expect("the new replica", (f"{TOPIC}-1", False) in self._described()[target], True)
        return self._traffic.check()

    def refuse(self) -> str:
        before = self._described()
        printed = self._fails(self._json([1, 2], ["/nowhere", "any"], 0))
        expect(f"the reason is named: {printed}", "LogDirNotFoundException" in printed, True)
        expect("the replicas", self._described(), before)
        return "LogDirNotFoundException"

    def cordon(self) -> str:
        first, _, third = self._cluster.nodes
        added = ("--add-config", f"{CORDONS}={first.first}")
        self._tools.run(CONFIGS, *self._to, *_broker(1), "--alter", *added)
        self._quorumd("set", f"{CORDONS}={third.first}")
        for node in (first, third):
            self._await_cordon(node, is_cordoned=True)
        shown = self._tools.run(CONFIGS, *self._to, *_broker(1), "--describe")
        expect(f"the config is shown: {shown}", f"{CORDONS}={first.first}" in shown, True)
        sizes = ("--partitions", "6", "--replication-factor", "3")
        self._tools.run(TOPICS, *self._to, "--create", "--topic", LATER, *sizes)
        described = self._described(LATER)
        counts = [len(described[str(node.first)]) for node in self._cluster.nodes]
        expect("the new replicas in the first directories", counts, [0, 3, 0])
        return "6 partitions in the other directories"

    def refuse_cordoned(self) -> str:
        target = str(self._cluster.nodes[0].first)
        printed = self._fails(self._json([1, 2], [target, "any"], 0))
        expect(f"the reason is named: {printed}", "InvalidReplicaAssignmentException" in printed, True)
        return "InvalidReplicaAssignmentException"

    def cordon_broker(self) -> str:
        self._tools.run(CONFIGS, *self._to, *_broker(2), "--alter", "--add-config", f"{CORDONS}=*")
        self._await_cordon(self._cluster.nodes[1], is_cordoned=True)
        done = self._tools.execute(
            TOPICS, *self._to, "--create", "--topic", WIDE, "--replication-factor", "3"
        )
        printed = f"{done.stdout}{done.stderr}"
        expect(f"exit code: {printed}", done.returncode, 1)
        expect(f"the broker is named: {printed}", "brokers [2] are cordoned" in printed, True)
        return "InvalidReplicationFactorException"

    def uncordon(self) -> str:
        for broker_id in (1, 2):
            self._tools.run(CONFIGS, *self._to, *_broker(broker_id), "--alter", "--delete-config", CORDONS)
        self._quorumd("delete", CORDONS)
        for node in self._cluster.nodes:
            self._await_cordon(node, is_cordoned=False)
        sizes = ("--partitions", "12", "--replication-factor", "3")
        self._tools.run(TOPICS, *self._to, "--create", "--topic", WIDE, *sizes)
        described = self._described(WIDE)
        counts = [len(described[str(node.first)]) for node in self._cluster.nodes]
        expect(f"replicas in every first directory: {counts}", all(counts), True)
        return f"{', '.join(map(str, counts))} of 12 replicas in the first directories"

    def list_resources(self) -> str:
        """List resources by type: kafka-configs finds groups and client metrics with ListConfigResources."""
        configs = {
            "groups": ("shared", "consumer.session.timeout.ms=50000"),
            "client-metrics": ("slow", "interval.ms=1000"),
        }
        for kind, (name, config) in configs.items():
            entity = ("--entity-type", kind, "--entity-name", name)
            self._tools.run(CONFIGS, *self._to, *entity, "--alter", "--add-config", config)
            shown = self._tools.run(CONFIGS, *self._to, "--entity-type", kind, "--describe")
            expect(f"{kind}: {shown}", name in shown and config in shown, True)
        shown = self._tools.run(CONFIGS, *self._to, "--entity-type", "brokers", "--describe")
        described = [line.split()[4] for line in shown.splitlines() if "for broker " in line]
        expect(f"the brokers: {shown}", described, ["1", "2", "3"])
        return ", ".join(configs)

    def _described(self, topic: str = TOPIC) -> dict[str, list[Replica]]:
        """Return the replicas of a topic by log directory."""
        printed = self._tools.run(LOG_DIRS, *self._to, "--describe", "--topic-list", topic)
        document: Any = json.loads(printed.strip().splitlines()[-1])
        return {
            directory["logDir"]: [(each["partition"], each["isFuture"]) for each in directory["partitions"]]
            for broker in document["brokers"]
            for directory in broker["logDirs"]
        }

    def _other_directory(self, node: TwoDirectories, partition: str) -> str:
        is_in_first = (partition, False) in self._described()[str(node.first)]
        return str(node.second if is_in_first else node.first)

    def _json(self, replicas: Sequence[int], directories: Sequence[str], number: int) -> tuple[str, ...]:
        """Write a plan for one partition, and return the options for it."""
        partition = {"topic": TOPIC, "partition": number, "replicas": replicas, "log_dirs": directories}
        file = self._directory / "reassignment.json"
        file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        return (*self._to, "--reassignment-json-file", str(file))

    def _execute(self, replicas: Sequence[int], directories: Sequence[str], number: int) -> None:
        self._plan = self._json(replicas, directories, number)
        self._tools.run(REASSIGN, *self._plan, "--execute", "--replica-alter-log-dirs-throttle", "10000000")

    def _await_completion(self) -> None:
        def is_complete() -> bool:
            printed = self._tools.run(REASSIGN, *self._plan, "--verify")
            return "completed successfully" in printed and "still in progress" not in printed

        wait_for("the reassignment to be completed", is_complete)

    def _fails(self, plan: tuple[str, ...]) -> str:
        done = self._tools.execute(REASSIGN, *plan, "--execute")
        printed = f"{done.stdout}{done.stderr}"
        expect(f"exit code: {printed}", done.returncode, 1)
        return printed

    def _quorumd(self, verb: str, change: str) -> None:
        """Change the config of broker 3 through the listener of a controller."""
        controller = f"127.0.0.1:{self._cluster.nodes[0].port}"
        resource = ("--bootstrap-server", controller, "--type", "broker", "--name", "3")
        done = run_quorumd("configs", verb, *resource, change)
        expect(f"exit code of quorumd: {done.stderr}", done.returncode, 0)

    def _await_cordon(self, node: TwoDirectories, *, is_cordoned: bool) -> None:
        wait_for("the cordon", lambda: node.described(node.first).is_cordoned == is_cordoned)


def _broker(broker_id: int) -> tuple[str, ...]:
    return ("--entity-type", "brokers", "--entity-name", str(broker_id))
