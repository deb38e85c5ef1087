"""A column of the table of verbs: a version of Kafka's brokers and tools on a quorum with one voter style."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

from quorumd.ids import KafkaUuid
from quorumd.protocol.batch_scan import Gapless, scan
from tests.interop.stock_tools.claims import ClaimBroken, shortened
from tests.interop.stock_tools.kafka_brokers import KafkaBroker, kafka_brokers
from tests.interop.stock_tools.tool_server import Done, ToolServer
from tests.interop.stock_tools.tools import CONSUMER, PRODUCER, STORAGE, StockTools
from tests.interop.stock_tools.verbs import ROWS, STOPPED_ROWS, TOOLS, Row
from tests.support.processes.daemons import Cluster, Daemon, run_quorumd, wait_for
from tests.support.processes.ports import free_port

BROKERS = {101: "a", 102: "b", 103: "c"}
OBSERVER = 4
"""A quorumd node that starts as an observer."""
HOLDS, NOT_THERE = "yes", "-"
EVENTUALLY_S, AGAIN_S = 20.0, 0.5
SHARE_VERSION_2 = (4, 4)
STARTS_S = 400.0
SEPARATE_JVM = ("org.apache.kafka.shell.MetadataShell",)
"""Tools that can run only once per JVM; a second run would wait forever for a snapshot."""
FAILURES = ("Could not", "Exception:", "rror:")


class Style(StrEnum):
    """The source from which nodes and brokers know the voters."""

    STATIC = "static"
    """The voters are in controller.quorum.voters of all properties files."""
    DYNAMIC = "dynamic"
    """The voters are in the log, after `format --initial-controllers`; nodes and brokers have
    controller.quorum.bootstrap.servers."""


class FoundedCluster(Cluster):
    """Three voters, which `quorumd format` formatted for a release of Kafka, and an observer.

    The properties files are valid for a stock controller, so that Kafka's tools can read them.
    """

    def __init__(self, directory: Path, style: Style, release: str) -> None:
        self.style = style
        ports = {node_id: free_port() for node_id in (1, 2, 3, OBSERVER)}
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in ports.items() if node != OBSERVER)
        servers = ",".join(f"127.0.0.1:{port}" for node, port in ports.items() if node != OBSERVER)
        dynamic = f"controller.quorum.bootstrap.servers={servers}\n"
        self.quorum = f"controller.quorum.voters={voters}\n" if style == Style.STATIC else dynamic
        stock = (
            "process.roles=controller\ncontroller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT\n"
        )
        nodes = {
            node: Daemon(
                directory / f"node-{node}", node, port, {},
                stock + (dynamic if node == OBSERVER else self.quorum),
            )
            for node, port in ports.items()
        }  # fmt: skip
        self.observer = nodes.pop(OBSERVER)
        self.daemons = nodes
        options = ["--release-version", release]
        directory_ids = {node: KafkaUuid(uuid4().bytes) for node in nodes}
        controllers = ",".join(
            f"{n}@127.0.0.1:{ports[n]}:{directory_id}" for n, directory_id in directory_ids.items()
        )
        cluster_id = str(KafkaUuid(uuid4().bytes))
        for daemon in nodes.values():
            how = ["--initial-controllers", controllers] if style == Style.DYNAMIC else []
            daemon.format("--cluster-id", cluster_id, *how, *options)
        self.observer.format("--cluster-id", cluster_id, "--no-initial-controllers")

    def start(self) -> None:
        super().start()
        self.observer.start()

    def stop(self) -> None:
        super().stop()
        self.observer.stop()


class Cell:
    """A running quorum with brokers, on which the rows of a column are tested."""

    def __init__(
        self, tools: StockTools, release: str, server: ToolServer, cluster: FoundedCluster,
        brokers: list[KafkaBroker], directory: Path,
    ) -> None:  # fmt: skip
        self._tools = tools
        self._release = tuple(map(int, release.split(".")[:2]))
        self._server = server
        self._cluster = cluster
        self._brokers = brokers
        self._directory = directory
        self.names = {
            "brokers": ",".join(broker.address for broker in brokers),
            "controllers": cluster.bootstrap,
            "cluster": cluster.cluster_id(),
            "release": ".".join(map(str, self._release)),
            "share": "2" if self._release >= SHARE_VERSION_2 else "1",
            "node": str(cluster[1].config),
            "observer": str(cluster.observer.config),
            "directory": _directory_id(cluster.observer),
            "producer": " ".join(tools.client_property(PRODUCER, "")).strip(),
            "consumer": " ".join(tools.client_property(CONSUMER, "")).strip(),
        }
        self.names["B"] = f"--bootstrap-server {self.names['brokers']}"
        self.names["C"] = f"--bootstrap-controller {self.names['controllers']}"
        self._write_files()

    def run(self, report: Callable[[str], None]) -> dict[str, str]:
        """Test all rows, and return the results by command."""
        self._wait_for_brokers()
        results = {}
        for row in ROWS:
            if row.tool in ("kafka-dump-log", "kafka-metadata-shell"):
                self._copy_log()
            results[row.command] = self._tried(row)
            report(f"{row.command}: {results[row.command]}")
        self._brokers[-1].end(signal.SIGTERM)
        for row in STOPPED_ROWS:
            results[row.command] = self._tried(row)
            report(f"{row.command}: {results[row.command]}")
        return results

    def _tried(self, row: Row) -> str:
        if self._release < row.since or (row.needs_own_tools and not self._tools.are_of_brokers):
            return NOT_THERE
        deadline = time.monotonic() + (EVENTUALLY_S if row.is_eventual else 0.0)
        while True:
            try:
                why = self._complaint(row, self._done(row))
            except ClaimBroken as broken:
                why = str(broken)
            if why is None:
                return HOLDS
            if time.monotonic() >= deadline:
                return why
            time.sleep(AGAIN_S)

    def _done(self, row: Row) -> Done:
        arguments = [self._filled(argument) for argument in row.arguments.split()]
        flat = [part for argument in arguments for part in argument.split()]
        tool = TOOLS[row.tool] or self._tools.dump_log
        if tool in SEPARATE_JVM or (tool == STORAGE and self._tools.brokers != self._tools.jars):
            ended = self._tools.execute(tool, *flat)
            done = Done(ended.returncode, ended.stdout, ended.stderr)
        else:
            done = self._server.run(tool, *flat, stdin=row.stdin)
        with (self._directory / "tools.log").open("a") as log:
            log.write(f"$ {row.command}\n{done.text}exit code {done.code}\n\n")
        return done

    def _complaint(self, row: Row, done: Done) -> str | None:
        """Return the reason if a result does not match its row; None if it matches."""
        if done.code != row.code:
            return f"exit code {done.code}: {_most_specific_line(done.text)}"
        if row.lines is not None and (lines := len(done.output.splitlines())) != row.lines:
            return f"{lines} lines instead of {row.lines}: {_most_specific_line(done.errors)}"
        expected = self._filled(row.expects) if row.expects.endswith("{cluster}") else row.expects
        if not re.search(expected, done.text, re.S):
            return f"without {row.expects!r}: {_most_specific_line(done.text)}"
        return None

    def _filled(self, text: str) -> str:
        for name, value in self.names.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def _wait_for_brokers(self) -> None:
        def are_running() -> bool:
            for broker in self._brokers:
                if not broker.runs:
                    raise ClaimBroken(f"broker {broker.broker_id} ended: {_last_error(broker.output)}")
            listed = run_quorumd(
                "brokers", "list", "--bootstrap-server", self._cluster.bootstrap, "--output", "json"
            )
            states = [each["state"] for each in json.loads(listed.stdout or "[]")]
            return states == ["running"] * len(self._brokers)

        wait_for("all brokers to run", are_running, STARTS_S)

    def _write_files(self) -> None:
        partition = {"topic": "orders", "partition": 0}
        files = {
            "topics": {"version": 1, "topics": [{"topic": "orders"}]},
            "plan": {"version": 1, "partitions": [{**partition, "replicas": [103, 101, 102]}]},
            "deleted": {"version": 1, "partitions": [{**partition, "offset": -1}]},
        }
        for name, content in files.items():
            path = self._directory / f"{name}.json"
            path.write_text(json.dumps(content))
            self.names[name] = str(path)

    def _copy_log(self) -> None:
        """Build a snapshot, and copy the log of a node without preallocated zeros, unless there is a copy."""
        if "snapshot" in self.names:
            return
        daemon = self._cluster[1]
        run_quorumd("snapshot", "--config", daemon.config)
        dumped = self._directory / "copy"
        shutil.copytree(daemon.partition_directory, dumped)
        snapshots = sorted(dumped.glob("*.checkpoint"))
        if snapshots:
            self.names["snapshot"] = str(snapshots[-1])
        segment = sorted(dumped.glob("*.log"))[0]
        data = segment.read_bytes()
        last = scan(data, Gapless()).headers[-1]
        segment.write_bytes(data[: last.position + last.size])
        self.names["segment"] = str(segment)


@contextmanager
def running_cell(tools: StockTools, release: str, style: Style, directory: Path) -> Iterator[Cell]:
    """Start a quorum of a voter style with brokers of a release; stop all processes at the end."""
    directory.mkdir(parents=True)
    cluster = FoundedCluster(directory, style, ".".join(release.split(".")[:2]))
    try:
        cluster.start()
        with (
            kafka_brokers(tools, cluster, BROKERS, directory, cluster.quorum) as brokers,
            ToolServer(tools) as server,
        ):
            yield Cell(tools, release, server, cluster, brokers, directory)
    finally:
        cluster.stop()


def _directory_id(daemon: Daemon) -> str:
    lines = (daemon.data / "meta.properties").read_text().splitlines()
    return next(line.removeprefix("directory.id=") for line in lines if line.startswith("directory.id="))


def _most_specific_line(output: str) -> str:
    """Return the first line that names a failure, or the last line; stack traces are ignored."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("\t")]
    failures = [line for line in lines if any(word in line for word in FAILURES)]
    return shortened((failures[:1] or lines[-1:] or ["it printed nothing"])[0])


def _last_error(output: Path) -> str:
    lines = [
        line
        for line in output.read_text(errors="replace").splitlines()
        if "ERROR" in line or "Exception" in line
    ]
    return shortened(lines[-1]) if lines else "without an error"
