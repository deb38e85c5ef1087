"""Kafka's own command-line tools, which are downloaded with Maven and run like their scripts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from quorumd.errors import JobFailed
from quorumd.pipeline.spark.java import find_java
from quorumd.pipeline.spark.settings import QUICK_JAVA
from tests.interop.stock_tools.claims import ClaimBroken, shortened

HERE = Path(__file__).parent
INSTALL_MAVEN = "install it (Debian, Ubuntu: apt install maven)"
FETCH_TIMEOUT_S = 1800
TIMEOUT_S = 600
"""The timeout of a tool, which usually takes seconds."""
USUAL_JAVA = (
    *(
        "-Xmx256M",
        "-server",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
    ),
    *("-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
)
"""The default options of kafka-run-class."""
QUICK = tuple(QUICK_JAVA.split())
"""Options for short runs."""
CONFIGS = "kafka.admin.ConfigCommand"
KAFKA = "kafka.Kafka"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
STORAGE = "kafka.tools.StorageTool"
TOPICS = "org.apache.kafka.tools.TopicCommand"
_DUMP_LOG_MOVED = (4, 3)
_PROPERTIES_RENAMED = (4, 2)


_BEGINS_LATER = re.compile(r"^Non-consecutive offsets in .*/0*(\d+)\.log\n  -1 is followed by \1\n", re.M)


class ToolsMissing(Exception):
    """Java, Maven or the jars are missing; the message names the cause."""


@dataclass(frozen=True, slots=True)
class StockTools:
    """The tools of one version of Kafka, and brokers, which usually have the same version."""

    java: str
    brokers: Path
    """The directory with the jars of brokers."""
    jars: Path
    """The directory with the jars of tools."""
    version: str
    """The version of the tools."""
    release: str
    """The release of the brokers, with which a cluster is formatted: 4.1 for 4.1.0."""

    @property
    def are_of_brokers(self) -> bool:
        """Whether brokers and tools are of the same release."""
        return self.version.startswith(f"{self.release}.")

    @property
    def dump_log(self) -> str:
        """The class of kafka-dump-log, which has another package since Kafka 4.3."""
        return f"{'org.apache.kafka' if self._release >= _DUMP_LOG_MOVED else 'kafka'}.tools.DumpLogSegments"

    @property
    def _release(self) -> tuple[int, ...]:
        return tuple(map(int, self.version.split(".")[:2]))

    def client_property(self, tool: str, setting: str) -> tuple[str, str]:
        """Return the option for a client property of the console producer or consumer.

        Kafka 4.2 renamed the option (KIP-1147), and for the old name it prints a warning between the records.
        """
        old = "--producer-property" if tool == PRODUCER else "--consumer-property"
        return ("--command-property" if self._release >= _PROPERTIES_RENAMED else old), setting

    def command(self, tool: str, *arguments: str | Path, java: tuple[str, ...] = USUAL_JAVA) -> list[str]:
        jars = self.brokers if tool in (KAFKA, STORAGE) else self.jars
        logging = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
        return [self.java, *java, logging, "-cp", f"{jars}/*", tool, *map(str, arguments)]

    def execute(self, tool: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a tool to its end, with options for short runs."""
        command = self.command(tool, *arguments, java=QUICK)
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def run(self, tool: str, *arguments: str | Path) -> str:
        """Run a tool and return its stdout. Raises ClaimBroken if it fails or prints warnings."""
        done = self.execute(tool, *arguments)
        complaints = without_false_alarms(done.stderr)
        if done.returncode or complaints:
            name = tool.rpartition(".")[2]
            reason = shortened((complaints or done.stdout).strip())
            raise ClaimBroken(
                f"{name} {' '.join(map(str, arguments))} ended with {done.returncode}: {reason}"
            )
        return done.stdout


def without_false_alarms(complaints: str) -> str:
    """Remove a false warning of kafka-dump-log, which since Kafka 4.3 expects every file to start at offset 0."""
    return _BEGINS_LATER.sub("", complaints)


def stock_tools(directory: Path, brokers: str, version: str) -> StockTools:
    """Return brokers and tools of some versions, and download them to `directory` if needed. Raises ToolsMissing."""
    try:
        java = find_java(os.environ).home
    except JobFailed as missing:
        raise ToolsMissing(str(missing)) from None
    return StockTools(
        str(Path(java, "bin", "java")),
        _jars(directory, brokers, version),
        _jars(directory, version, version),
        version,
        ".".join(brokers.split(".")[:2]),
    )


def _jars(directory: Path, kafka: str, tools: str) -> Path:
    jars = directory / (kafka if tools == kafka else f"{kafka}-tools-{tools}")
    if not jars.exists():
        _fetch(jars, kafka, tools)
    return jars.resolve()


def _fetch(jars: Path, kafka: str, tools: str) -> None:
    if shutil.which("mvn") is None:
        raise ToolsMissing(f"mvn not found: Maven is needed to download Kafka's jars; {INSTALL_MAVEN}")
    partial = jars.with_name(f"{jars.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    done = subprocess.run(
        [
            *("mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(HERE / "pom.xml")),
            *(f"-Dkafka.version={kafka}", f"-Dtools.version={tools}"),
            *("dependency:copy-dependencies", f"-DoutputDirectory={partial.resolve()}"),
        ],
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line] or [done.stderr.strip()]
        raise ToolsMissing(f"mvn could not download Kafka {jars.name}: {errors[0]}")
    # The directory is renamed when it is complete, so that an interrupted download is repeated.
    partial.rename(jars)
