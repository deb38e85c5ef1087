"""Commands of `quorumd pipeline` that use Spark, to run in one process or on a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from quorumd.pipeline.history.history import open_history
from quorumd.pipeline.spark.settings import QUICK_JAVA
from quorumd.pipeline.tables.schemas import HISTORY_TABLES
from scripts.log_generator import LogShape, generate
from tests.support.processes.daemons import run_quorumd, wait_for
from tests.support.processes.fixtures import running_cluster

SHAPE = LogShape(records=200_000, segment_bytes=4_000_000, nodes=3)
TIMEOUT_S = 600
QUERY = """
    SELECT outcome, sum(seconds), (SELECT count(DISTINCT offset) FROM events)
    FROM reassignments GROUP BY ALL ORDER BY 1
"""


def write_generated_log(directory: Path, shape: LogShape = SHAPE) -> None:
    """Write the log `generated` of three nodes, with one damaged copy."""
    for path in generate(directory / "generated", shape).directories.values():
        segments = sorted(path.glob("*/*.log"))
    data = bytearray(segments[1].read_bytes())
    data[len(data) // 2] ^= 1
    segments[1].write_bytes(data)


def write_real_log(directory: Path) -> None:
    """Write the log `real` of three running nodes."""
    with running_cluster(directory / "real") as cluster:
        wait_for("a leader", lambda: _set_config(cluster.bootstrap, 0).returncode == 0)
        for number in range(1, 5):
            assert not _set_config(cluster.bootstrap, number).returncode


def _set_config(bootstrap: str, number: int) -> subprocess.CompletedProcess[str]:
    return run_quorumd(
        "configs", "set", "--bootstrap-server", bootstrap, "--type", "group", "--name", "orders",
        f"consumer.session.timeout.ms={45_000 + number}",
    )  # fmt: skip


class Commands:
    """Commands that run in their own directory, beside the directory of the logs, with this Spark master.

    They use relative paths, so that their output is the same wherever Spark runs.
    """

    def __init__(self, directory: Path, logs: Path, master: str) -> None:
        self._directory = directory
        self._generated = [f"{node}=../{logs.name}/generated/node-{node}" for node in (1, 2, 3)]
        self._real = [f"{node}=../{logs.name}/real/node-{node}/data" for node in (1, 2, 3)]
        self._spark = ["--master", master, "--no-progress", "--conf", "spark.driver.memory=1g"]
        for side in ("driver", "executor"):
            self._spark += ["--conf", f"spark.{side}.extraJavaOptions={QUICK_JAVA}"]
        self.seconds = 0.0
        """The duration of the last command."""
        directory.mkdir()

    def all(self) -> dict[str, Callable[[], Any]]:
        """Return functions by name of the command; each returns the result for comparison."""
        return {
            "history build": self.history,
            "history sql": lambda: self._run("history", "sql", QUERY, "--output", "csv"),
            "audit": self.audit_damaged,
            "audit of a cluster's log": lambda: self._audit(self._real, 0),
            "plan make": self.plan,
        }

    def history(self) -> dict[str, Any]:
        self._run("history", "build", "--from", ",".join(self._generated[:2]), "--to", "history")
        history = open_history(self._directory / "history")
        assert history.manifest.end >= SHAPE.records
        return {table: _sorted(history.read(table)) for table in HISTORY_TABLES}

    def audit_damaged(self) -> tuple[str, Any]:
        return self._audit(self._generated, 1)

    def _audit(self, log: list[str], code: int) -> tuple[str, Any]:
        findings = self._run("audit", *log, "--report", "audit.json", "--output", "jsonl", code=code)
        report = json.loads((self._directory / "audit.json").read_text())
        assert report.pop("seconds") > 0
        return findings, report

    def plan(self) -> dict[str, bytes]:
        plan = self._directory / "plan"
        changes = "--remove", "7", "--add", "31:rack-1", "--include-fenced", "--shards", "4"
        self._run("plan", "make", "--state", "history", *changes, "--out", "plan")
        return {str(path.relative_to(plan)): path.read_bytes() for path in plan.rglob("*") if path.is_file()}

    def _run(self, *arguments: str, code: int = 0) -> str:
        began = time.monotonic()
        found = subprocess.run(
            [sys.executable, "-m", "quorumd", "pipeline", *arguments, *self._spark],
            cwd=self._directory,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        self.seconds = time.monotonic() - began
        if found.returncode != code:
            sys.exit(f"{arguments} ended with {found.returncode}, not {code}: {found.stdout}{found.stderr}")
        return found.stdout


def _sorted(table: Any) -> Any:
    """Sort rows, since their order depends on which task wrote which file."""
    plain = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    return table.sort_by([(name, "ascending") for name in plain])
