"""`make mutation`: mutate code automatically, and count the mutations that neither tests nor simulated seeds notice.

    python -m tests.mutation [--sample 1000] [--seed 1] [--package raft]... [--seeds 12] [--again] [--report]

Verdicts are saved in build/mutation/results.jsonl, so that an interrupted run can be continued. equivalent.toml in
this directory lists mutations that make no difference. The exit code is 1 if more than MOST_SURVIVORS of the other
mutations survive.
"""

from __future__ import annotations

import subprocess
import sys
import time

import click

from tests.mutation.covered_lines import (
    DIRECTORY,
    PACKAGES,
    ROOT,
    CoveredLines,
    judging_files,
    measured_files,
)
from tests.mutation.judge import KILLED, SURVIVED, Verdict, judge_all, module_of
from tests.mutation.operators import Mutation, mutations
from tests.mutation.reached_seeds import FILE as REACHED
from tests.mutation.reached_seeds import ReachedSeeds
from tests.mutation.results import Results, describe, load_equivalents, sample, summary

MOST_SURVIVORS = 0.03
SAMPLED = ("raft", "log", "node", "controller")
"""The packages that are sampled without --package."""


@click.command()
@click.option("--sample", "size", default=1000, show_default=True, help="Judge this number of mutations.")
@click.option("--seed", default=1, show_default=True, help="Seed of the sample.")
@click.option(
    "--package",
    "packages",
    multiple=True,
    type=click.Choice(PACKAGES),
    help="Sample this package; may be repeated.",
)
@click.option("--in", "place", default="", help="Sample only functions whose dotted names have this prefix.")
@click.option("--seeds", default=12, show_default=True, help="Maximum number of seeds per mutation.")
@click.option(
    "--part", default="1/1", show_default=True, help="Judge only this part of the sample, such as 1/2."
)
@click.option("--again", is_flag=True, help="Judge survivors of earlier runs again.")
@click.option("--report", is_flag=True, help="Print the recorded verdicts without judging.")
def main(
    size: int,
    seed: int,
    packages: tuple[str, ...],
    place: str,
    seeds: int,
    part: str,
    again: bool,
    report: bool,
) -> None:
    """Judge a sample of mutations and print the survivors."""
    chosen = sample(all_mutations(packages or SAMPLED, place), size, seed)
    results = Results(DIRECTORY / "results.jsonl")
    if not report:
        number, count = map(int, part.split("/"))
        judge_missing(chosen[number - 1 :: count], results, seeds, again)
    verdicts = {each: verdict for each in chosen if (verdict := results.get(each)) is not None}
    equivalents = load_equivalents()
    for line in summary(chosen, verdicts, equivalents):
        click.echo(line)
    listed = {each for each in verdicts if any(entry.covers(each) for entry in equivalents)}
    survived = sum(verdicts[each].outcome == SURVIVED for each in verdicts.keys() - listed)
    if survived > MOST_SURVIVORS * len(verdicts):
        sys.exit(1)


def judge_missing(chosen: list[Mutation], results: Results, seeds: int, again: bool) -> None:
    """Judge the mutations without a verdict, and with `again` the survivors."""

    def is_due(mutation: Mutation) -> bool:
        verdict = results.get(mutation)
        return verdict is None or (again and verdict.outcome == SURVIVED)

    due = [mutation for mutation in chosen if is_due(mutation)]
    if not due:
        return
    prepare(seeds > 0)
    begun, done, survived = time.monotonic(), 0, 0

    def progress(mutation: Mutation, verdict: Verdict) -> None:
        nonlocal done, survived
        results.add(mutation, verdict)
        done += 1
        if verdict.outcome != KILLED:
            survived += 1
            click.echo(f"{verdict.outcome} ({verdict.seconds:.0f} s): {describe(mutation)}", err=True)
        if done % 20 == 0 or done == len(due):
            click.echo(
                f"{done} of {len(due)}, {survived} not killed, {time.monotonic() - begun:.0f} s", err=True
            )

    reached = ReachedSeeds.load(seeds) if seeds else ReachedSeeds(0)
    judge_all(due, CoveredLines.load(), reached, progress, judging_files())


def prepare(with_seeds: bool) -> None:
    """Record the lines that tests and seeds reach, in other processes: this process must not import quorumd yet."""
    subprocess.run([sys.executable, "-m", "tests.mutation.covered_lines"], check=True, cwd=ROOT)
    if with_seeds and not REACHED.exists():
        subprocess.run([sys.executable, "-m", "tests.simulation.reached_branches"], check=True, cwd=ROOT)


def all_mutations(packages: tuple[str, ...], place: str) -> list[Mutation]:
    """Return the mutations of some packages."""
    found = []
    for path in measured_files():
        module = module_of(path)
        if module.split(".")[1] in packages:
            found += mutations(module, path.read_text(encoding="utf-8"))
    return [mutation for mutation in found if mutation.place.startswith(place)]


if __name__ == "__main__":
    main()
