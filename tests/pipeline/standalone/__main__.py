"""`make standalone`: the source gives on a Spark cluster what it gives in one process.

A standalone master and two workers run on loopback. With a command behind `--` that is run instead, with {master} in
it replaced by the URL of the master:

    python -m tests.pipeline.standalone -- .venv/bin/python -m quorumd pipeline audit 1=DIR 2=DIR --master {master}
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession

from quorumd.pipeline.session import spark_session
from scripts.generated_log import LogShape, generate
from tests.support.standalone_spark import standalone_spark

SHAPE = LogShape(records=100_000, segment_bytes=1_000_000, nodes=2)
QUESTIONS = {
    "records": "SELECT node, type_name, count(*), bit_xor(xxhash64(*)) FROM log GROUP BY ALL",
    "batches": "SELECT node, count(*), sum(records), bit_xor(xxhash64(*)) FROM log GROUP BY ALL",
    "audit": "SELECT node, kind, count(*), bit_xor(digest1), bit_xor(digest2) FROM log GROUP BY ALL",
}


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def main(command: tuple[str, ...]) -> None:
    """Compare a Spark cluster with one process, or run a command on it."""
    with tempfile.TemporaryDirectory(prefix="quorumd-standalone-") as name:
        folder = Path(name)
        with standalone_spark(folder) as master:
            if command:
                sys.exit(subprocess.call([part.replace("{master}", master) for part in command]))
            on_cluster = answers(folder, master)
        in_one_process = answers(folder, "local[2]")
    for level, rows in in_one_process.items():
        if rows != on_cluster[level]:
            sys.exit(f"level {level} differs: {rows} in one process, {on_cluster[level]} on a cluster")
        click.echo(f"{level}: equal in one process and on a cluster, {len(rows)} groups")


def answers(folder: Path, master: str) -> dict[str, list[Any]]:
    """The same questions to the same log."""
    path = folder / "log"
    if not path.exists():
        generate(path, SHAPE)
    with spark_session(master, "small") as spark:
        found = {level: ask(spark, path, level, question) for level, question in QUESTIONS.items()}
        return found | {"stream": streamed(spark, path, folder / f"stream-{master.partition(':')[0]}")}


def ask(spark: SparkSession, path: Path, level: str, question: str) -> list[Any]:
    source = spark.read.format("quorumd").option("path", copies(path)).option("level", level)
    source.option("packBytes", 500_000).load().createOrReplaceTempView("log")
    return sorted(spark.sql(question).collect(), key=str)


def streamed(spark: SparkSession, path: Path, to: Path) -> list[Any]:
    stream = spark.readStream.format("quorumd").option("path", copies(path)).schema("offset BIGINT").load()
    query = stream.writeStream.option("checkpointLocation", str(to / "checkpoint")).trigger(availableNow=True)
    query.format("parquet").option("path", str(to / "rows")).start().awaitTermination()
    rows = spark.read.parquet(str(to / "rows"))
    return rows.selectExpr("count(*)", "count(DISTINCT offset)", "max(offset)").collect()


def copies(path: Path) -> str:
    return ",".join(f"{node}={path}/node-{node}" for node in range(1, SHAPE.nodes + 1))


if __name__ == "__main__":
    main()
