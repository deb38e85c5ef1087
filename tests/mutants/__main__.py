"""`make mutants`: plants bugs into the code that ships; prints which invariant catches each, after how many seeds.

    python -m tests.mutants [--seeds 2000] [--jobs 2] [--table-only] [NAME ...]

Records the results and rewrites the table in tests/README.md. Exit code 1 if a mutant is not caught.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import click

from tests.mutants.catalogue import Mutant, load_mutants
from tests.mutants.hunt import Catch, HuntFailed, hunt
from tests.mutants.table import (
    HEADER,
    README,
    HuntResult,
    load_results,
    replace_table,
    row,
    save_results,
)

PROGRESS_SEEDS = 200
"""Seeds between two lines of progress of a mutant that is not caught yet."""


@click.command()
@click.option(
    "--seeds", default=2000, show_default=True, help="Fail if this many seeds do not catch a mutant."
)
@click.option(
    "--jobs", default=min(2, os.cpu_count() or 1), show_default=True, help="Hunt this many at once."
)
@click.option("--table-only", is_flag=True, help="Write the table of the recorded results without hunting.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def main(seeds: int, jobs: int, table_only: bool, names: tuple[str, ...]) -> None:
    """Hunt all mutants, or those named, and print which invariant catches each."""
    mutants, results = load_mutants(), load_results()
    unknown = set(names) - {mutant.name for mutant in mutants}
    if unknown:
        known = ", ".join(mutant.name for mutant in mutants)
        raise click.UsageError(f"unknown mutant {', '.join(sorted(unknown))}; choose from {known}")
    escaped: list[str] = []
    if not table_only:
        chosen = [mutant for mutant in mutants if not names or mutant.name in names]
        found = hunt_all(chosen, seeds, jobs)
        click.echo("\n" + HEADER + "".join(row(mutant, found[mutant.name]) for mutant in chosen))
        results |= found
        save_results(mutants, results)
        escaped = [name for name, result in found.items() if not result.invariant]
    README.write_text(replace_table(README.read_text(), mutants, results))
    if escaped:
        click.echo(f"not caught within {seeds} seeds: {', '.join(escaped)}")
        sys.exit(1)


def hunt_all(mutants: Sequence[Mutant], seeds: int, jobs: int) -> dict[str, HuntResult]:
    """The results by name of the mutant."""
    begun = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        catches = list(pool.map(lambda mutant: hunt_one(mutant, seeds), mutants))
    caught = sum(catch is not None for catch in catches)
    click.echo(f"{caught} of {len(mutants)} caught in {time.monotonic() - begun:.0f} s")
    return {
        mutant.name: HuntResult(mutant.profile, catch.seed, catch.invariant)
        if catch is not None
        else HuntResult(mutant.profile, seeds, "")
        for mutant, catch in zip(mutants, catches, strict=True)
    }


def hunt_one(mutant: Mutant, seeds: int) -> Catch | None:
    """The first seed that violates an invariant with the mutant and not without it; None if there is none."""

    def progress(seed: int) -> None:
        if seed % PROGRESS_SEEDS == 0:
            click.echo(f"{mutant.name}: {seed} seeds hold", err=True)

    first = 1
    while first <= seeds:
        catch = hunt(mutant, mutant.profile, range(first, seeds + 1), progress)
        if catch is None:
            break
        # An invariant that is violated without the bug too has not caught it.
        unplanted = hunt(None, mutant.profile, range(catch.seed, catch.seed + 1), lambda seed: None)
        if unplanted is None:
            click.echo(f"{mutant.name}: seed {catch.seed}: {first_line(catch)}")
            return catch
        click.echo(
            f"{mutant.name}: seed {catch.seed} fails without the mutant, too: {first_line(unplanted)}",
            err=True,
        )
        first = catch.seed + 1
    click.echo(f"{mutant.name}: NOT CAUGHT by {seeds} seeds")
    return None


def first_line(catch: Catch) -> str:
    return f"{catch.invariant}: {catch.text}".splitlines()[0]


def run(arguments: Sequence[str] | None = None) -> None:
    try:
        main(arguments, prog_name="python -m tests.mutants")
    except HuntFailed as failed:
        sys.exit(str(failed))


if __name__ == "__main__":
    run()
