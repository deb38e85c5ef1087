"""`quorumd simulate`: whole clusters in one thread, virtual time, faults drawn from a seed."""

from __future__ import annotations

import logging
import os
import time
from functools import partial
from random import SystemRandom
from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.output import print_json, progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quorumd.simulator.report import Report

LARGEST_FRESH_SEED = 2**31 - 1


class ProfileName(click.ParamType):  # type: ignore[type-arg]  # click at run time has no type arguments for it
    """One of `quorumd.simulator.profiles`, imported only when one is given; `help` shows them all."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from quorumd.simulator.profiles import PROFILES

        if value == "help":
            for profile in PROFILES.values():
                click.echo(f"{profile.name:<10} {profile.sentence}")
            raise click.exceptions.Exit(0)
        if value not in PROFILES:
            self.fail(f"there is no profile {value!r}, only {', '.join(PROFILES)}", param, ctx)
        return value


@click.command()
@click.option("--seed", type=click.IntRange(0), help="The first seed.  [default: a random one]")
@click.option(
    "--seeds", "count", type=click.IntRange(1), default=1, show_default=True, help="How many, counted up."
)
@click.option(
    "--profile",
    type=ProfileName(),
    default="swarm",
    show_default=True,
    help="What goes wrong; `--profile help` lists the profiles.",
)
@click.option("--jobs", type=click.IntRange(1), help="Processes to spread them over.  [default: one a CPU]")
@click.option("--verbose", "-v", is_flag=True, help="Show on stderr what the simulated nodes log.")
@options.output
def simulate(
    seed: int | None, count: int, profile: str, jobs: int | None, verbose: bool, output: str
) -> None:
    """Run whole clusters in one thread, with faults.

    Virtual time, and every promise is checked after every event.
    The nodes are the code that ships, on a simulated network, clock and disk: crashes that lose what was
    not synced, partitions, delays, full disks. Everything is drawn from the seed: the same seed does the
    same again. Exit code 1 if a promise was broken; the line that reproduces it is printed.

    \b
    Examples:
      quorumd simulate --seed 7
      quorumd simulate --seeds 200
      quorumd simulate --seeds 50 --profile disk
      quorumd simulate --seed 7 --verbose
      quorumd simulate --seed 7 --output json | jq '.[0].counters'
    """
    first = SystemRandom().randint(0, LARGEST_FRESH_SEED) if seed is None else seed
    jobs = min(count, jobs or os.cpu_count() or 1)
    begun = time.monotonic()
    reports: list[Report] = []
    with progress(f"simulating seed {first}") as show:
        for report in _reports(first, count, profile, jobs, verbose):
            reports.append(report)
            if not report.ok and output == "text":
                click.echo(str(report))
            broken = sum(not each.ok for each in reports)
            show(f"{len(reports)} of {count} seeds done, {broken} broken; seed {report.seed + 1} is next")
    if output == "json":
        print_json([report.as_json() for report in reports])
    else:
        click.echo(summary(reports, time.monotonic() - begun))
    if not all(report.ok for report in reports):
        raise click.exceptions.Exit(1)


def _reports(first: int, count: int, profile: str, jobs: int, verbose: bool) -> Iterator[Report]:
    """The reports in the order of seeds, each as soon as it and those before it are there."""
    seeds = range(first, first + count)
    if jobs == 1:
        _set_logging(verbose)
        yield from map(partial(_simulated, profile), seeds)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # Not forked: a spinner's thread may be running.
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _set_logging, (verbose,))
    try:
        yield from pool.map(partial(_simulated, profile), seeds)
    finally:
        pool.shutdown(cancel_futures=True)


def _simulated(profile: str, seed: int) -> Report:
    from quorumd.simulator.profiles import draw_options
    from quorumd.simulator.run import run_seeds

    return run_seeds(seed, 1, draw_options(seed, profile), lambda report: None)[0]


def _set_logging(verbose: bool) -> None:
    """What simulated nodes complain about is mostly the faults that they are given."""
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.INFO if verbose else logging.CRITICAL)


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
