"""`quorumd simulate`: whole clusters in one thread, virtual time, faults drawn from a seed."""

from __future__ import annotations

import time
from random import SystemRandom
from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.output import print_json, progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quorumd.simulator.report import Report

LARGEST_FRESH_SEED = 2**31 - 1


@click.command()
@click.option("--seed", type=click.IntRange(0), help="The first seed.  [default: a random one]")
@click.option(
    "--seeds", "count", type=click.IntRange(1), default=1, show_default=True, help="How many, counted up."
)
@options.output
def simulate(seed: int | None, count: int, output: str) -> None:
    """Run a whole cluster in one thread, in virtual time, with faults, and check every promise after every
    event.

    The nodes are the code that ships, on a simulated network, clock and disk: crashes that lose what was
    not synced, partitions, delays, full disks. Everything is drawn from the seed: the same seed does the
    same again. Exit code 1 if a promise was broken; the line that reproduces it is printed.

    \b
    Examples:
      quorumd simulate --seed 7
      quorumd simulate --seeds 200
      quorumd simulate --seed 7 --output json | jq '.[0].counters'
    """
    from quorumd.simulator.run import run_seeds

    first = SystemRandom().randint(0, LARGEST_FRESH_SEED) if seed is None else seed
    begun = time.monotonic()
    done: list[Report] = []
    with progress(f"simulating seed {first}") as show:

        def tell(report: Report) -> None:
            done.append(report)
            if not report.ok and output == "text":
                click.echo(str(report))
            if len(done) < count:
                broken = sum(not each.ok for each in done)
                show(f"{len(done)} of {count} seeds done, {broken} broken")

        reports = run_seeds(first, count, None, tell)
    if output == "json":
        print_json([report.as_json() for report in reports])
    else:
        click.echo(summary(reports, time.monotonic() - begun))
    if not all(report.ok for report in reports):
        raise click.exceptions.Exit(1)


def summary(reports: Sequence[Report], seconds: float) -> str:
    """What all seeds together came to."""
    broken = [report.seed for report in reports if not report.ok]
    virtual_s = sum(report.virtual_ms for report in reports) / 1000
    events = sum(report.events for report in reports)
    verdict = f"{len(broken)} broken: {', '.join(map(str, broken))}" if broken else "every promise held"
    seeds = (
        f"seed {reports[0].seed}" if len(reports) == 1 else f"seeds {reports[0].seed} to {reports[-1].seed}"
    )
    text = f"{seeds}: {verdict}; {events:,} events, {virtual_s:,.1f} s of virtual time in {seconds:.1f} s"
    return text + (f"; trace {reports[0].trace_hash}" if len(reports) == 1 else "")
