"""`quorumd pipeline plan verify`: the progress of a cluster towards a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.output import print_rows
from quorumd.cli.pipeline.plan_state import StateSource, chosen_state, state_options

if TYPE_CHECKING:
    from quorumd.pipeline.tables.schemas import Row


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@state_options
@click.option(
    "--differences",
    is_flag=True,
    help="List the partitions that are not done instead of counting them.",
)
@click.option(
    "--may-wipe",
    "wiped",
    type=click.IntRange(min=0),
    metavar="BROKER",
    help="List the partitions that still have a replica on this broker, instead of comparing; if there are none, its "
    "disks may be wiped.",
)
@pipeline_options.output
def verify(
    directory: Path, differences: bool, wiped: int | None, output: str, **where: Unpack[StateSource]
) -> None:
    """Compare a cluster, or its recorded state, with a plan.

    Counts the partitions of each wave: done (on the planned replicas, all of which are in sync), in progress (being
    reassigned to them, or not all in sync yet), not begun (on the replicas before the plan), superseded (on or
    moving to other replicas, since the plan was made) and missing (deleted). Exit code 1 unless all are done, and
    with --may-wipe while the broker has replicas.

    \b
    Examples:
      quorumd pipeline plan verify plan --bootstrap-server 127.0.0.1:9192
      quorumd pipeline plan verify plan --bootstrap-server 127.0.0.1:9192 --may-wipe 7
      quorumd pipeline plan verify plan --state history --differences --output jsonl
    """
    if differences and wiped is not None:
        raise click.UsageError("--differences cannot be combined with --may-wipe")
    from quorumd.pipeline.spark.java import need_extra

    need_extra()
    from quorumd.pipeline.plan.comparison import VERDICTS, compared, of_waves, replicas_on
    from quorumd.pipeline.plan.files import read_plan_directory

    plan = read_plan_directory(directory)
    state, _ = chosen_state(where)
    if wiped is not None:
        _report_replicas(wiped, replicas_on(wiped, state), output)
        return
    found = compared(plan.moves, state)
    if differences:
        print_rows(found.differences(), output)
    else:
        print_rows(of_waves(found), output, ("wave", "partitions", *VERDICTS))
    if not found.is_done:
        raise click.exceptions.Exit(1)


def _report_replicas(broker: int, rows: list[Row], output: str) -> None:
    if rows or output != "text":
        print_rows(rows, output, ("topic", "partition", "replicas", "settled"))
    else:
        click.echo(f"broker {broker} may be wiped: no partition has a replica on it")
    if rows:
        click.echo(
            f"broker {broker} must not be wiped: {len(rows)} partitions have a replica on it", err=True
        )
        raise click.exceptions.Exit(1)
