"""After a run: an audit of the nodes' logs by `quorumd pipeline audit`, if Java is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quorumd.errors import JobFailed
from quorumd.pipeline.audit.audit import audit_here
from quorumd.pipeline.spark.java import find_java, need_extra

TIMEOUT_S = 300.0
REPORT = "audit.json"
DATA, HISTORY, PLAN = "data", "history", "plan"
"""Directories of one run: the nodes' data, and the output of `pipeline_commands`."""
NOT_CLEAN = 1


@dataclass(frozen=True, slots=True)
class Audit:
    """The output of the command. Without `exit_code` it did not run, and `text` has the reason."""

    text: str
    exit_code: int | None = None

    @property
    def anomalies(self) -> list[str]:
        """Whether the audit found no damage: faults must not damage a node's log."""
        if not self.exit_code:
            return []
        what = "is not clean" if self.exit_code == NOT_CLEAN else f"failed with exit code {self.exit_code}"
        return [f"the audit {what}: {line}" for line in self.text.splitlines() if line and line[0] != "I"]


def audit_in_process(data_directories: Mapping[int, Path]) -> Audit:
    """Audits without Spark, in a second instead of twenty."""
    report = audit_here({node: str(path) for node, path in data_directories.items()})
    lines = [f"{each.severity.name} {each.code} node {each.node}: {each.detail}" for each in report.findings]
    return Audit("\n".join(lines), 0 if report.is_clean else NOT_CLEAN)


def pipeline_commands(directory: Path) -> list[str]:
    """Commands that show the kept data: a history, a plan, a report."""
    data = directory / DATA
    nodes = ",".join(f"{path.name}={path}" for path in sorted(data.iterdir()))
    history, plan, page = directory / HISTORY, directory / PLAN, directory / "report.html"
    return [
        f"  quorumd pipeline history build --from {nodes} --to {history}",
        f"  quorumd pipeline history top isr-churn --history {history}",
        f"  quorumd pipeline history show brokers --history {history}",
        f'  quorumd pipeline history sql --history {history} "select * from reassignments"',
        f"  quorumd pipeline plan make --state {history} --replace 102=105 --rack 105=b --out {plan}",
        f"  quorumd pipeline report --history {history} --plan {plan} --audit {directory / REPORT} --out {page}",
    ]


def audit_by_command(directory: Path, keep_data: bool, data_directories: Mapping[int, Path]) -> Audit:
    """Audit the directories of stopped nodes, and write the report to `directory` as JSON.

    With `keep_data`, copies of the data directories are kept there too: one of them may be on a disk that is
    unmounted.
    """
    if keep_data:
        for name in (DATA, HISTORY, PLAN):
            shutil.rmtree(directory / name, ignore_errors=True)
        for node, path in data_directories.items():
            shutil.copytree(path, directory / DATA / str(node), ignore=shutil.ignore_patterns(".lock"))
    try:
        need_extra()
        find_java(os.environ)
    except JobFailed as missing:
        return Audit(f"not audited: {missing}")
    nodes = [f"{node}={path}" for node, path in data_directories.items()]
    command = [sys.executable, "-m", "quorumd", "pipeline", "audit", *nodes, "--no-progress"]
    command += ["--report", str(directory / REPORT), "--spark-log", str(directory / "spark.log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    return Audit(done.stdout + done.stderr, done.returncode)
