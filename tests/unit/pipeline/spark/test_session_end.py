"""However a session ends, its Java process ends first, and nothing waits for it forever."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from quorumd.pipeline.spark import session


class Gateway:
    """A gateway to a process that is not Java."""

    def __init__(self, command: Sequence[str]) -> None:
        self.proc = subprocess.Popen(command, stdin=subprocess.PIPE)
        self.ended_before: int | None = None

    def shutdown(self) -> None:
        # Py4J waits here for threads that read output of the process.
        self.ended_before = self.proc.poll()


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark has one context per process, which other tests may have started: hide it meanwhile."""
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
    for name in ("_active_spark_context", "_gateway", "_jvm"):
        monkeypatch.setattr(SparkContext, name, None)


def test_connections_are_closed_after_java_ends() -> None:
    gateway = Gateway(["cat"])
    session._stop(gateway)
    assert gateway.ended_before == 0


def test_java_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "STOP_TIMEOUT_S", 0.01)
    gateway = Gateway(["sleep", "600"])
    session._stop(gateway)
    assert gateway.ended_before == -signal.SIGKILL
