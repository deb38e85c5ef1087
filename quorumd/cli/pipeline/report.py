"""`quorumd pipeline report`: an HTML page with charts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click


@click.command()
@click.option(
    "--history",
    type=click.Path(path_type=Path),
    help="Include the history in this directory (`history build`).",
)
@click.option(
    "--plan", type=click.Path(path_type=Path), help="Include the plan in this directory (`plan make`)."
)
@click.option(
    "--audit", type=click.Path(path_type=Path), help="Include the audit in this file (`audit --report`)."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="Write the page to this file.",
)
def report(history: Path | None, plan: Path | None, audit: Path | None, out: Path) -> None:
    """Write an HTML report of a history, a plan, an audit, or any combination.

    It shows leader and ISR churn, degraded partitions, epochs, brokers and lag over time, the brokers before and
    after the plan, and the findings of the audit. The page is self-contained: its charts zoom and have tooltips
    without network access. Needs neither Java nor Spark.

    \b
    Examples:
      quorumd pipeline report --history history --out report.html
      quorumd pipeline report --history history --plan plan --audit audit.json
    """
    if history is None and plan is None and audit is None:
        raise click.UsageError("give at least one of --history, --plan and --audit")
    from quorumd.pipeline.spark.java import REPORT_MODULES, need_extra

    need_extra(REPORT_MODULES)
    from quorumd.pipeline.report.report import write_report

    write_report(history, plan, audit, out, datetime.now(UTC))
    click.echo(f"{out} ({out.stat().st_size / 1000:,.0f} kB)")
