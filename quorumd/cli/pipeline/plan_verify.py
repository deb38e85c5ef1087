"""`quorumd pipeline plan verify`: the progress of a cluster towards a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import click

from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.output import print_rows
from quorumd.cli.pipeline.plan_state import StateSource, chosen_state, state_options


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@state_options
@click.option(
    "--differences",
    is_flag=True,
    help="List the partitions that are not as planned instead of counting them.",
)
@pipeline_options.output
def verify(folder: Path, differences: bool, output: str, **where: Unpack[StateSource]) -> None:
    """Compare a cluster, or its recorded state, with a plan.

    Counts for each wave the partitions that are as planned, as before the plan, different from both (changed since
    the plan was made), or deleted. A partition that is being reassigned counts with its target. Exit code 1 unless
    all are as planned.

    \b
    Examples:
      quorumd pipeline plan verify plan --bootstrap-server 127.0.0.1:9192
      quorumd pipeline plan verify plan --state history --differences --output jsonl
    """
    from quorumd.pipeline.spark.java import need_extra

    need_extra()
    from quorumd.pipeline.plan.comparison import compared, of_waves
    from quorumd.pipeline.plan.files import read_plan_folder

    plan = read_plan_folder(folder)
    state, _ = chosen_state(where)
    found = compared(plan.moves, state)
    if differences:
        print_rows(found.differences(), output)
    else:
        print_rows(
            of_waves(found), output, ("wave", "partitions", "as_planned", "as_before", "otherwise", "missing")
        )
    if not found.is_done:
        raise click.exceptions.Exit(1)
