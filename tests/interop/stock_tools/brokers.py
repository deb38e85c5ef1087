"""Kafka's own brokers, clients and tools on a quorum of quorumd: no record is lost or read twice."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Sequence

from tests.interop.stock_tools.claims import Step, expect
from tests.interop.stock_tools.kafka_brokers import KafkaBroker
from tests.interop.stock_tools.tools import FEATURES, LEADER_ELECTION, TOPICS, StockTools
from tests.interop.stock_tools.traffic import Traffic
from tests.support.plan.placement import partitions
from tests.support.processes.daemons import Cluster, run_quorumd, wait_for

ORDERS = "orders"
CROWDED = ("101:102:103", "102:103:101", "103:101:102", "101:103:102", "102:101:103", "103:102:101")
"""The replicas of the topics' partitions, without the fourth broker."""
SIZES = {ORDERS: 6, "payments": 90}
"""Numbers of partitions. Only the first topic gets records; the second fills segments of the quorum's log."""
RECORDS = 10_000
"""Number of records in the first topic at the start, 2 MB."""


class Brokers:
    """Claims about four stock brokers, with topics on three of them."""

    def __init__(
        self, tools: StockTools, cluster: Cluster, brokers: Sequence[KafkaBroker], traffic: Traffic
    ) -> None:
        self._tools = tools
        self._cluster = cluster
        self._brokers = brokers
        self._traffic = traffic
        self._bootstrap = ("--bootstrap-server", ",".join(broker.address for broker in brokers))

    def beginning(self) -> list[Step]:
        """Return the steps that all other steps need."""
        return [
            (f"{len(self._brokers)} brokers start on {len(self._cluster.daemons)} daemons", self.start),
            ("kafka-topics creates topics; all produced records are consumed", self.produce),
            ("a consumer with server-side assignment (KIP-848) reads all records", self.consume),
            (
                "kafka-features accepts the release of the cluster and rejects others with the reason",
                self.upgrade,
            ),
        ]

    def steps(self) -> list[Step]:
        return [
            ("kafka-leader-election gives every partition its preferred leader", self.elect),
            ("a broker is killed with kill -9: others lead, and it is in sync after its restart", self.kill),
            ("a broker is shut down: it hands over its partitions, ends, and restarts", self.shut_down),
        ]

    def start(self) -> str:
        self._wait_for_running(len(self._brokers))
        return ", ".join(str(broker.broker_id) for broker in self._brokers)

    def produce(self) -> str:
        for topic, size in SIZES.items():
            replicas = ",".join(CROWDED[number % len(CROWDED)] for number in range(size))
            named = ("--create", "--topic", topic, "--replica-assignment", replicas)
            self._tools.run(TOPICS, *self._bootstrap, *named)
        with self._traffic.producing(RECORDS):
            pass
        return self._traffic.check()

    def consume(self) -> str:
        return self._traffic.check("consumer")

    def upgrade(self) -> str:
        """Upgrade to the current levels, which changes nothing, and to an unknown level, which is rejected."""
        same = ("--release-version", self._tools.release)
        # Tools of an older release do not know the release of the cluster.
        there = self._features(*(same if self._tools.are_of_brokers else ("--feature", "kraft.version=1")))
        expect(
            f"exit code of an upgrade to the current levels: {there.stdout}{there.stderr}",
            there.returncode,
            0,
        )
        newest = self._features("--feature", "metadata.version=99")
        printed = f"{newest.stdout}{newest.stderr}"
        expect(f"exit code for an unknown level: {printed}", newest.returncode, 1)
        reason = "The active controller supports only versions 21 to 33"
        expect(f"the reason is named: {printed}", reason in printed, True)
        rejection = next(line for line in printed.splitlines() if reason in line).strip()
        return f"unchanged levels are accepted; {rejection}"

    def _features(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._tools.execute(FEATURES, *self._bootstrap, "upgrade", *arguments)

    def elect(self) -> str:
        which = ("--election-type", "preferred", "--all-topic-partitions")
        self._tools.run(LEADER_ELECTION, *self._bootstrap, *which)
        found = partitions(self._cluster)
        preferred = {name: partition.replica_nodes[0] for name, partition in found.items()}
        wait_for("the preferred leaders", lambda: self._leaders() == preferred)
        return f"{len(preferred)} partitions"

    def kill(self) -> str:
        broker = self._brokers[0]
        with self._traffic.producing():
            broker.end(signal.SIGKILL)
            self._wait_for_running(len(self._brokers) - 1)
            wait_for("the others to lead", lambda: not self._led_by(broker))
            self._bring_back(broker)
        return self._traffic.check()

    def shut_down(self) -> str:
        broker = self._brokers[1]
        with self._traffic.producing():
            began = time.monotonic()
            broker.end(signal.SIGTERM)
            seconds = time.monotonic() - began
            expect("partitions that it leads", self._led_by(broker), [])
            self._wait_for_running(len(self._brokers) - 1)
            self._bring_back(broker)
        return f"gone after {seconds:.1f} s; {self._traffic.check()}"

    def _bring_back(self, broker: KafkaBroker) -> None:
        broker.start()
        self._wait_for_running(len(self._brokers))
        wait_for("all replicas to be in sync", self._are_in_sync)

    def _wait_for_running(self, number: int) -> None:
        def are_running() -> bool:
            done = run_quorumd(
                "brokers", "list", "--bootstrap-server", self._cluster.bootstrap, "--output", "json"
            )
            states = [broker["state"] for broker in json.loads(done.stdout or "[]")]
            return len(states) == len(self._brokers) and states.count("running") == number

        wait_for(f"{number} brokers to run", are_running)

    def _leaders(self) -> dict[str, int]:
        return {name: partition.leader_id for name, partition in partitions(self._cluster).items()}

    def _led_by(self, broker: KafkaBroker) -> list[str]:
        return [name for name, leader in self._leaders().items() if leader == broker.broker_id]

    def _are_in_sync(self) -> bool:
        return all(
            set(partition.isr_nodes) == set(partition.replica_nodes)
            for partition in partitions(self._cluster).values()
        )
