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
HEADER = (
    "| mutant | what it breaks | source | caught by the invariant | seeds of swarm | of its profile |\n"
    "|---|---|---|---|---:|---:|\n"
)
NOT_CAUGHT = "**not caught**"
NOT_HUNTED = "not hunted yet"
SWARM = "swarm"
"""The profile of plain seeds."""


@dataclass(frozen=True, slots=True)
class HuntResult:
    """The last hunt of a mutant in a profile. `invariant` is "" if `seed` seeds did not catch it."""

    seed: int
    invariant: str

    @property
    def seeds(self) -> str:
        """How many seeds were needed."""
        return str(self.seed) if self.invariant else f"> {self.seed}"


Results = dict[str, dict[str, HuntResult]]
"""Hunts by name of the mutant and of the profile."""


def load_results(path: Path = RESULTS) -> Results:
    """The recorded results."""
    return {
        name: {profile: HuntResult(**entry) for profile, entry in hunts.items()}
        for name, hunts in json.loads(path.read_text()).items()
    }


def save_results(mutants: Sequence[Mutant], results: Results, path: Path = RESULTS) -> None:
    """Write the results of these mutants, one mutant per line."""
    lines = []
    for mutant in mutants:
        if hunts := results.get(mutant.name):
            entries = {profile: asdict(hunt) for profile, hunt in sorted(hunts.items())}
            lines.append(f"  {json.dumps(mutant.name)}: {json.dumps(entries)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def row(mutant: Mutant, hunts: Mapping[str, HuntResult]) -> str:
    """The line of one mutant. Hunts in profiles that are not its own do not count."""
    in_swarm, in_profile = hunts.get(SWARM), hunts.get(mutant.profile) if mutant.profile else None
    invariants = [hunt.invariant for hunt in (in_swarm, in_profile) if hunt is not None]
    invariant = next(filter(None, invariants), NOT_CAUGHT if invariants else NOT_HUNTED)
    seeds = in_swarm.seeds if in_swarm is not None else ""
    of_profile = f"{in_profile.seeds if in_profile is not None else ''} ({mutant.profile})".strip()
    last = of_profile if mutant.profile else ""
    return f"| {mutant.name} | {mutant.breaks} | {mutant.source} | {invariant} | {seeds} | {last} |\n"


def replace_table(readme: str, mutants: Sequence[Mutant], results: Results) -> str:
    """The README with the table of these mutants. Raises ValueError if it has no place for it."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"tests/README.md has no {BEGIN} and {END}")
    rows = "".join(row(mutant, results.get(mutant.name, {})) for mutant in mutants)
    return f"{before}{begin}\n\n{HEADER}{rows}\n{end}{after}"
