"""`make mutants`: bugs planted into the code that ships, and which promise catches each, after how many seeds.

    python -m tests.mutants [--seeds 2000] [--jobs 2] [NAME ...]

Prints a table, and writes its rows into the one of tests/README.md. Exit code 1 if a mutant is not caught.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from tests.mutants.catalogue import Mutant, load_mutants
from tests.mutants.hunt import Catch, HuntFailed, hunt
from tests.mutants.table import HEADER, replace_rows, row

README = Path(__file__).resolve().parent.parent / "README.md"
TOLD_EVERY = 200
"""Seeds between two signs of life of a mutant that is not caught yet."""


@click.command()
@click.option("--seeds", default=2000, show_default=True, help="Within so many a mutant must be caught.")
@click.option("--jobs", default=min(2, os.cpu_count() or 1), show_default=True, help="Mutants side by side.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def main(seeds: int, jobs: int, names: tuple[str, ...]) -> None:
    """Hunt all mutants, or those named, and print who caught them."""
    mutants = load_mutants()
    unknown = set(names) - {mutant.name for mutant in mutants}
    if unknown:
        there = ", ".join(mutant.name for mutant in mutants)
        raise click.UsageError(f"no mutant {', '.join(sorted(unknown))}; there are: {there}")
    chosen = [mutant for mutant in mutants if not names or mutant.name in names]
    began = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        catches = list(pool.map(lambda mutant: hunted(mutant, seeds), chosen))
    rows = {mutant.name: row(mutant, catch, seeds) for mutant, catch in zip(chosen, catches, strict=True)}
    click.echo("\n" + HEADER + "".join(rows.values()))
    README.write_text(replace_rows(README.read_text(), mutants, rows))
    escaped = [mutant.name for mutant, catch in zip(chosen, catches, strict=True) if catch is None]
    caught = len(chosen) - len(escaped)
    click.echo(f"{caught} of {len(chosen)} caught in {time.monotonic() - began:.0f} s")
    if escaped:
        click.echo(f"not caught within {seeds} seeds: {', '.join(escaped)}")
        sys.exit(1)


def hunted(mutant: Mutant, seeds: int) -> Catch | None:
    """The catch, None for a mutant that got away."""

    def progress(seed: int) -> None:
        if seed % TOLD_EVERY == 0:
            click.echo(f"{mutant.name}: {seed} seeds hold", err=True)

    first = 1
    while first <= seeds:
        catch = hunt(mutant, mutant.profile, range(first, seeds + 1), progress)
        if catch is None:
            break
        # A promise that does not hold without the bug either has not caught it.
        innocent = hunt(None, mutant.profile, range(catch.seed, catch.seed + 1), lambda seed: None)
        if innocent is None:
            click.echo(f"{mutant.name}: seed {catch.seed}: {first_line(catch)}")
            return catch
        click.echo(
            f"{mutant.name}: seed {catch.seed} breaks without it, too: {first_line(innocent)}", err=True
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
