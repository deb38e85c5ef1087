"""A stream of the source into Parquet that kills itself, including Java, at a chosen stage of a micro-batch.

    python -m tests.pipeline.stream_kills.job '{"log": ..., "to": ..., "sink": "files", "stage": "part", "after": 2}'

It runs until nothing is left to read, and then prints a summary of the tables. It is killed at `stage`, after
passing that stage `after` times; without a stage it is not killed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from quorumd.pipeline.history import writer
from quorumd.pipeline.history.build import build
from quorumd.pipeline.history.history import open_history
from quorumd.pipeline.history.tables import STAGING, Manifest
from quorumd.pipeline.spark.session import spark_session

FILES, EACH, HISTORY = "files", "each", "history"
STAGES = {
    FILES: ("offsets", "part", "sink", "commits"),
    EACH: ("offsets", "begun", "written", "renamed", "commits"),
    HISTORY: ("staged", "written", "published"),
}
"""What has just happened at each stage.

In general: the offsets of a micro-batch were logged, a file of rows was begun, the sink's own log lists the valid
files, the micro-batch was committed. With foreachBatch: the function was called, its files were written, they were
moved into place. With a history: a task staged its records, everything except history.json was written,
history.json was written.
"""
OFFSETS_A_BATCH = 2_000
_LOOK_S = 0.0005


def die() -> NoReturn:
    os.killpg(0, signal.SIGKILL)
    raise AssertionError("a killed process went on")


class Fuse:
    """Kills the process at the chosen stage."""

    def __init__(self, stage: str | None, after: int) -> None:
        self.stage = stage
        self.left = after

    def passes(self, stage: str) -> None:
        """Report a stage known to the job."""
        if stage == self.stage:
            self.left -= 1
            if self.left < 0:
                die()

    def watch(self, directories: dict[str, Callable[[], Iterable[str]]]) -> None:
        """Detect stages by new files."""
        names = directories.get(self.stage or "")
        if names is None:
            return
        known = set(names())

        def look() -> None:
            while True:
                fresh = set(names()) - known
                known.update(fresh)
                for _ in fresh:
                    self.passes(self.stage or "")
                time.sleep(_LOOK_S)

        threading.Thread(target=look, daemon=True).start()


def named(directory: Path, beginning: str = "") -> Callable[[], list[str]]:
    def names() -> list[str]:
        try:
            found = os.listdir(directory)
        except FileNotFoundError:
            return []
        return [name for name in found if name.startswith(beginning) and not name.startswith(".")]

    return names


def run(spark: SparkSession, options: dict[str, Any]) -> dict[str, Any]:
    to = Path(options["to"])
    if options["sink"] == HISTORY:
        return run_history(
            spark.sparkContext, options["log"], to, Fuse(options.get("stage"), options.get("after", 0))
        )
    rows, checkpoint = to / "rows", to / "checkpoint"
    fuse = Fuse(options.get("stage"), options.get("after", 0))
    fuse.watch(
        {
            "offsets": named(checkpoint / "offsets"),
            "part": named(rows, "part-"),
            "sink": named(rows / "_spark_metadata"),
            "commits": named(checkpoint / "commits"),
        }
    )
    stream = (
        spark.readStream.format("quorumd")
        .option("path", options["log"])
        .option("maxOffsetsPerTrigger", OFFSETS_A_BATCH)
        .schema("offset BIGINT, type SMALLINT")
        .load()
    )
    writer = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    if options["sink"] == FILES:
        query = writer.format("parquet").option("path", str(rows)).start()
    else:
        query = writer.foreachBatch(lambda frame, number: put(frame, number, rows, fuse)).start()
    query.awaitTermination()
    return counted(spark.read.parquet(str(rows)) if options["sink"] == FILES else None, rows)


def run_history(context: SparkContext, log: str, directory: Path, fuse: Fuse) -> dict[str, Any]:
    publish = writer.write_manifest
    fuse.watch({"staged": named(directory / STAGING)})

    def passing(directory: Path, manifest: Manifest) -> None:
        fuse.passes("written")
        publish(directory, manifest)
        fuse.passes("published")

    with patch.object(writer, "write_manifest", passing):
        build(context, {"path": log, "maxOffsetsPerTrigger": str(OFFSETS_A_BATCH)}, directory)
    return summed(open_history(directory).read("events", ["offset"]).column("offset").to_pylist())


def put(frame: DataFrame, number: int, rows: Path, fuse: Fuse) -> None:
    """Write a directory per micro-batch and move it into place; a replay replaces it."""
    fuse.passes("begun")
    building, place = rows / f".building-{number}", rows / f"batch={number}"
    frame.write.mode("overwrite").parquet(str(building))
    fuse.passes("written")
    shutil.rmtree(place, ignore_errors=True)
    building.rename(place)
    fuse.passes("renamed")


def counted(table: DataFrame | None, rows: Path) -> dict[str, Any]:
    if table is not None:
        offsets = table.select("offset").toArrow().column("offset").to_pylist()
    else:
        offsets = [
            offset
            for directory in sorted(rows.glob("batch=*"))
            for offset in pq.read_table(directory, columns=["offset"], partitioning=None)
            .column("offset")
            .to_pylist()
        ]
    return summed(offsets)


def summed(offsets: list[int]) -> dict[str, Any]:
    return {"rows": len(offsets), "distinct": len(set(offsets)), "end": max(offsets) + 1}


def main() -> None:
    with spark_session("local[1]", "small") as spark:
        print(json.dumps(run(spark, json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
