"""`quorumd pipeline history top`: the least stable partitions, without Spark."""

from __future__ import annotations

from pathlib import Path

import click

from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.history_options import history_option, moment, opened
from quorumd.cli.pipeline.output import print_rows


@click.command()
@click.argument("what", type=click.Choice(["isr-churn", "leader-flaps", "under-min-isr"]))
@click.option(
    "--window", metavar="TIME", help="Count only what happened since then: 24h, 2026-01-31.  [default: all]"
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Show at most this many partitions.",
)
@history_option
@pipeline_options.output
def top(what: str, window: str | None, limit: int, directory: Path, output: str) -> None:
    """Show the partitions with the most leader changes, ISR changes or time below min.insync.replicas.

    \b
    isr-churn      the ISR changed most often
    leader-flaps   the leader changed most often
                   Lost: no leader; Unclean: the new leader may have lacked records
    under-min-isr  the ISR was below min.insync.replicas for the longest time
                   Offline: the part of these seconds without a leader

    \b
    Example:
      quorumd pipeline history top isr-churn --window 24h --limit 5
    """
    from quorumd.pipeline.history import queries

    history = opened(directory)
    query = {
        "isr-churn": queries.isr_churn,
        "leader-flaps": queries.leader_flaps,
        "under-min-isr": queries.under_min_isr,
    }[what]
    print_rows(query(history, moment(history, window), limit), output)
