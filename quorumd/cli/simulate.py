"""`quorumd simulate`: whole clusters in one thread on virtual time, with faults drawn from a seed."""

from __future__ import annotations

import logging
import os
import signal
import time
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

import click

from quorumd.cli import options
from quorumd.cli.output import Progress, columns, print_json, progress
from quorumd.errors import ConfigError
from quorumd.output_files import write_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quorumd.simulator.options import SimulationOptions
    from quorumd.simulator.report import Report

LARGEST_FRESH_SEED = 2**31 - 1


class ProfileName(click.ParamType):  # type: ignore[type-arg]  # click at run time has no type arguments for it
    """A name in `quorumd.simulator.profiles.registry`, imported only if one is given; `help` lists them."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from quorumd.simulator.profiles.registry import PROFILES

        if value == "help":
            cells = [(profile.name, profile.description) for profile in PROFILES.values()]
            click.echo(columns(("Profile", "Faults"), cells))
            raise click.exceptions.Exit(0)
        if value not in PROFILES:
            self.fail(f"unknown profile {value!r}; choose one of {', '.join(PROFILES)}", param, ctx)
        return value


class FaultNumbers(click.ParamType):  # type: ignore[type-arg]  # as above
    """`none`, or numbers separated by commas."""

    name = "numbers"

    def convert(
        self, value: str | tuple[int, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = () if value == "none" else tuple(int(number) for number in value.split(","))
        except ValueError:
            numbers = (-1,)
        if min(numbers, default=0) < 0:
            self.fail(f"{value!r} is neither `none` nor a list of numbers separated by commas", param, ctx)
        return numbers


@click.command()
@click.option("--seed", type=click.IntRange(0), help="Start with this seed.  [default: a random one]")
@click.option(
    "--seeds",
    "count",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Run this many consecutive seeds.",
)
@click.option(
    "--profile",
    type=ProfileName(),
    default="swarm",
    show_default=True,
    help="Inject the faults of this profile; `--profile help` lists the profiles.",
)
@click.option(
    "--only-faults",
    type=FaultNumbers(),
    help="Inject only the drawn faults with these indexes: 0,3,7 or none.",
)
@click.option(
    "--safety-duration",
    "safety_ms",
    type=options.duration_ms,
    metavar="DURATION",
    help="Inject faults for this long instead of the drawn time.",
)
@click.option(
    "--observers", type=click.IntRange(0), help="Run this many observers instead of the drawn number."
)
@click.option("--clients", type=click.IntRange(1), help="Run this many clients instead of the drawn number.")
@click.option(
    "--no-shrink", is_flag=True, help="Do not search for a shorter run that violates the same invariant."
)
@click.option(
    "--shrink-timeout",
    "shrink_s",
    type=options.duration,
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="Stop shrinking a seed after this long.",
)
@click.option("--explain", is_flag=True, help="Print what happens in one seed, one event per line.")
@click.option(
    "--from",
    "from_ms",
    type=options.duration_ms,
    metavar="DURATION",
    help="Explain from this virtual time on.",
)
@click.option(
    "--to", "to_ms", type=options.duration_ms, metavar="DURATION", help="Explain up to this virtual time."
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, writable=True),
    help="Write the explanation as a sequence diagram into this file.",
)
@click.option(
    "--jobs", type=click.IntRange(1), help="Run seeds in this many processes.  [default: one per CPU]"
)
@click.option("--verbose", "-v", is_flag=True, help="Print the logs of the simulated nodes on stderr.")
@options.output
def simulate(
    seed: int | None,
    count: int,
    no_shrink: bool,
    shrink_s: float,
    explain: bool,
    from_ms: float | None,
    to_ms: float | None,
    html: str | None,
    jobs: int | None,
    verbose: bool,
    output: str,
    **changes: Any,
) -> None:
    """Run whole clusters in one thread, with faults.

    The nodes run the production code on a simulated network, clock and disk, with crashes that lose unsynced
    data, network partitions, delays and full disks. Every invariant is checked after every event. Everything
    is drawn from the seed, so the same seed repeats the same run. Exit code 1 if an invariant was violated;
    the command then searches for a shorter run that violates the same invariant and prints the command line
    that reproduces it.

    \b
    Examples:
      quorumd simulate --seed 7
      quorumd simulate --seeds 200
      quorumd simulate --seeds 50 --profile disk
      quorumd simulate --seed 7 --explain --from 1800ms --to 2200ms
      quorumd simulate --seed 7 --html seed-7.html
      quorumd simulate --seed 7 --verbose
      quorumd simulate --seed 7 --output json | jq '.[0].counters'
    """
    _set_logging(verbose)
    first = SystemRandom().randint(0, LARGEST_FRESH_SEED) if seed is None else seed
    change = Overrides(**changes)
    if explain or html is not None:
        if count != 1:
            raise click.UsageError("--explain and --html cannot be combined with --seeds")
        span_ms = (from_ms or 0.0, inf if to_ms is None else to_ms)
        reports = [explain_run(first, change, span_ms, explain, html, output)]
        change.check_drawn(reports[0])
    elif from_ms is not None or to_ms is not None:
        raise click.UsageError("--from and --to require --explain or --html")
    else:
        reports = _simulate_seeds(
            first, count, change, None if no_shrink else shrink_s, jobs, verbose, output
        )
    raise click.exceptions.Exit(0 if all(report.ok for report in reports) else 1)


def _simulate_seeds(
    first: int,
    count: int,
    change: Overrides,
    shrink_s: float | None,
    jobs: int | None,
    verbose: bool,
    output: str,
) -> list[Report]:
    """Simulate `count` seeds from `first` on and print the reports, with shorter runs unless `shrink_s` is None."""
    started_s = time.monotonic()
    reports: list[Report] = []
    shorter: dict[int, str] = {}
    with progress(f"simulating seed {first}") as show:
        for report in _reports(first, count, change, min(count, jobs or os.cpu_count() or 1), verbose):
            change.check_drawn(report)
            reports.append(report)
            if not report.ok:
                _report_violation(report, shrink_s, output, show, shorter)
            failed = sum(not each.ok for each in reports)
            show(f"{len(reports)} of {count} seeds done, {failed} failed; next is seed {report.seed + 1}")
    if output == "json":
        print_json([_as_json(report, shorter) for report in reports])
    else:
        click.echo(summary(reports, time.monotonic() - started_s))
    return reports


def _report_violation(
    report: Report, shrink_s: float | None, output: str, show: Progress, shorter: dict[int, str]
) -> None:
    """Print a failed seed; unless `shrink_s` is None, also store the command line of a shorter run in `shorter`."""
    if output == "text":
        click.echo(str(report))
    if shrink_s is None:
        return
    show(f"seed {report.seed} failed: searching for a shorter run")
    shorter[report.seed] = _shrunk(report, shrink_s).reproduce
    if output == "text":
        click.echo(f"  shorter:   {shorter[report.seed]}")


def _as_json(report: Report, shorter: dict[int, str]) -> dict[str, object]:
    """The report of the seed as requested, with the shrunk run's command line added."""
    document = report.as_json()
    if report.seed in shorter:
        document["shorter"] = shorter[report.seed]
    return document


@dataclass(frozen=True)
class Overrides:
    """Options of the command line that replace what a seed draws."""

    profile: str
    only_faults: tuple[int, ...] | None
    safety_ms: float | None
    observers: int | None
    clients: int | None

    def check_drawn(self, report: Report) -> None:
        """Raise ConfigError if --only-faults lists a fault that this seed never draws. A failed run ended before all
        faults were drawn, and a shortened run may be too short for a listed fault; both are accepted."""
        if not report.ok or self.safety_ms is not None:
            return
        unknown = [number for number in self.only_faults or () if number >= report.drawn_faults]
        if unknown:
            drawn = f"faults 0 to {report.drawn_faults - 1}" if report.drawn_faults else "no faults"
            raise ConfigError(
                f"--only-faults {','.join(map(str, unknown))}: seed {report.seed} draws {drawn} in its "
                f"{report.options.safety_ms:g} ms; `--output json` without --only-faults lists the faults that occur"
            )

    def options(self, seed: int) -> SimulationOptions:
        from quorumd.simulator.profiles.draw import draw_options

        drawn = draw_options(seed, self.profile)
        workload = drawn.workload if self.clients is None else replace(drawn.workload, clients=self.clients)
        return replace(
            drawn,
            only_faults=self.only_faults,
            safety_ms=drawn.safety_ms if self.safety_ms is None else self.safety_ms,
            observers=drawn.observers if self.observers is None else self.observers,
            workload=workload,
        )


def _reports(first: int, count: int, change: Overrides, jobs: int, verbose: bool) -> Iterator[Report]:
    """Yield the reports in the order of seeds, each as soon as it and its predecessors are finished."""
    seeds = range(first, first + count)
    if jobs == 1:
        _set_logging(verbose)
        yield from map(partial(_simulate_seed, change), seeds)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # Spawned, not forked: a spinner's thread may be running.
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _init_worker, (verbose,))
    try:
        yield from pool.map(partial(_simulate_seed, change), seeds)
    finally:
        # A second interrupt during shutdown would leave the pool and its workers waiting for each other.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        pool.shutdown(cancel_futures=True)
        signal.signal(signal.SIGINT, before)


def _simulate_seed(change: Overrides, seed: int) -> Report:
    from quorumd.simulator.run import run_seeds

    return run_seeds(seed, 1, change.options(seed), lambda report: None)[0]


def _shrunk(report: Report, seconds: float) -> Report:
    from quorumd.simulator.explain.shrink import shrink
    from quorumd.simulator.run import run_seeds

    deadline_s = time.monotonic() + seconds
    return shrink(
        report,
        lambda options: run_seeds(report.seed, 1, options, lambda report: None)[0],
        lambda: time.monotonic() < deadline_s,
    )


def explain_run(
    seed: int, change: Overrides, span_ms: tuple[float, float], on_stdout: bool, html: str | None, output: str
) -> Report:
    """Run one seed and print its timeline on stdout, write it as a page into the file `html`, or both."""
    from quorumd.simulator.explain.sequence_diagram import page
    from quorumd.simulator.explain.timeline import Timeline, lines, window
    from quorumd.simulator.simulation import Simulation

    timeline = Timeline()
    report = Simulation(seed, change.options(seed), timeline).run()
    entries = window(timeline.entries, *span_ms)
    if output == "json":
        print_json(report.as_json() | {"timeline": [entry.as_json() for entry in entries]})
    elif on_stdout:
        for line in lines(entries):
            click.echo(line)
    if html is not None:
        verdict = [str(violation) for violation in report.violations]
        text = page(report.reproduce, verdict, timeline.lanes, timeline.entries, span_ms)
        write_output(Path(html), text)
    if output == "text":
        click.echo(str(report))
        if html is not None:
            click.echo(f"the sequence diagram is in {html}")
    return report


def _set_logging(verbose: bool) -> None:
    """Silence the simulated nodes unless `verbose`: most of their warnings are about injected faults."""
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.INFO if verbose else logging.CRITICAL)


def _init_worker(verbose: bool) -> None:
    """Ignore SIGINT: Ctrl-C reaches every process of a terminal, and the parent stops the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _set_logging(verbose)


def summary(reports: Sequence[Report], seconds: float) -> str:
    """The verdict and totals over all seeds."""
    failed = [report.seed for report in reports if not report.ok]
    virtual_s = sum(report.virtual_ms for report in reports) / 1000
    events = sum(report.events for report in reports)
    verdict = f"{len(failed)} failed: {', '.join(map(str, failed))}" if failed else "every invariant held"
    seeds = (
        f"seed {reports[0].seed}" if len(reports) == 1 else f"seeds {reports[0].seed} to {reports[-1].seed}"
    )
    text = f"{seeds}: {verdict}; {events:,} events, {virtual_s:,.1f} s of virtual time in {seconds:.1f} s"
    return text + (f"; trace {reports[0].trace_hash}" if len(reports) == 1 else "")
