"""`make standalone`: source and commands give the same results on a Spark cluster as in one process.

A standalone master and two workers run on loopback. A command after `--` is run instead, with {master} replaced by
the URL of the master:

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

from quorumd.pipeline.spark.session import spark_session
from quorumd.pipeline.spark.settings import is_local
from scripts.log_generator import LogShape, generate
from tests.pipeline.standalone.commands import Commands, write_generated_log, write_real_log
from tests.support.processes.standalone_spark import standalone_spark, started_executors

SHAPE = LogShape(records=100_000, segment_bytes=1_000_000, nodes=2)
QUESTIONS = {
    "records": "SELECT node, type_name, count(*), bit_xor(xxhash64(*)) FROM log GROUP BY ALL",
    "batches": "SELECT node, count(*), sum(records), bit_xor(xxhash64(*)) FROM log GROUP BY ALL",
}


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def main(command: tuple[str, ...]) -> None:
    """Compare a Spark cluster with one process, or run a command on it."""
    with tempfile.TemporaryDirectory(prefix="quorumd-standalone-") as name:
        directory = Path(name)
        with standalone_spark(directory) as master:
            if command:
                sys.exit(subprocess.call([part.replace("{master}", master) for part in command]))
            write_generated_log(directory / "logs")
            write_real_log(directory / "logs")
            on_cluster = responses(directory, master) | outcomes(directory, "cluster", master)
        in_one_process = responses(directory, "local[2]") | outcomes(directory, "process", "local[*]")
    for name, found in in_one_process.items():
        if found != on_cluster[name]:
            sys.exit(f"{name} differs: {found} in one process, {on_cluster[name]} on a cluster")
        click.echo(f"{name}: equal in one process and on a cluster")


def outcomes(directory: Path, name: str, master: str) -> dict[str, Any]:
    """Return the result of each command. Exits if a command did not use the given cluster."""
    commands = Commands(directory / name, directory / "logs", master)
    found = {}
    for command, run in commands.all().items():
        before = started_executors(directory)
        found[command] = run()
        started = started_executors(directory) - before
        click.echo(f"{command} on {master}: {commands.seconds:.1f} s", err=True)
        if not started and not is_local(master):
            sys.exit(f"{command} did not run on the cluster")
    return found


def responses(directory: Path, master: str) -> dict[str, list[Any]]:
    """Return the results of the same queries on the same log; the audit command reads level audit."""
    path = directory / "log"
    if not path.exists():
        generate(path, SHAPE)
    with spark_session(master, "small") as spark:
        found = {level: run_query(spark, path, level, sql) for level, sql in QUESTIONS.items()}
        return found | {"stream": streamed(spark, path, directory / f"stream-{master.partition(':')[0]}")}


def run_query(spark: SparkSession, path: Path, level: str, sql: str) -> list[Any]:
    source = spark.read.format("quorumd").option("path", copies(path)).option("level", level)
    source.option("packBytes", 500_000).load().createOrReplaceTempView("log")
    return sorted(spark.sql(sql).collect(), key=str)


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
