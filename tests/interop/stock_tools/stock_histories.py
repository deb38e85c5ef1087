"""`--only histories`: the audit reports nothing about the metadata logs of healthy stock clusters.

Each cluster has random settings, and goes through random changes, kills and truncations. The logs are copied several
times while the cluster runs, and each set of copies is audited, as an operator would do it.
"""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from quorumd.pipeline.audit.audit import audit_here
from quorumd.pipeline.audit.findings import Severity
from tests.interop.stock_tools.claims import Step, expect
from tests.interop.stock_tools.stock_changes import Changes
from tests.interop.stock_tools.stock_cluster import Shape, StockCluster, StockNode, stock_cluster
from tests.interop.stock_tools.tools import StockTools

HISTORIES_PER_CLUSTER = 13
CHANGES = 25
UNCOMMITTED = 3
"""The number of changes requested from a leader without followers, whose records are truncated later."""
UNCOMMITTED_TIMEOUT_MS = 1500
NODES = (1, 2, 3)


class StockHistories:
    """The claim that histories of clusters, with these versions in turn, are audited without a false alarm."""

    def __init__(
        self,
        versions: Sequence[StockTools],
        directory: Path,
        histories: int,
        seed: int,
        report: Callable[[str], None],
    ) -> None:
        self._versions = versions
        self._directory = directory
        self._left = histories
        self._seed = seed
        self._report = report
        self.kept: Counter[str] = Counter()
        """Counts of audited histories, clusters, copies, records and snapshots, of disturbances and changes."""
        self._findings: Counter[str] = Counter()
        self._alarms: list[str] = []

    def steps(self) -> list[Step]:
        return [(f"{self._left} histories of stock clusters are audited without a false alarm", self.run)]

    def run(self) -> str:
        while self._left:
            random = Random(self._seed + self.kept["clusters"])
            tools = self._versions[self.kept["clusters"] % len(self._versions)]
            directory = self._directory / f"cluster-{self.kept['clusters']}"
            self.kept["clusters"] += 1
            with stock_cluster(tools, directory, drawn_shape(random)) as cluster:
                self._live(cluster, random, directory)
            shutil.rmtree(directory / "node-1", ignore_errors=True)
        expect("false alarms", self._alarms, [])
        counted = ", ".join(f"{count:,} {what}" for what, count in self.kept.items())
        return f"{counted}; findings {dict(self._findings)}"

    def _live(self, cluster: StockCluster, random: Random, directory: Path) -> None:
        changes = Changes(cluster, random)
        changes.set_kept_passwords()
        for number in range(min(self._left, HISTORIES_PER_CLUSTER)):
            if number:
                self._disturb(cluster, changes, random)
            changes.make(CHANGES)
            self._audit(cluster, directory / f"history-{number}")
            self._left -= 1
        self.kept["changes"] += changes.made.total()
        self._report(f"{directory.name}: {dict(changes.made)}, failed {dict(changes.failed)}")

    def _audit(self, cluster: StockCluster, to: Path) -> None:
        report = audit_here(cluster.copy(to))
        self.kept["histories"] += 1
        self.kept["copies"] += len(report.copies)
        self.kept["records"] += sum(copy.records for copy in report.copies.values())
        self.kept["snapshots"] += len(report.snapshots)
        self._findings.update(f"{finding.severity.name} {finding.code}" for finding in report.findings)
        # STALE_CONFIGS is not a false alarm: stock nodes keep configs of deleted resources.
        alarms = [
            finding
            for finding in report.findings
            if finding.severity > Severity.INFO and finding.code != "STALE_CONFIGS"
        ]
        self._alarms += [f"{to}: {finding.row()}" for finding in alarms]
        for finding in alarms:
            self._report(f"{to}: {finding.row()}")
        if not alarms:
            shutil.rmtree(to)
        self._report(f"{self.kept['histories']} histories, {len(self._alarms)} false alarms")

    def _disturb(self, cluster: StockCluster, changes: Changes, random: Random) -> None:
        kind = random.choice(["none", "none", "kill", "stop", "kill leader", "truncate"])
        self.kept[kind] += 1
        if kind in ("kill", "stop"):
            node = random.choice(list(cluster.nodes.values()))
            node.end(signal.SIGKILL if kind == "kill" else signal.SIGTERM)
            changes.make(CHANGES // 4)
            node.start()
        elif kind == "kill leader":
            leader = cluster.leader()
            leader.end()
            cluster.leader()
            leader.start()
        elif kind == "truncate":
            truncate(cluster, changes)


def truncate(cluster: StockCluster, changes: Changes) -> None:
    """Let a leader append records that it cannot commit, and let a controller without them become the leader."""
    leader = cluster.leader()
    others: list[StockNode] = [node for node in cluster.controllers if node is not leader]
    for node in others:
        node.end()
    changes.make(UNCOMMITTED, UNCOMMITTED_TIMEOUT_MS)
    leader.end()
    for node in others:
        node.start()
    cluster.leader()
    leader.start()


def drawn_shape(random: Random) -> Shape:
    """Draw settings of logs and snapshots."""
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": str(random.choice([2_000, 10_000, 50_000])),
        "metadata.log.max.snapshot.interval.ms": str(random.choice([5_000, 3_600_000])),
        "internal.metadata.log.segment.bytes": str(random.choice([10_000, 50_000, 1 << 30])),
        "metadata.max.retention.bytes": str(random.choice([50_000, 1 << 30])),
        "metadata.max.idle.interval.ms": str(random.choice([100, 500])),
        "controller.quorum.fetch.timeout.ms": str(random.choice([2_000, 10_000])),
    }
    return Shape(NODES, NODES, random.random() < 0.4, settings)
