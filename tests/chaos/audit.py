"""The audit of the nodes' logs after a run: by `quorumd pipeline audit` if Java is installed, or in this process."""

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
"""Directories next to the report: the nodes' data, and the output of the commands that `pipeline_commands` lists."""
NOT_CLEAN = 1


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit."""

    text: str
    """The output, or the reason why the audit was skipped."""
    exit_code: int | None = None
    """The exit code of the command; None if the audit was skipped."""

    @property
    def anomalies(self) -> list[str]:
        """The damage that the audit found, since faults must not damage a node's log."""
        if not self.exit_code:
            return []
        what = "is not clean" if self.exit_code == NOT_CLEAN else f"failed with exit code {self.exit_code}"
        return [f"the audit {what}: {line}" for line in self.text.splitlines() if line and line[0] != "I"]


def audit_in_process(data_directories: Mapping[int, Path]) -> Audit:
    """Audit without Spark, which takes a second instead of twenty."""
    report = audit_here({node: str(path) for node, path in data_directories.items()})
    lines = [f"{each.severity.name} {each.code} node {each.node}: {each.detail}" for each in report.findings]
    return Audit("\n".join(lines), 0 if report.is_clean else NOT_CLEAN)


def pipeline_commands(directory: Path) -> list[str]:
    """Return commands that build a history, a plan and a report from the kept data."""
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

    With `keep_data`, copy the data directories there too, since one of them is on a disk that is unmounted later.
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
