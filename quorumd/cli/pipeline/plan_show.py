"""`quorumd pipeline plan show`: the figures, brokers and moves of a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorumd.cli.output import columns
from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.output import print_rows
from quorumd.cli.pipeline.plan_state import check_wave

if TYPE_CHECKING:
    from quorumd.pipeline.plan.files import Figures, Plan


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--brokers", is_flag=True, help="Show the brokers before and after.")
@click.option("--moves", is_flag=True, help="Show the moves of each partition.")
@click.option("--wave", type=click.IntRange(min=1), metavar="N", help="Show only this wave, with --moves.")
@pipeline_options.output
def show(directory: Path, brokers: bool, moves: bool, wave: int | None, output: str) -> None:
    """Show a plan: its figures, its brokers, or its moves.

    \b
    Examples:
      quorumd pipeline plan show plan
      quorumd pipeline plan show plan --brokers
      quorumd pipeline plan show plan --moves --wave 3 --output csv
    """
    if brokers and moves:
        raise click.UsageError("--brokers cannot be combined with --moves")
    if wave is not None and not moves:
        raise click.UsageError("--wave requires --moves")
    from quorumd.pipeline.spark.java import need_extra

    need_extra()
    from quorumd.pipeline.plan.files import read_plan_directory

    found = read_plan_directory(directory)
    check_wave(found, directory, wave)
    if brokers:
        print_rows(found.brokers, output)
    elif moves:
        print_rows(found.moves if wave is None else found.of_wave(wave), output)
    else:
        show_figures(found, output)


def show_figures(found: Plan, output: str) -> None:
    """Print how much a plan moves, and the balance before and after."""
    figures = found.figures
    if output == "json":
        click.echo(json.dumps({**figures, "made_from": found.made_from}, indent=2))
        return
    rows = _comparison(figures)
    if output != "text":
        print_rows(rows, output)
        return
    by_bytes = figures["bytes"] is not None
    amount = f"{figures['moves']:,} replicas are copied"
    if by_bytes:
        amount += (
            f", {figures['bytes']:,} bytes (the minimum for this balance is {figures['lower_bound_bytes']:,})"
        )
    else:
        amount += f" (the minimum for this balance is {figures['lower_bound']:,})"
    changed = f"{figures['changed_partitions']:,} of {figures['partitions']:,} partitions change"
    noun = "wave" if figures["waves"] == 1 else "waves"
    click.echo(f"{changed}, {amount}, in {figures['waves']:,} {noun}\n")
    click.echo(
        columns(("Figure", "Before", "After"), [[row["figure"], row["before"], row["after"]] for row in rows])
    )


def _comparison(figures: Figures) -> list[dict[str, str | float | None]]:
    names = {
        "replicas_min": "minimum replicas per broker",
        "replicas_max": "maximum replicas per broker",
        "replicas_max_to_mean": "maximum to mean replicas per broker",
        "leaders_min": "minimum leaders per broker",
        "leaders_max": "maximum leaders per broker",
        "leaders_max_to_mean": "maximum to mean leaders per broker",
        "bytes_max_to_mean": "maximum to mean bytes per broker",
        "rack_violations": "partitions with too many replicas in a rack",
        "most_of_a_topic": "most replicas of a topic on a broker above its share",
    }
    return [
        {"figure": name, "before": figures["before"][key], "after": figures["after"].get(key)}
        for key, name in names.items()
        if key in figures["before"]
    ]
