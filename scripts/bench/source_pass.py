"""Reads a log through the Spark source, and prints the time; started by `pipeline_source`.

    python source_pass.py '{"log": "...", "streamed": "...", "cores": 1 | 2, "repeat": 3, "to": "..."}'

The whole tree of processes (Java and Python workers) is limited to this number of cores. Each query runs once as a
warm-up; the best of the other runs counts. A stream runs twice, and the second run counts. It prints one JSON object
with the wall-clock and CPU seconds of each query.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from quorumd.pipeline.spark.session import spark_session

COLUMNS = "offset BIGINT, type SMALLINT, topic_id BINARY, partition INT"
USUAL_COLUMNS = (
    "offset BIGINT, base_offset BIGINT, epoch INT, ts TIMESTAMP, control BOOLEAN, type SMALLINT, version SMALLINT, "
    "topic_id BINARY, partition INT, leader INT, replicas ARRAY<INT>, isr ARRAY<INT>, broker_id INT, "
    "broker_epoch BIGINT"
)
"""Fourteen columns for most queries about partitions."""
STREAMS = ("stream", "usual_stream")
STREAMED = 500_000
"""Offsets per micro-batch."""
_TICKS = os.sysconf("SC_CLK_TCK")


def queries(spark: SparkSession, log: str, streamed: str, to: Path) -> dict[str, Callable[[], object]]:
    """Return queries, by name: of `log`, and of a stream from `streamed` to Parquet files below `to`."""

    def load(level: str, schema: str | None = None, lists: str = "array") -> DataFrame:
        reader = spark.read.format("quorumd").options(path=log, level=level, lists=lists)
        return (reader.schema(schema) if schema else reader).load()

    def stream(schema: str | None = None) -> None:
        shutil.rmtree(to, ignore_errors=True)
        source = spark.readStream.format("quorumd").option("path", streamed)
        source = source.schema(schema) if schema else source
        writer = source.option("maxOffsetsPerTrigger", STREAMED).load().writeStream.trigger(availableNow=True)
        writer.option("checkpointLocation", str(to / "checkpoint")).option("path", str(to / "rows")).start(
            format="parquet"
        ).awaitTermination()

    return {
        "records": lambda: load("records").agg({"offset": "max"}).collect(),
        "packed": lambda: load("records", lists="packed").agg({"offset": "max"}).collect(),
        "usual": lambda: load("records", USUAL_COLUMNS).agg({"offset": "max"}).collect(),
        "columns": lambda: load("records", COLUMNS).agg({"offset": "max"}).collect(),
        "batches": lambda: load("batches").agg({"crc": "max"}).collect(),
        "stream": stream,
        "usual_stream": lambda: stream(USUAL_COLUMNS),
    }


def measure(job: dict[str, Any]) -> dict[str, Any]:
    cores = sorted(os.sched_getaffinity(0))[: job["cores"]]
    os.sched_setaffinity(0, cores)
    parsed: dict[str, Any] = {}
    with spark_session(f"local[{len(cores)}]") as spark:
        for name, query in queries(spark, job["log"], job["streamed"], Path(job["to"])).items():
            repeat = 1 if name in STREAMS else job["repeat"]
            passes = [_timed(query) for _ in range(1 + repeat)][1:]
            parsed[name] = {
                "seconds": min(seconds for seconds, _ in passes),
                "cpu_seconds": min(cpu for _, cpu in passes),
            }
    return parsed


def _timed(query: Callable[[], object]) -> tuple[float, float]:
    cpu, began = tree_cpu_seconds(os.getpid()), time.perf_counter()
    query()
    return time.perf_counter() - began, tree_cpu_seconds(os.getpid()) - cpu


def tree_cpu_seconds(root: int) -> float:
    """Return the CPU seconds of a process and all its descendants, including ended ones."""
    return sum(tree(root).values())


def tree(root: int) -> dict[int, float]:
    """Return the CPU seconds, including ended children, of a process and each of its descendants, by process id."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                # The fields follow the program name, which may contain blanks and brackets.
                parts = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(parts[1])
            used[int(entry.name)] = sum(map(int, parts[11:15])) / _TICKS
    found = {root}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: used[pid] for pid in found if pid in used}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
