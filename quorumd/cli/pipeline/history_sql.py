"""`quorumd pipeline history sql`: SQL on the tables of a history."""

from __future__ import annotations

from pathlib import Path

import click

from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.history_options import history_option, opened
from quorumd.cli.pipeline.options import SparkOptions
from quorumd.cli.pipeline.output import print_rows


@click.command()
@click.argument("query")
@history_option
@pipeline_options.spark
@pipeline_options.output
def sql(query: str, directory: Path, spark: SparkOptions, output: str) -> None:
    """Query a history in SQL.

    \b
    Tables:
      events, epochs, voters, brokers, topics, lag, gaps
      partition_states    past and current states (to_ts is null)
      partition_current   current states
    Views:
      churn               how often the ISR of each partition changed
      leader_flaps        how often the leader of each partition changed
      under_min_isr       each period below min.insync.replicas, in seconds
      reassignments       each reassignment, in seconds, and its outcome: done, cancelled,
                          replaced (by another one), deleted (with its topic), running
    `describe TABLE` lists the columns.

    \b
    Examples:
      quorumd pipeline history sql "select * from reassignments order by seconds desc limit 10"
      quorumd pipeline history sql "select type_name, count(*) from events group by all" --output csv
    """
    from quorumd.pipeline.history.history import register_views
    from quorumd.pipeline.spark.failures import checked_query

    history = opened(directory)
    with spark.session("small") as session:
        register_views(session, history)
        print_rows(checked_query(session, query), output)
