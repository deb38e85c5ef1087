"""A standalone Spark master with workers on loopback."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pyspark

from quorumd.pipeline.spark.java import find_java
from quorumd.pipeline.spark.settings import QUICK_JAVA

T = TypeVar("T")
PATIENCE_S = 600.0
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Registering worker"


@contextmanager
def standalone_spark(directory: Path, workers: int = 2, cores: int = 1) -> Iterator[str]:
    """Run a master and workers; yield the URL of the master. The processes end with the block; their output is in
    `directory`.

    Workers find the package by PYTHONPATH, as if it were installed on them.
    """
    processes: list[subprocess.Popen[bytes]] = []
    try:
        log = directory / "master.log"
        processes.append(_start(directory, log, "org.apache.spark.deploy.master.Master", "--port", "0"))
        url = _wait_for(log, _MASTER.search, processes)[1]
        for number in range(workers):
            arguments = [
                url,
                "--cores",
                str(cores),
                "--memory",
                "1g",
                "--work-dir",
                str(directory / f"work-{number}"),
            ]
            worker_log = directory / f"worker-{number}.log"
            processes.append(
                _start(directory, worker_log, "org.apache.spark.deploy.worker.Worker", *arguments)
            )
        _wait_for(log, lambda text: text.count(_REGISTERED) >= workers or None, processes)
        yield url
    finally:
        # Workers first, since they end their executors.
        for process in reversed(processes):
            process.terminate()
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def started_executors(directory: Path) -> int:
    """Return the number of executors that the workers of `standalone_spark(directory)` have started so far."""
    return len(list(directory.glob("work-*/app-*/*")))


def _start(directory: Path, log: Path, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    scratch = directory / "scratch"
    scratch.mkdir(exist_ok=True)
    root = str(Path(__file__).parents[3])
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "JAVA_HOME": find_java(os.environ).home,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
        "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", "")))),
    }
    command = [
        str(home / "bin" / "spark-class"),
        kind,
        "--host",
        "127.0.0.1",
        "--webui-port",
        "0",
        *arguments,
    ]
    with log.open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, env=environment)


def _wait_for(log: Path, found: Callable[[str], T | None], processes: list[subprocess.Popen[bytes]]) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        text = log.read_text(errors="replace")
        if result := found(text):
            return result
        ended = [process.args for process in processes if process.poll() is not None]
        assert not ended, f"{ended} ended; {log}: {text[-2000:]}"
        assert time.monotonic() < deadline, f"timed out after {PATIENCE_S} s; {log}: {text[-2000:]}"
        time.sleep(0.1)
