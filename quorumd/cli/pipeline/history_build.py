"""`quorumd pipeline history build`: convert a log to tables."""

from __future__ import annotations

import math
from pathlib import Path

import click

from quorumd.cli import options
from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.options import SparkOptions
from quorumd.cli.pipeline.output import print_rows

TIMEOUT_S = 30.0
"""Longer than for other commands, because a failed build has to be run again."""


@click.command()
@click.option("--from", "path", metavar="ID=DIR,...", help="Read the log directories of these nodes.")
@click.option(
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT,...",
    help="Read a live cluster as an observer instead.",
)
@options.command_config(expose=True)
@options.timeout(f"{TIMEOUT_S:g}s")
@click.option(
    "--to",
    "directory",
    required=True,
    type=click.Path(path_type=Path),
    help="Write the history to this directory; it is created if it does not exist.",
)
@click.option("--follow", is_flag=True, help="Continue as the log grows, until interrupted.")
@click.option("--once", is_flag=True, help="Stop at the end of the log; the default.")
@pipeline_options.spark
@pipeline_options.output
def build(
    path: str | None,
    bootstrap: str | None,
    command_config: Path | None,
    directory: Path,
    follow: bool,
    once: bool,
    spark: SparkOptions,
    output: str,
) -> None:
    """Add the records of a log to a history.

    The command may be interrupted or killed at any moment; run again, it resumes where it stopped. Of several copies
    it reads the most up-to-date one; if that is damaged, it warns and reads the next best. A log that starts after a
    snapshot is read from that snapshot on. If records were deleted before they were read, the history continues with
    the next snapshot and records the gap. DIR may be a URL such as hdfs://namenode/n1, which Spark copies to this
    machine first.

    \b
    Examples:
      quorumd pipeline history build --from 1=/srv/n1,2=/srv/n2,3=/srv/n3 --to history
      quorumd pipeline history build --from 1=s3a://backup/n1 --to history --conf spark.hadoop.fs.s3a.endpoint=H
      quorumd pipeline history build --bootstrap-server 127.0.0.1:9192 --to history --follow
    """
    from dataclasses import asdict

    from quorumd.pipeline.history.build import build as build_history
    from quorumd.pipeline.spark.remote_directories import copied_directories

    source, directories = _source(path, bootstrap, follow, once)
    if bootstrap is not None and command_config is not None:
        source["commandConfig"] = str(command_config.absolute())
    with spark.context("thin") as context, copied_directories(context, directories, spark.master) as copies:
        if directories:
            source["path"] = ",".join(f"{node}={copy}" for node, copy in copies.items())
        summary = build_history(
            context, source, directory, follow, report=lambda text: click.echo(f"warning: {text}", err=True)
        )
    if summary.orphans:
        click.echo(
            f"warning: {summary.orphans} changes of partitions were ignored: their creation is not in the log",
            err=True,
        )
    print_rows([asdict(summary)], output)


def _source(
    path: str | None, bootstrap: str | None, follow: bool, once: bool
) -> tuple[dict[str, str], dict[int, str]]:
    """Return the options of the source, and its directories by node; a live cluster has none."""
    if (path is None) == (bootstrap is None):
        raise click.UsageError("use exactly one of --from and --bootstrap-server")
    if follow and once:
        raise click.UsageError("--follow cannot be combined with --once")
    if bootstrap is not None:
        return {"bootstrap": bootstrap, "timeoutMs": str(math.ceil(options.timeout_s() * 1000))}, {}
    from quorumd.pipeline.copies.log_files import parse_directories, read_directories
    from quorumd.pipeline.spark.remote_directories import local_directories

    directories = parse_directories(path or "")
    if follow and local_directories(directories) != directories:
        raise click.UsageError("--follow cannot be combined with a URL, which is copied once")
    # Report mistakes in the directories before Spark starts.
    read_directories(local_directories(directories))
    return {}, directories
