"""`quorumd pipeline report`: a page with plots."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click


@click.command()
@click.option("--history", type=click.Path(path_type=Path), help="A folder of `history build`.")
@click.option("--plan", type=click.Path(path_type=Path), help="A folder of `plan make`.")
@click.option("--audit", type=click.Path(path_type=Path), help="A file of `audit --report`.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="The page.",
)
def report(history: Path | None, plan: Path | None, audit: Path | None, out: Path) -> None:
    """Make one HTML page of a history, a plan and an audit, or of some of them.

    Leader and ISR churn, partitions in trouble, epochs, brokers and lag over time; what brokers have before and
    after a plan; what an audit found. The page needs nothing but itself: send it, or keep it. Making it takes a
    second or two and neither Java nor Spark.

    \b
    Examples:
      quorumd pipeline report --history history --out report.html
      quorumd pipeline report --history history --plan plan --audit audit.json
    """
    if history is None and plan is None and audit is None:
        raise click.UsageError("give at least one of --history, --plan and --audit")
    from quorumd.pipeline.java import need_extra

    need_extra()
    from quorumd.pipeline.report.report import write_report

    write_report(history, plan, audit, out, datetime.now(UTC))
    click.echo(f"{out} ({out.stat().st_size / 1000:,.0f} kB)")
