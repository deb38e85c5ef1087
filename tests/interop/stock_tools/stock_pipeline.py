"""`--only pipeline`: the pipeline on a disturbed stock cluster, whose history a repeatedly killed process follows.

The cluster has three controllers and three brokers with small segments and many snapshots, and goes through random
changes, kills and truncations. Then the same commands run on its directories in one process and on a Spark master
with two workers.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from quorumd.client.admin import AdminClient
from quorumd.client.security import CLIENT_SECURITY, PLAIN
from quorumd.pipeline.audit.audit import audit_here
from quorumd.pipeline.history.history import open_history
from tests.interop.stock_tools.claims import ClaimBroken, Step, expect
from tests.interop.stock_tools.logs import Logs
from tests.interop.stock_tools.stock_changes import Changes
from tests.interop.stock_tools.stock_cluster import Shape, StockCluster
from tests.interop.stock_tools.stock_histories import truncate
from tests.interop.stock_tools.tools import StockTools
from tests.support.history.source_rows import read_table
from tests.support.log.damaged_logs import change_silently, flip_bit
from tests.support.plan.exact_leaders import smallest_maximum_and_largest_minimum
from tests.support.processes.daemons import run_quorumd
from tests.support.processes.standalone_spark import standalone_spark

SHAPE = Shape(
    settings={
        "metadata.log.max.record.bytes.between.snapshots": "10000",
        "internal.metadata.log.segment.bytes": "10000",
        "controller.quorum.fetch.timeout.ms": "5000",
    }
)
CHANGES = 10
PLANNED_TOPICS = 2
"""The minimum number of topics before a plan is made."""
FOLLOWED_S = 25.0
"""The minimum time for which a process follows the log before it is killed."""
COMMAND_TIMEOUT_S = 900.0
Partitions = dict[tuple[str, int], tuple[int, tuple[int, ...], tuple[int, ...]]]
"""The leader, replicas and sorted ISR of partitions, by topic and number."""


class StockPipeline:
    """Claims about the pipeline on one stock cluster."""

    def __init__(
        self, tools: StockTools, directory: Path, seconds: float, seed: int, report: Callable[[str], None]
    ) -> None:
        self._cluster = StockCluster(tools, directory / "cluster", SHAPE)
        self._directory = directory
        self._seconds = seconds
        self._random = Random(seed)
        self._report = report
        self._copies: dict[int, str] = {}
        self._live: Partitions = {}

    def steps(self) -> list[Step]:
        """Return all steps; one of them stops the cluster."""
        directories = [node.data / "__cluster_metadata-0" for node in self._cluster.controllers]
        logs = Logs(self._cluster.tools, directories, self._directory)
        return [
            ("three stock controllers and three brokers start", self.start),
            ("a plan is made, verified and applied with brokers and with controllers", self.plan),
            (f"nodes are killed for {self._seconds:.0f} s while a process follows the log", self.hurt),
            ("the cluster stops, and its directories are copied", self.copy),
            *logs.steps(),
            ("the history has each record once, and the partitions that the brokers reported", self.history),
            ("the audit of all copies reports no damage", self.audit),
            ("planted damage is reported at its offset", self.damage),
            ("audit and history are the same on a Spark master with two workers", self.standalone),
        ]

    def stop(self) -> None:
        self._cluster.stop()

    def start(self) -> str:
        self._cluster.format()
        self._cluster.start()
        changes = Changes(self._cluster, self._random)
        changes.set_kept_passwords()
        changes.make(5 * CHANGES)
        while changes.topic_count < PLANNED_TOPICS:
            changes.make(CHANGES)
        return f"{changes.made.total()} changes"

    def hurt(self) -> str:
        changes, kinds, over = Changes(self._cluster, self._random), Counter[str](), threading.Event()
        killed: list[int] = []
        snapshots: list[int] = []
        follower = threading.Thread(target=self._follow, args=(over, killed), daemon=True)
        follower.start()
        ends = time.monotonic() + self._seconds
        try:
            while time.monotonic() < ends:
                changes.make(CHANGES)
                kind = self._random.choice(["kill controller", "kill leader", "kill broker", "truncate"])
                self._report(f"{kind}, {ends - time.monotonic():.0f} s left")
                kinds[kind] += 1
                if kind == "truncate":
                    truncate(self._cluster, changes)
                    continue
                choices = self._cluster.brokers if kind == "kill broker" else self._cluster.controllers
                node = self._cluster.leader() if kind == "kill leader" else self._random.choice(choices)
                node.end(signal.SIGKILL)
                if kind == "kill leader":
                    snapshots.append(self._read_snapshot())
                changes.make(CHANGES)
                node.start()
        finally:
            over.set()
            follower.join()
        self._cluster.wait_until_level()
        self._build("live", "--bootstrap-server", self._cluster.bootstrap_controllers)
        return (
            f"{changes.made.total()} changes, {dict(kinds)}; follower killed {len(killed)} times; "
            f"snapshots read after the loss of a leader, by end offset: {snapshots}; "
            f"{changes.failed.total()} changes failed"
        )

    def _read_snapshot(self) -> int:
        """Read the newest snapshot of the running controllers; returns its end offset."""
        bootstrap = self._cluster.bootstrap_controllers
        offsets = read_table(None, ("snapshot_offset",), bootstrap=bootstrap, level="snapshot").column(0)
        (end_offset,) = offsets.unique().to_pylist()
        return int(end_offset)

    def _follow(self, over: threading.Event, killed: list[int]) -> None:
        command = [
            *(sys.executable, "-m", "quorumd", "pipeline", "history", "build", "--no-progress", "--follow"),
            *("--bootstrap-server", self._cluster.bootstrap_controllers, "--timeout", "300s"),
            *("--to", str(self._directory / "live"), "--master", "local[1]"),
        ]
        while not over.is_set():
            with (self._directory / "follower.log").open("ab") as output:
                child = subprocess.Popen(command, stdout=output, stderr=output)
                over.wait(FOLLOWED_S + self._random.random() * FOLLOWED_S)
                child.kill()
                child.wait()
                killed.append(child.pid)

    def plan(self) -> str:
        to = self._directory / "plan"
        where = ("--bootstrap-server", self._cluster.bootstrap)
        self._quorumd("plan", "make", "--replication-factor", "2", *where, "--out", to)
        self._quorumd("plan", "verify", to, *where, code=1)
        self._quorumd("plan", "apply", to, *where, "--execute", "--wave-timeout", "300s")
        self._quorumd("plan", "verify", to, *where)
        rows = [list(replicas) for _, replicas, _ in self._described().values()]
        brokers = list(self._cluster.shape.brokers)
        counts = Counter(row[0] for row in rows)
        most, _ = smallest_maximum_and_largest_minimum(rows, brokers)
        expect("maximum number of preferred leaders of a broker", max(counts.values()), most)
        refused = run_quorumd(
            *("pipeline", "plan", "make", "--replication-factor", "2", "--out", self._directory / "refused"),
            *("--bootstrap-server", self._cluster.bootstrap_controllers),
        )
        if refused.returncode == 1 or len(refused.stderr.splitlines()) > 1:
            raise ClaimBroken(f"plan make with controllers ended with {refused.returncode}: {refused.stderr}")
        return (
            f"{len(rows)} partitions, preferred leaders {dict(counts)}; controllers: {refused.stderr.strip()}"
        )

    def _described(self) -> Partitions:
        async def describe() -> Partitions:
            CLIENT_SECURITY.set(PLAIN)
            async with AdminClient([("127.0.0.1", node.port) for node in self._cluster.brokers]) as admin:
                return {
                    (str(topic.name), each.partition_index): (
                        each.leader_id,
                        tuple(each.replica_nodes),
                        tuple(sorted(each.isr_nodes)),
                    )
                    for topic in await admin.describe_topics()
                    for each in topic.partitions
                }

        return asyncio.run(describe())

    def copy(self) -> str:
        self._live = self._described()
        for node in self._cluster.controllers:
            node.end(signal.SIGTERM)
        self._cluster.stop()
        self._copies = self._cluster.copy(self._directory / "copies")
        size = sum(file.stat().st_size for file in (self._directory / "copies").rglob("*.log"))
        return f"{len(self._copies)} copies, {size:,} bytes of log"

    def history(self) -> str:
        self._build("built", "--from", self._paths())
        built, live = (open_history(self._directory / name) for name in ("built", "live"))
        offsets = [sorted(each.read("events", ["offset"])["offset"].to_pylist()) for each in (built, live)]
        for name, found in zip(("built", "live"), offsets, strict=True):
            expect(f"offsets of the {name} history", found, list(range(found[0], found[-1] + 1)))
        columns = ["topic", "partition", "leader", "replicas", "isr"]
        current = {
            (row["topic"], row["partition"]): (
                row["leader"],
                tuple(row["replicas"]),
                tuple(sorted(row["isr"])),
            )
            for row in built.read("partition_current", columns).to_pylist()
        }
        expect("leader, replicas and ISR of partitions", current, self._live)
        return (
            f"{len(offsets[0]):,} records, {len(offsets[1]):,} followed, each once; {len(current)} partitions"
        )

    def audit(self) -> str:
        findings = json.loads(self._audit("local[2]"))
        alarms = [f for f in findings if f["severity"] != "INFO" and f["code"] != "STALE_CONFIGS"]
        expect("findings above INFO", alarms, [])
        return str(dict(Counter(f"{each['severity']} {each['code']}" for each in findings)))

    def damage(self) -> str:
        found = []
        for spoil, code in ((flip_bit, "BAD_CRC"), (change_silently, "DIVERGED")):
            directories = {node: self._directory / code / str(node) for node in SHAPE.controllers}
            for node, directory in directories.items():
                shutil.copytree(self._copies[node], directory)
            end = max(node["endOffset"] for node in audit_here({1: str(directories[1])}).nodes())
            batch = spoil(directories[2], self._random.randrange(end // 2))
            report = audit_here({node: str(directory) for node, directory in directories.items()})
            places = [each.offset_lo for each in report.findings if each.code == code]
            expect(f"offset of {code}", places, [batch.base_offset])
            found.append(f"{code} at {batch.base_offset}")
        return ", ".join(found)

    def standalone(self) -> str:
        here = self._audit("local[2]")
        with standalone_spark(self._directory) as master:
            there = self._audit(master)
            self._build("cluster", "--from", self._paths(), "--master", master)
        expect("findings", json.loads(there), json.loads(here))
        one, other = (open_history(self._directory / name) for name in ("built", "cluster"))
        for table in ("events", "partition_current", "topics", "brokers"):
            rows = [Counter(map(str, each.read(table).to_pylist())) for each in (one, other)]
            expect(f"rows of {table}", rows[1], rows[0])
        return f"{len(json.loads(here))} findings and four tables are equal"

    def _paths(self) -> str:
        return ",".join(f"{node}={directory}" for node, directory in self._copies.items())

    def _audit(self, master: str) -> str:
        directories = [f"{node}={directory}" for node, directory in self._copies.items()]
        done = run_quorumd(
            *("pipeline", "audit", *directories, "--output", "json", "--no-progress", "--master", master),
            timeout=COMMAND_TIMEOUT_S,
        )
        if done.returncode > 1:
            raise ClaimBroken(f"audit ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def _build(self, name: str, *source: str) -> None:
        self._quorumd("history", "build", *source, "--to", self._directory / name, "--no-progress")

    def _quorumd(self, *arguments: str | Path, code: int = 0) -> str:
        done = run_quorumd("pipeline", *arguments, timeout=COMMAND_TIMEOUT_S)
        expect(f"exit code of {' '.join(map(str, arguments[:2]))}: {done.stderr}", done.returncode, code)
        return done.stdout
