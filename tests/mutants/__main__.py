"""`make mutants`: plant bugs into the code that ships, and print which invariant catches each with which seed.

    python -m tests.mutants [--seeds 2000] [--jobs 2] [--profiles] [--missing] [--table-only] [NAME ...]
    python -m tests.mutants --replay 10 [--jobs 2] [NAME ...]
    python -m tests.mutants --part 1/2 [--jobs 2] [--correct] [NAME ...]

The results are recorded, and the table in tests/README.md is rewritten. The exit code is 1 if a mutant is not caught,
or if a seed violates an invariant also without the mutant: then the code or a checker has a defect. If `make reached`
has measured the present code, a hunt in plain swarm skips seeds that do not reach the mutated code.

With --replay or --part, recorded hunts are only repeated. The exit code is 1 if a seed no longer catches its mutant.
With --correct as well, stale hunts are removed from the record, and the invariants are replaced that have changed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import click

from tests.mutants.catalogue import Mutant, load_mutants
from tests.mutants.hunt import Catch, HuntFailed, hunt, seeds_that_reach
from tests.mutants.replay import RecordedHunt, part, recorded_hunts, sample
from tests.mutants.replay import correct as correct_results
from tests.mutants.table import (
    HEADER,
    README,
    SWARM,
    HuntResult,
    Results,
    load_results,
    replace_table,
    row,
    save_results,
    unplanted_violations,
)
from tests.mutation.reached_seeds import FILE, ReachedSeeds

PROGRESS_SEEDS = 200
"""The number of seeds between two lines of progress of a mutant that is not caught yet."""


def parse_part(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    """Return the number of a part, from 1, and the number of parts."""
    if value is None:
        return None
    number, _, count = value.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise click.BadParameter(f"{value!r} is not a part; use 1/2 for the first of two")
    return int(number), int(count)


@click.command()
@click.option(
    "--seeds",
    default=2000,
    show_default=True,
    help="Fail if a mutant is not caught within this number of seeds.",
)
@click.option(
    "--jobs",
    default=min(2, os.cpu_count() or 1),
    show_default=True,
    help="Hunt this number of mutants at once.",
)
@click.option(
    "--profiles", is_flag=True, help="Hunt each mutant in its own profile instead of in plain swarm."
)
@click.option("--missing", is_flag=True, help="Hunt only mutants without a recorded hunt.")
@click.option("--table-only", is_flag=True, help="Write the table of the recorded results without hunting.")
@click.option(
    "--replay",
    metavar="COUNT",
    type=click.IntRange(min=1),
    help="Only repeat this number of recorded hunts, chosen by the date, and list those that are stale.",
)
@click.option(
    "--part",
    "chosen_part",
    metavar="NUMBER/COUNT",
    callback=parse_part,
    help="Only repeat the recorded hunts of this part of all, by name, and list those that are stale.",
)
@click.option("--correct", is_flag=True, help="Record the results of --replay or --part.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def main(
    seeds: int,
    jobs: int,
    profiles: bool,
    missing: bool,
    table_only: bool,
    replay: int | None,
    chosen_part: tuple[int, int] | None,
    correct: bool,
    names: tuple[str, ...],
) -> None:
    """Hunt all mutants, or only the named mutants, and print which invariant catches each."""
    mutants, results = load_mutants(), load_results()
    named = select(mutants, names)
    if replay is not None or chosen_part is not None:
        hunts = part(recorded_hunts(named, results), *(chosen_part or (1, 1)))
        replayed = replay_all(sample(hunts, replay or len(hunts), date.today().isoformat()), jobs)
        if correct:
            correct_results(results, replayed)
            write_results(mutants, results)
        sys.exit(0 if all(invariant for _, invariant in replayed) else 1)
    escaped: list[str] = []

    def profile_of(mutant: Mutant) -> str:
        return mutant.profile if profiles else SWARM

    unplanted: Results = {}

    def record(mutant: Mutant, result: HuntResult) -> None:
        if not result.invariant:
            escaped.append(mutant.name)
        unplanted[mutant.name] = {profile_of(mutant): result}
        results.setdefault(mutant.name, {})[profile_of(mutant)] = result
        save_results(mutants, results)

    chosen = [
        mutant
        for mutant in named
        if profile_of(mutant) and not (missing and profile_of(mutant) in results.get(mutant.name, {}))
    ]
    if not table_only:
        hunt_all(chosen, profile_of, range(1, seeds + 1), jobs, record)
        click.echo("\n" + HEADER + "".join(row(mutant, results[mutant.name]) for mutant in chosen))
    README.write_text(replace_table(README.read_text(), mutants, results))
    violated = unplanted_violations(unplanted)
    for each in violated:
        click.echo(f"violated without the mutant as well: {each}")
    if escaped:
        click.echo(f"not caught within {seeds} seeds: {', '.join(escaped)}")
    sys.exit(1 if escaped or violated else 0)


def select(mutants: Sequence[Mutant], names: Sequence[str]) -> list[Mutant]:
    """Return the mutants with these names, or all without names. Raises UsageError if there is no such mutant."""
    unknown = set(names) - {mutant.name for mutant in mutants}
    if unknown:
        known = ", ".join(mutant.name for mutant in mutants)
        raise click.UsageError(f"unknown mutants: {', '.join(sorted(unknown))}; valid mutants: {known}")
    return [mutant for mutant in mutants if not names or mutant.name in names]


def replay_all(hunts: Sequence[RecordedHunt], jobs: int) -> list[tuple[RecordedHunt, str]]:
    """Replay hunts, and print those that are stale or violate another invariant. Returns each with the invariant that
    it violated, "" if it is stale."""
    replayed: list[tuple[RecordedHunt, str]] = []
    with ThreadPoolExecutor(jobs) as pool:
        for found, invariant in zip(hunts, pool.map(RecordedHunt.violated, hunts), strict=True):
            replayed.append((found, invariant))
            name, seed = found.mutant.name, f"seed {found.result.seed} of {found.profile}"
            if not invariant:
                click.echo(f"{name}: not caught any more by {seed}")
            elif invariant != found.result.invariant:
                click.echo(f"{name}: {seed} violates {invariant!r} instead of {found.result.invariant!r}")
    caught = sum(bool(invariant) for _, invariant in replayed)
    click.echo(f"{caught} of {len(hunts)} recorded seeds catch their mutant")
    return replayed


def write_results(mutants: Sequence[Mutant], results: Results) -> None:
    """Write the record and the table."""
    save_results(mutants, results)
    README.write_text(replace_table(README.read_text(), mutants, results))


def hunt_all(
    mutants: Sequence[Mutant],
    profile_of: Callable[[Mutant], str],
    seeds: range,
    jobs: int,
    record: Callable[[Mutant, HuntResult], None],
) -> None:
    """Hunt mutants, and record each result immediately."""
    begun, caught = time.monotonic(), 0
    reached = ReachedSeeds.load(0) if FILE.exists() else ReachedSeeds(0)
    if not reached.is_current():
        reached = ReachedSeeds(0)

    def hunted(mutant: Mutant) -> HuntResult:
        profile = profile_of(mutant)
        chosen = seeds_that_reach(mutant, seeds, reached) if profile == SWARM else seeds
        return hunt_one(mutant, profile, chosen, len(seeds))

    with ThreadPoolExecutor(jobs) as pool:
        for mutant, result in zip(mutants, pool.map(hunted, mutants), strict=True):
            caught += bool(result.invariant)
            record(mutant, result)
    click.echo(f"{caught} of {len(mutants)} caught in {time.monotonic() - begun:.0f} s")


def hunt_one(mutant: Mutant, profile: str, seeds: Sequence[int], limit: int) -> HuntResult:
    """Hunt for the first seed that violates an invariant with the mutant and not without it.

    If there is none, the result has `limit` as the number of seeds, since skipped seeds cannot catch the mutant.
    """
    simulated = 0
    unplanted: dict[int, str] = {}

    def progress(seed: int) -> None:
        nonlocal simulated
        simulated += 1
        if simulated % PROGRESS_SEEDS == 0:
            click.echo(f"{mutant.name}: {simulated} seeds hold, up to {seed}", err=True)

    while seeds:
        catch = hunt(mutant, profile, seeds, progress)
        if catch is None:
            break
        # If an invariant is violated without the mutant as well, the mutant is not caught.
        without = hunt(None, profile, [catch.seed], lambda seed: None)
        if without is None:
            click.echo(f"{mutant.name}: seed {catch.seed}: {first_line(catch)}")
            return HuntResult(catch.seed, catch.invariant, unplanted)
        click.echo(
            f"{mutant.name}: seed {catch.seed} fails without the mutant as well: {first_line(without)}"
        )
        unplanted[catch.seed] = without.invariant
        seeds = [seed for seed in seeds if seed > catch.seed]
    click.echo(f"{mutant.name}: NOT CAUGHT by {simulated} simulated seeds")
    return HuntResult(limit, "", unplanted)


def first_line(catch: Catch) -> str:
    return f"{catch.invariant}: {catch.text}".splitlines()[0]


def run(arguments: Sequence[str] | None = None) -> None:
    try:
        main(arguments, prog_name="python -m tests.mutants")
    except HuntFailed as failed:
        sys.exit(str(failed))


if __name__ == "__main__":
    run()
