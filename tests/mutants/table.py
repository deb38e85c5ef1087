"""The table of mutants as Markdown, and its place in the README of the tests."""

from __future__ import annotations

from collections.abc import Sequence

from tests.mutants.catalogue import Mutant
from tests.mutants.hunt import Catch

BEGIN = "<!-- mutants: written by `make mutants` -->"
END = "<!-- end of mutants -->"
NOT_CAUGHT = "**not caught**"


def render(mutants: Sequence[Mutant], catches: Sequence[Catch | None], seeds: int) -> str:
    """One row a mutant, in their order; `catches` is beside `mutants`."""
    rows = ["| mutant | what it breaks | source | caught by the promise | seeds |", "|---|---|---|---|---:|"]
    for mutant, catch in zip(mutants, catches, strict=True):
        promise = catch.promise if catch is not None else NOT_CAUGHT
        needed = str(catch.seed) if catch is not None else f"> {seeds}"
        if mutant.profile:
            needed += f" ({mutant.profile})"
        rows.append(f"| {mutant.name} | {mutant.breaks} | {mutant.source} | {promise} | {needed} |")
    return "\n".join(rows) + "\n"


def replace_table(readme: str, table: str) -> str:
    """The README with this table between the markers. Raises ValueError if they are not there."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"tests/README.md has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"
