"""The table of mutants as Markdown, and its place in the README of the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.mutants.catalogue import Mutant
from tests.mutants.hunt import Catch

BEGIN = "<!-- mutants: written by `make mutants` -->"
END = "<!-- end of mutants -->"
HEADER = "| mutant | what it breaks | source | caught by the invariant | seeds |\n|---|---|---|---|---:|\n"
NOT_CAUGHT = "**not caught**"


def row(mutant: Mutant, catch: Catch | None, seeds: int) -> str:
    """The line of one mutant; `catch` None if so many `seeds` held."""
    invariant = catch.invariant if catch is not None else NOT_CAUGHT
    needed = str(catch.seed) if catch is not None else f"> {seeds}"
    if mutant.profile:
        needed += f" ({mutant.profile})"
    return f"| {mutant.name} | {mutant.breaks} | {mutant.source} | {invariant} | {needed} |\n"


def replace_rows(readme: str, mutants: Sequence[Mutant], rows: Mapping[str, str]) -> str:
    """The README with these rows, by mutant, in its table; it has one for each of `mutants` that ever had one.

    Raises ValueError if the README has no place for it.
    """
    before, begin, rest = readme.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"tests/README.md has no {BEGIN} and {END}")
    known = {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines(keepends=True)}
    known |= rows
    lines = [known[mutant.name] for mutant in mutants if mutant.name in known]
    return f"{before}{begin}\n\n{HEADER}{''.join(lines)}\n{end}{after}"
