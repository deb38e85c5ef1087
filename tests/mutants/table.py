"""The table of mutants in the README of the tests, made of the mutants and of the recorded results of their hunts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutants.catalogue import FOLDER, Mutant

README = FOLDER.parent / "README.md"
RESULTS = FOLDER / "hunts.json"

BEGIN = "<!-- mutants: written by `make mutants` -->"
END = "<!-- end of mutants -->"
HEADER = "| mutant | what it breaks | source | caught by the invariant | seeds |\n|---|---|---|---|---:|\n"
NOT_CAUGHT = "**not caught**"
NOT_HUNTED = "not hunted yet"


@dataclass(frozen=True, slots=True)
class HuntResult:
    """The last hunt of a mutant with a profile. `invariant` is "" if `seed` seeds did not catch it."""

    profile: str
    seed: int
    invariant: str


def load_results(path: Path = RESULTS) -> dict[str, HuntResult]:
    """The recorded results by name of the mutant."""
    return {name: HuntResult(**entry) for name, entry in json.loads(path.read_text()).items()}


def save_results(mutants: Sequence[Mutant], results: Mapping[str, HuntResult], path: Path = RESULTS) -> None:
    """Write the results of these mutants, one per line."""
    lines = [
        f"  {json.dumps(mutant.name)}: {json.dumps(asdict(results[mutant.name]))}"
        for mutant in mutants
        if mutant.name in results
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def row(mutant: Mutant, result: HuntResult | None) -> str:
    """The line of one mutant. The result of a hunt with another profile does not count."""
    if result is None or result.profile != mutant.profile:
        invariant, needed = NOT_HUNTED, ""
    else:
        invariant = result.invariant or NOT_CAUGHT
        needed = str(result.seed) if result.invariant else f"> {result.seed}"
    if mutant.profile:
        needed = f"{needed} ({mutant.profile})".strip()
    return f"| {mutant.name} | {mutant.breaks} | {mutant.source} | {invariant} | {needed} |\n"


def replace_table(readme: str, mutants: Sequence[Mutant], results: Mapping[str, HuntResult]) -> str:
    """The README with the table of these mutants. Raises ValueError if it has no place for it."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"tests/README.md has no {BEGIN} and {END}")
    rows = "".join(row(mutant, results.get(mutant.name)) for mutant in mutants)
    return f"{before}{begin}\n\n{HEADER}{rows}\n{end}{after}"
