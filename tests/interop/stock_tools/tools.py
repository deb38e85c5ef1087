"""Kafka's own command-line tools: from Maven into a folder, once, and run as their scripts run them."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from quorumd.errors import JobFailed
from quorumd.pipeline.java import find_java
from quorumd.pipeline.settings import QUICK_JAVA
from tests.interop.stock_tools.claims import ClaimBroken, shortened

HERE = Path(__file__).parent
INSTALL_MAVEN = "install it (Debian, Ubuntu: apt install maven)"
FETCH_TIMEOUT_S = 1800
TIMEOUT_S = 600
"""Of a tool that takes a second."""
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
"""What kafka-run-class gives every tool that is not told otherwise."""
QUICK = tuple(QUICK_JAVA.split())
"""For what lasts a second."""
BROKER = "kafka.Kafka"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
_MOVED_IN = (4, 3)


class ToolsMissing(Exception):
    """What to install, in one line."""


@dataclass(frozen=True, slots=True)
class StockTools:
    """The tools of one version of Kafka."""

    java: str
    jars: Path
    version: str

    @property
    def dump_log(self) -> str:
        """The class behind kafka-dump-log; it is another one since Kafka 4.3."""
        release = tuple(map(int, self.version.split(".")[:2]))
        return f"{'org.apache.kafka' if release >= _MOVED_IN else 'kafka'}.tools.DumpLogSegments"

    def command(self, tool: str, *arguments: str | Path, java: tuple[str, ...] = USUAL_JAVA) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
        return [self.java, *java, logging, "-cp", f"{self.jars}/*", tool, *map(str, arguments)]

    def ask(self, tool: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """One run to its end, whatever that is; quick to start, not made to last."""
        command = self.command(tool, *arguments, java=QUICK)
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def run(self, tool: str, *arguments: str | Path) -> str:
        """What a tool prints that does its work without a word of complaint. Raises ClaimBroken."""
        done = self.ask(tool, *arguments)
        if done.returncode or done.stderr:
            name = tool.rpartition(".")[2]
            said = shortened((done.stderr or done.stdout).strip())
            raise ClaimBroken(f"{name} {' '.join(map(str, arguments))} ended with {done.returncode}: {said}")
        return done.stdout


def stock_tools(folder: Path, version: str) -> StockTools:
    """The tools of a version, from `folder` if they are there. Raises ToolsMissing."""
    try:
        java = find_java(os.environ).home
    except JobFailed as missing:
        raise ToolsMissing(str(missing)) from None
    jars = folder / version
    if not jars.exists():
        _fetch(jars, version)
    return StockTools(str(Path(java, "bin", "java")), jars.resolve(), version)


def _fetch(jars: Path, version: str) -> None:
    if shutil.which("mvn") is None:
        raise ToolsMissing(f"mvn not found: Maven gets Kafka's jars; {INSTALL_MAVEN}")
    partial = jars.with_name(f"{version}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    done = subprocess.run(
        [
            *(
                "mvn",
                "-q",
                "-B",
                "-Dstyle.color=never",
                "-f",
                str(HERE / "pom.xml"),
                f"-Dkafka.version={version}",
            ),
            *("dependency:copy-dependencies", f"-DoutputDirectory={partial.resolve()}"),
        ],
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line] or [done.stderr.strip()]
        raise ToolsMissing(f"mvn did not get Kafka {version}: {errors[0]}")
    # Whole or not there.
    partial.rename(jars)
