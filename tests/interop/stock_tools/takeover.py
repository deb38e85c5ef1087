"""Kafka's own clients and tools on a broker of quorumd, whose directory a stock broker uses in between."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from quorumd.cli.local_cluster import LocalCluster
from quorumd.testing import KafkaCluster
from tests.interop.stock_tools.claims import Step, expect
from tests.interop.stock_tools.tools import KAFKA, TOPICS, StockTools
from tests.interop.stock_tools.traffic import Traffic
from tests.support.processes.daemons import PATIENCE_S, wait_for

TOOLS = "org.apache.kafka.tools."
TOPIC, MEASURED, VERIFIED = "kept", "measured", "verified"
PARTITIONS = "3"
RECORDS = 5_000
GROUPS = ("classic", "consumer")
HEAP = ("-Xmx256M",)


class Takeover:
    """Claims about a node with both roles, whose directory quorumd uses, then Kafka, and then quorumd again."""

    def __init__(self, tools: StockTools, directory: Path) -> None:
        self._tools = tools
        self._directory = directory
        self._node = KafkaCluster(1, directory / "quorumd", tools.release)
        self._stock: subprocess.Popen[bytes] | None = None
        self._to: tuple[str, str] = ("", "")
        self._kept: Traffic | None = None

    def steps(self) -> list[Step]:
        return [
            ("a broker of quorumd gets the records of kafka-console-producer", self.begin),
            ("kafka-producer-perf-test writes, also in transactions", self.measure_producer),
            ("kafka-consumer-perf-test reads with both group protocols", self.measure_consumers),
            ("VerifiableConsumer reads all records of VerifiableProducer with both protocols", self.verify),
            ("kafka-transactions describes the producers of a partition", self.describe),
            ("a stock broker takes the directory over, with its records and groups", self.take_over),
            ("quorumd takes the directory back, with all records", self.return_to_quorumd),
        ]

    def stop(self) -> None:
        """Stop the processes that still run."""
        if self._stock is not None and self._stock.poll() is None:
            self._stock.kill()
            self._stock.wait()
        self._node.stop()

    def begin(self) -> str:
        self._node.start()
        bootstrap = self._node.bootstrap_servers
        self._to = ("--bootstrap-server", bootstrap)
        for topic in (TOPIC, MEASURED, VERIFIED):
            named = ("--create", "--topic", topic, "--partitions", PARTITIONS)
            self._tools.run(TOPICS, *self._to, *named)
        self._kept = Traffic(self._tools, bootstrap, TOPIC)
        return self._write()

    def _write(self) -> str:
        """Write further records, and read all records with both group protocols."""
        assert self._kept is not None
        with self._kept.producing(RECORDS):
            pass
        return [self._kept.check(protocol) for protocol in GROUPS][-1]

    def measure_producer(self) -> str:
        count = ("--num-records", str(RECORDS), "--record-size", "100", "--throughput", "-1")
        command = ("ProducerPerformance", "--topic", MEASURED, *count, *self._to)
        seen = []
        for more in ((), ("--transactional-id", "measured", "--transaction-duration-ms", "200")):
            done = self._tools.execute(TOOLS + command[0], *command[1:], *more)
            expect(f"exit code: {done.stderr}", done.returncode, 0)
            seen.append(done.stdout.strip().splitlines()[-1].split(",")[0])
        return ", ".join(seen)

    def measure_consumers(self) -> str:
        for protocol in GROUPS:
            setting = ("--command-property", f"group.protocol={protocol}")
            limits = ("--num-records", str(2 * RECORDS), "--timeout", "60000")
            output = self._tools.run(
                f"{TOOLS}ConsumerPerformance", *self._to, "--topic", MEASURED, *limits, *setting
            )
            consumed = int(output.strip().splitlines()[-1].split(",")[4])
            expect("whether all records were consumed", consumed >= 2 * RECORDS, True)
        return f"{2 * RECORDS:,} records"

    def verify(self) -> str:
        count = ("--max-messages", str(RECORDS))
        produced = self._tools.run(f"{TOOLS}VerifiableProducer", *self._to, "--topic", VERIFIED, *count)
        summary = json.loads(produced.strip().splitlines()[-1])
        expect("acknowledged records", (summary["sent"], summary["acked"]), (RECORDS, RECORDS))
        for protocol in GROUPS:
            group = ("--group-id", f"verified-{protocol}", "--group-protocol", protocol)
            read = ("--topic", VERIFIED, "--reset-policy", "earliest", *count)
            output = self._tools.run(f"{TOOLS}VerifiableConsumer", *self._to, *group, *read)
            events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
            consumed = sum(each["count"] for each in events if each["name"] == "records_consumed")
            expect(f"records consumed with {protocol}", consumed, RECORDS)
        return f"{RECORDS:,} records, each once"

    def describe(self) -> str:
        described = self._tools.run(
            f"{TOOLS}TransactionsCommand",
            *(*self._to, "describe-producers", "--topic", MEASURED, "--partition", "0"),
        )
        producers = len(described.strip().splitlines()) - 1
        expect("whether there are producers", producers > 0, True)
        return f"{producers} producers"

    def take_over(self) -> str:
        self._node.stop()
        config = self._stock_config()
        with (self._directory / "stock.log").open("wb") as log:
            command = self._tools.command(KAFKA, config, java=HEAP)
            self._stock = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for("the stock broker to list the topics", self._lists_topics, PATIENCE_S)
        seen = self._write()
        self._stock.send_signal(signal.SIGTERM)
        self._stock.wait(PATIENCE_S)
        return seen

    def _lists_topics(self) -> bool:
        listed = self._tools.execute(TOPICS, *self._to, "--list")
        return TOPIC in listed.stdout.split()

    def _stock_config(self) -> Path:
        """Write the settings of the node that a stock broker knows, and return the file."""
        node = LocalCluster.open(self._directory / "quorumd").nodes[0]
        lines = [line for line in node.config.read_text().splitlines() if not line.startswith("#")]
        settings = dict(line.split("=", 1) for line in lines if line)
        settings["controller.quorum.voters"] = settings.pop("quorum.voters")
        for name in ("metrics.listener", *(each for each in settings if settings[each].endswith("s"))):
            settings.pop(name, None)
        config = self._directory / "stock.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return config

    def return_to_quorumd(self) -> str:
        self._node.start()
        return self._write()
