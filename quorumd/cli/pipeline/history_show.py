"""`quorumd pipeline history show`: the tables of a history, without Spark."""

from __future__ import annotations

from pathlib import Path

import click

from quorumd.cli.command_group import CommandGroup
from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.history_options import history_option, moment, opened
from quorumd.cli.pipeline.output import print_rows

SMALL_TABLES = {
    "epochs": "Show the leader of each epoch of the quorum, its time and its voters.",
    "brokers": "Show when each broker was registered, fenced, unfenced, shut down and unregistered.",
    "topics": "Show all topics, also deleted ones.",
    "voters": "Show the voters of the quorum over time, with their endpoints.",
    "gaps": "Show the offsets that were deleted from the log before they were read.",
    "lag": "Show how far each node was behind the leader, or behind the most advanced copy.",
}


@click.group(cls=CommandGroup)
def show() -> None:
    """Show the history of partitions, brokers, topics, epochs, voters and lag.

    \b
    Examples:
      quorumd pipeline history show partitions --topic orders --partition 3 --since 1h
      quorumd pipeline history show epochs --output json
    """


@show.command()
@click.option("--topic", help="Show only this topic; it may be deleted.")
@click.option("--partition", type=click.IntRange(0), help="Show only this partition.")
@click.option("--since", metavar="TIME", help="Show only states at or after this time: 1h, 2026-01-31T14:03.")
@click.option("--until", metavar="TIME", help="Show only states before this time.")
@history_option
@pipeline_options.output
def partitions(
    topic: str | None,
    partition: int | None,
    since: str | None,
    until: str | None,
    directory: Path,
    output: str,
) -> None:
    """Show the leader, ISR and ELR of partitions over time, and the cause of each change.

    Cause: created, snapshot, leader, unclean, isr_shrink, isr_expand, elr, reassign_start, reassign_done,
    reassign_cancelled, min_isr, deleted, other.

    \b
    Example:
      quorumd pipeline history show partitions --topic orders --partition 3 --since 1h
    """
    from quorumd.pipeline.history.queries import STATE_COLUMNS, partition_rows

    history = opened(directory)
    rows = partition_rows(history, topic, partition, moment(history, since), moment(history, until))
    print_rows(rows, output, [*STATE_COLUMNS[:4], "lasted", *STATE_COLUMNS[4:]])


def _show_table(table: str) -> click.Command:
    @click.option(
        "--since", metavar="TIME", help="Show only states at or after this time: 1h, 2026-01-31T14:03."
    )
    @history_option
    @pipeline_options.output
    def command(since: str | None, directory: Path, output: str) -> None:
        from quorumd.pipeline.history.queries import table_rows
        from quorumd.pipeline.tables.schemas import HISTORY_TABLES

        history = opened(directory)
        names = [name for name in HISTORY_TABLES[table].names if name != "cluster_id"]
        print_rows(table_rows(history, table, moment(history, since)), output, names)

    example = f"\b\nExample:\n  quorumd pipeline history show {table} --since 24h"
    return click.command(table, help=f"{SMALL_TABLES[table]}\n\n{example}")(command)


for _table in SMALL_TABLES:
    show.add_command(_show_table(_table))
