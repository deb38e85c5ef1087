"""The table of mutants in tests/README.md, with the recorded results of their hunts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tests.mutants.catalogue import DIRECTORY, Mutant

README = DIRECTORY.parent / "README.md"
RESULTS = DIRECTORY / "hunts.json"

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
    """The last hunt of a mutant in a profile."""

    seed: int
    """The seed that caught the mutant, or the number of seeds that did not."""
    invariant: str
    """The violated invariant, or "" if the mutant was not caught."""
    unplanted: Mapping[int, str] = field(default_factory=dict)
    """The invariants that were violated without the mutant, by seed; these seeds do not catch the mutant."""

    @property
    def seeds(self) -> str:
        """The seeds of the hunt, as shown in the table."""
        return str(self.seed) if self.invariant else f"> {self.seed}"


Results = dict[str, dict[str, HuntResult]]
"""Hunts by names of mutants and profiles."""


def load_results(path: Path = RESULTS) -> Results:
    """Load the recorded results."""
    return {
        name: {profile: _from_json(**entry) for profile, entry in hunts.items()}
        for name, hunts in json.loads(path.read_text()).items()
    }


def _from_json(seed: int, invariant: str, unplanted: Mapping[str, str] | None = None) -> HuntResult:
    return HuntResult(seed, invariant, {int(each): found for each, found in (unplanted or {}).items()})


def _to_json(hunt: HuntResult) -> dict[str, object]:
    entry: dict[str, object] = {"seed": hunt.seed, "invariant": hunt.invariant}
    return entry | ({"unplanted": dict(hunt.unplanted)} if hunt.unplanted else {})


def save_results(mutants: Sequence[Mutant], results: Results, path: Path = RESULTS) -> None:
    """Write the results of `mutants`, with one mutant per line."""
    lines = []
    for mutant in mutants:
        if hunts := results.get(mutant.name):
            entries = {profile: _to_json(hunt) for profile, hunt in sorted(hunts.items())}
            lines.append(f"  {json.dumps(mutant.name)}: {json.dumps(entries)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def row(mutant: Mutant, hunts: Mapping[str, HuntResult]) -> str:
    """Format the line of a mutant, with its hunts in plain swarm and in its own profile."""
    in_swarm, in_profile = hunts.get(SWARM), hunts.get(mutant.profile) if mutant.profile else None
    invariants = [hunt.invariant for hunt in (in_swarm, in_profile) if hunt is not None]
    invariant = next(filter(None, invariants), NOT_CAUGHT if invariants else NOT_HUNTED)
    seeds = in_swarm.seeds if in_swarm is not None else ""
    of_profile = f"{in_profile.seeds if in_profile is not None else ''} ({mutant.profile})".strip()
    last = of_profile if mutant.profile else ""
    return f"| {mutant.name} | {mutant.breaks} | {mutant.source} | {invariant} | {seeds} | {last} |\n"


def summary(mutants: Sequence[Mutant], results: Results) -> str:
    """Summarize how many mutants were caught and where, and which seeds violate invariants without a mutant."""
    hunts = [(mutant, results.get(mutant.name, {})) for mutant in mutants]
    in_swarm = [found[SWARM].seed for _, found in hunts if SWARM in found and found[SWARM].invariant]
    in_profile = [mutant for mutant, found in hunts if _is_caught(found, mutant.profile)]
    caught = sum(_is_caught(found, SWARM) or _is_caught(found, mutant.profile) for mutant, found in hunts)
    not_hunted = sum(not found.keys() & {SWARM, mutant.profile} for mutant, found in hunts)
    seeds = f" (median {median(in_swarm):g}, largest {max(in_swarm)})" if in_swarm else ""
    text = (
        f"Of {len(mutants)} bugs {caught} were caught: {len(in_swarm)} by a seed of plain swarm{seeds}, "
        f"{len(in_profile)} by a seed of their profile. {not_hunted} have no recorded hunt.\n"
    )
    unplanted = unplanted_violations(results)
    return text + "".join(f"\nViolated without a bug: {each}.\n" for each in unplanted)


def unplanted_violations(results: Results) -> list[str]:
    """Describe each seed that violated an invariant without a mutant, which is a defect of the code or a checker."""
    found = {
        (profile, seed): invariant
        for hunts in results.values()
        for profile, hunt in hunts.items()
        for seed, invariant in hunt.unplanted.items()
    }
    return [
        f"{invariant!r} by seed {seed} of {profile}" for (profile, seed), invariant in sorted(found.items())
    ]


def _is_caught(hunts: Mapping[str, HuntResult], profile: str) -> bool:
    return profile in hunts and bool(hunts[profile].invariant)


def replace_table(readme: str, mutants: Sequence[Mutant], results: Results) -> str:
    """Return the README with the table of `mutants`. Raises ValueError if it has no place for the table."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"tests/README.md has no {BEGIN} and {END}")
    rows = "".join(row(mutant, results.get(mutant.name, {})) for mutant in mutants)
    return f"{before}{begin}\n\n{summary(mutants, results)}\n{HEADER}{rows}\n{end}{after}"
