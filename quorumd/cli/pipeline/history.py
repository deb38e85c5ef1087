"""`quorumd pipeline history`: a cluster's history as tables, and questions to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.options import SparkOptions
from quorumd.cli.pipeline.output import print_rows

if TYPE_CHECKING:
    from quorumd.pipeline.history.history import History

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_FOLDER = Path("history")
SMALL_TABLES = {
    "epochs": "Who led the quorum from when to when, elected by whom.",
    "brokers": "What became of each broker: registered, fenced, unfenced, shut down, gone.",
    "topics": "Topics that are or were.",
    "voters": "Who voted in the quorum from when to when, and where they were reached.",
    "gaps": "What was deleted from the log before it was read.",
    "lag": "How far each node was behind the leader, or behind the farthest folder.",
}


@click.group()
def history() -> None:
    """Who led, who was in sync, when and why: a cluster's history as tables.

    `build` makes Parquet files of the metadata log, once or on and on; any tool may read them. `show` and `top`
    answer at once, without Spark; `sql` asks whatever one likes.

    Times are ages (30m, 24h, 7d), counted from the last record of the history, or ISO 8601 in UTC.

    \b
    Examples:
      quorumd pipeline history build --from 1=/srv/n1,2=/srv/n2 --to history
      quorumd pipeline history show partitions --topic orders --partition 3 --since 1h
      quorumd pipeline history top under-min-isr --window 24h
      quorumd pipeline history sql "select * from reassignments where outcome = 'done'"
    """


def _history(command: F) -> F:
    return click.option(
        "--history",
        "folder",
        type=click.Path(path_type=Path),
        default=DEFAULT_FOLDER,
        show_default=True,
        help="The folder that `history build` wrote.",
    )(command)


@history.command()
@click.option("--from", "path", metavar="ID=FOLDER,...", help="Data folders of nodes, one or several.")
@click.option("--bootstrap", metavar="HOST:PORT,...", help="A cluster at work instead, read as an observer.")
@click.option(
    "--to",
    "folder",
    required=True,
    type=click.Path(path_type=Path),
    help="The history's folder; made if not there.",
)
@click.option("--follow", is_flag=True, help="Go on as the log grows, until interrupted.")
@click.option("--once", is_flag=True, help="Stop at the end of the log. This is the default.")
@pipeline_options.spark
@pipeline_options.output
def build(
    path: str | None,
    bootstrap: str | None,
    folder: Path,
    follow: bool,
    once: bool,
    spark: SparkOptions,
    output: str,
) -> None:
    """Add to a history what is in the log and not in it yet.

    Interrupted or killed at any moment, it goes on where it was when it is run again. Of several folders that copy is
    read which is most up to date, and the next best one, with a warning, where that is damaged. A log that begins
    behind a snapshot is read from that snapshot on; where it was deleted before it was read, the history goes on from
    the next snapshot, and tells of the gap.

    \b
    Examples:
      quorumd pipeline history build --from 1=/srv/n1,2=/srv/n2,3=/srv/n3 --to history
      quorumd pipeline history build --bootstrap 127.0.0.1:9192 --to history --follow
    """
    if (path is None) == (bootstrap is None):
        raise click.UsageError("give one of --from ID=FOLDER,... and --bootstrap HOST:PORT")
    if follow and once:
        raise click.UsageError("--follow and --once exclude each other")
    from dataclasses import asdict

    from quorumd.pipeline.copies.log_files import parse_folders, read_folders
    from quorumd.pipeline.history.build import build as build_history

    source = {"path": path} if path is not None else {"bootstrap": bootstrap or ""}
    if path is not None:
        # A mistake in the folders need not wait for Spark to start.
        read_folders(parse_folders(path))
    with spark.session("thin") as session:
        summary = build_history(
            session, source, folder, follow, tell=lambda text: click.echo(f"warning: {text}", err=True)
        )
    if summary.orphans:
        click.echo(
            f"warning: {summary.orphans} changes of partitions whose creation is not in the log were left out",
            err=True,
        )
    print_rows([asdict(summary)], output)


@history.group()
def show() -> None:
    """What became of partitions, brokers, topics, the quorum's epochs and its voters.

    \b
    Examples:
      quorumd pipeline history show partitions --topic orders --partition 3 --since 1h
      quorumd pipeline history show epochs --output json
    """


@show.command()
@click.option("--topic", help="Only this topic, also if it is no more.")
@click.option("--partition", type=click.IntRange(0), help="Only this partition.")
@click.option("--since", metavar="TIME", help="Only what was so then or later: 1h, 2026-01-31T14:03.")
@click.option("--until", metavar="TIME", help="Only what was so before.")
@_history
@pipeline_options.output
def partitions(
    topic: str | None, partition: int | None, since: str | None, until: str | None, folder: Path, output: str
) -> None:
    """Who led a partition, who was in sync and who eligible, from when to when, and why.

    CAUSE: created, snapshot, leader, unclean, isr_shrink, isr_expand, elr, reassign_start, reassign_done,
    reassign_cancelled, min_isr, deleted, other.

    \b
    Example:
      quorumd pipeline history show partitions --topic orders --partition 3 --since 1h
    """
    from quorumd.pipeline.history.questions import STATE_COLUMNS, partition_rows

    opened = _open(folder)
    rows = partition_rows(opened, topic, partition, _moment(opened, since), _moment(opened, until))
    print_rows(rows, output, [*STATE_COLUMNS[:4], "lasted", *STATE_COLUMNS[4:]])


def _show_table(table: str) -> click.Command:
    @click.option("--since", metavar="TIME", help="Only what was so then or later: 1h, 2026-01-31T14:03.")
    @_history
    @pipeline_options.output
    def command(since: str | None, folder: Path, output: str) -> None:
        from quorumd.pipeline.history.questions import table_rows
        from quorumd.pipeline.tables.schemas import HISTORY_TABLES

        opened = _open(folder)
        names = [name for name in HISTORY_TABLES[table].names if name != "cluster_id"]
        print_rows(table_rows(opened, table, _moment(opened, since)), output, names)

    example = f"\b\nExample:\n  quorumd pipeline history show {table} --since 24h"
    return click.command(table, help=f"{SMALL_TABLES[table]}\n\n{example}")(command)


for _table in SMALL_TABLES:
    show.add_command(_show_table(_table))


@history.command()
@click.argument("what", type=click.Choice(["isr-churn", "leader-flaps", "under-min-isr"]))
@click.option(
    "--window", metavar="TIME", help="Only what happened since then: 24h, 2026-01-31.  [default: all]"
)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="So many partitions.")
@_history
@pipeline_options.output
def top(what: str, window: str | None, limit: int, folder: Path, output: str) -> None:
    """The partitions with the most trouble.

    \b
    isr-churn      whose ISR changed most often
    leader-flaps   whose leader changed most often
                   LOST: there was none; UNCLEAN: it may have lacked records
    under-min-isr  that had fewer in sync than min.insync.replicas for longest
                   OFFLINE: of these seconds, those without a leader

    \b
    Example:
      quorumd pipeline history top isr-churn --window 24h --limit 5
    """
    from quorumd.pipeline.history import questions

    opened = _open(folder)
    question = {
        "isr-churn": questions.isr_churn,
        "leader-flaps": questions.leader_flaps,
        "under-min-isr": questions.under_min_isr,
    }[what]
    print_rows(question(opened, _moment(opened, window), limit), output)


@history.command()
@click.argument("query")
@_history
@pipeline_options.spark
@pipeline_options.output
def sql(query: str, folder: Path, spark: SparkOptions, output: str) -> None:
    """Ask in SQL.

    \b
    Tables:
      events, epochs, voters, brokers, topics, lag, gaps
      partition_states    those that ended and those that last (to_ts is null)
      partition_current   those that last
    Views:
      churn               how often the ISR of each partition changed
      leader_flaps        how often the leader of each partition changed
      under_min_isr       each spell with too few in sync, in seconds
      reassignments       each reassignment, in seconds, and its outcome: done, cancelled,
                          replaced (by another one), deleted (with its topic), running
    `describe TABLE` tells the columns.

    \b
    Examples:
      quorumd pipeline history sql "select * from reassignments order by seconds desc limit 10"
      quorumd pipeline history sql "select type_name, count(*) from events group by all" --output csv
    """
    from quorumd.pipeline.history.history import register_views
    from quorumd.pipeline.spark.failures import checked_query

    opened = _open(folder)
    with spark.session("small") as session:
        register_views(session, opened)
        print_rows(checked_query(session, query), output)


def _open(folder: Path) -> History:
    from quorumd.pipeline.history.history import open_history

    return open_history(folder)


def _moment(opened: History, text: str | None) -> Any:
    return None if text is None else opened.moment(text)
