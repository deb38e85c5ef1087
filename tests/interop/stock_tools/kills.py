"""Kafka's VerifiableProducer while the leaders of the quorum are killed: no record is lost or duplicated."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from tests.interop.stock_tools.claims import Step, expect
from tests.interop.stock_tools.kafka_brokers import KafkaBroker
from tests.interop.stock_tools.tools import CONSUMER, OFFSETS, QUICK, TOPICS, StockTools
from tests.support.processes.daemons import PATIENCE_S, Cluster, Daemon, run_quorumd, wait_for

PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
TOPIC = "verified"
PARTITIONS = 6
RECORDS_PER_S = 100
KILL_INTERVAL_S = 5.0
DOWN_S = 1.0
KILLS_PER_RESTART = 10
"""The number of kills between two restarts of a broker, which change leaders and ISRs of partitions as well."""
CONSUMER_TIMEOUT_MS = "60000"


class Kills:
    """Claims about a producer that writes increasing numbers from 0 to stock brokers."""

    def __init__(
        self, tools: StockTools, cluster: Cluster, brokers: list[KafkaBroker], seconds: float, directory: Path
    ) -> None:
        self._tools = tools
        self._cluster = cluster
        self._brokers = brokers
        self._seconds = seconds
        self._output = directory / "producer.log"
        self._bootstrap = ("--bootstrap-server", ",".join(broker.address for broker in brokers))
        self._acknowledged: list[int] = []

    def steps(self) -> list[Step]:
        return [
            (f"{len(self._brokers)} brokers start, and a topic is created", self.begin),
            (
                f"leaders of the quorum are killed for {self._seconds:.0f} s under VerifiableProducer",
                self.hurt,
            ),
            ("every acknowledged record is consumed, and none twice", self.compare),
        ]

    def begin(self) -> str:
        def are_running() -> bool:
            listed = run_quorumd(
                "brokers", "list", "--bootstrap-server", self._cluster.bootstrap, "--output", "json"
            )
            states = [each["state"] for each in json.loads(listed.stdout or "[]")]
            return states == ["running"] * len(self._brokers)

        wait_for("all brokers to run", are_running)
        size = ("--partitions", str(PARTITIONS), "--replication-factor", str(len(self._brokers)))
        self._tools.run(TOPICS, *self._bootstrap, "--create", "--topic", TOPIC, *size)
        return f"{PARTITIONS} partitions"

    def hurt(self) -> str:
        arguments = (*self._bootstrap, "--topic", TOPIC, "--throughput", str(RECORDS_PER_S), "--acks", "-1")
        pauses: list[float] = []
        with self._output.open("w") as output:
            command = self._tools.command(PRODUCER, *arguments, java=("-Xmx128M", *QUICK))
            producer = subprocess.Popen(command, stdout=output, stderr=output)
            try:
                wait_for("the first record", lambda: "producer_send_success" in self._output.read_text())
                ends = time.monotonic() + self._seconds
                while time.monotonic() < ends:
                    began = time.monotonic()
                    pauses.append(self._kill_the_leader())
                    if len(pauses) % KILLS_PER_RESTART == 0:
                        self._restart_a_broker(len(pauses) // KILLS_PER_RESTART)
                    time.sleep(max(0.0, began + KILL_INTERVAL_S - time.monotonic()))
                expect("exit code of the producer, None while it runs", producer.poll(), None)
            finally:
                producer.send_signal(signal.SIGTERM)
                producer.wait(PATIENCE_S)
        lines = [json.loads(line) for line in self._output.read_text().splitlines() if line.startswith("{")]
        self._acknowledged = [int(each["value"]) for each in lines if each["name"] == "producer_send_success"]
        errors = Counter(each.get("message") for each in lines if each["name"] == "producer_send_error")
        pauses.sort()
        return (
            f"{len(pauses)} kills, another node led after {pauses[len(pauses) // 2]:.2f} s (median), "
            f"{pauses[-1]:.2f} s (longest); {len(self._acknowledged):,} records acknowledged, "
            f"{sum(errors.values())} failed ({dict(errors)})"
        )

    def compare(self) -> str:
        topic = (*self._bootstrap, "--topic", TOPIC)
        ends = self._tools.run(OFFSETS, *topic)
        records = sum(int(line.rpartition(":")[2]) for line in ends.split())
        reading = ("--from-beginning", "--timeout-ms", CONSUMER_TIMEOUT_MS, "--max-messages", str(records))
        consumed = self._tools.execute(CONSUMER, *topic, *reading)
        found = Counter(map(int, consumed.stdout.split()))
        lost = [value for value in self._acknowledged if value not in found]
        expect("acknowledged records that were not consumed", lost[:10], [])
        expect("records consumed twice", [value for value, times in found.items() if times > 1][:10], [])
        expect("number of different records consumed", len(found), records)
        return f"{records:,} records consumed, each once"

    def _kill_the_leader(self) -> float:
        """Kill the leader and return the seconds until another node leads."""
        leader: Daemon = self._cluster.leader()
        began = time.monotonic()
        leader.kill()
        self._cluster.leader(besides=leader.node_id)
        seconds = time.monotonic() - began
        time.sleep(DOWN_S)
        leader.start()
        self._cluster.wait_until_level()
        return seconds

    def _restart_a_broker(self, number: int) -> None:
        """Restart a broker gracefully, so that the leaders of its partitions change."""
        broker = self._brokers[number % len(self._brokers)]
        broker.end(signal.SIGTERM)
        broker.start()
