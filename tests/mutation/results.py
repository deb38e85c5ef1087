"""Recorded verdicts, the list of equivalent mutations, and the summary of a sample."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.judge import KILLED, SURVIVED, UNCHANGED, Verdict
from tests.mutation.operators import Mutation

EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutation that makes no difference, with the reason."""

    place: str
    old: str
    new: str
    occurrence: int
    reason: str

    def covers(self, mutation: Mutation) -> bool:
        """Return True if the entry describes the mutation."""
        change = (mutation.place, mutation.old, mutation.new, mutation.occurrence)
        return change == (self.place, self.old, self.new, self.occurrence)


class Results:
    """Verdicts by mutation, in a file to which each verdict is appended immediately."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._verdicts: dict[str, Verdict] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            entry = json.loads(line)
            self._verdicts[entry["key"]] = Verdict(entry["outcome"], entry["by"], entry["seconds"])

    def get(self, mutation: Mutation) -> Verdict | None:
        """Return the last verdict about a mutation, unless its function has changed."""
        return self._verdicts.get(mutation.key)

    def add(self, mutation: Mutation, verdict: Verdict) -> None:
        """Record a verdict."""
        self._verdicts[mutation.key] = verdict
        self._path.parent.mkdir(parents=True, exist_ok=True)
        entry = {
            "key": mutation.key,
            "outcome": verdict.outcome,
            "by": verdict.by,
            "seconds": verdict.seconds,
        }
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def load_equivalents(path: Path = EQUIVALENT) -> list[Equivalent]:
    """Load the mutations that make no difference."""
    entries = tomllib.loads(path.read_text()).get("equivalent", [])
    return [
        Equivalent(each["in"], each["replace"], each["with"], each.get("occurrence", 1), each["reason"])
        for each in entries
    ]


def sample(mutations: Iterable[Mutation], count: int, seed: int) -> list[Mutation]:
    """Choose mutations at random, so that changes of other functions hardly affect the choice."""

    def order(mutation: Mutation) -> str:
        return hashlib.sha256(f"{seed}|{mutation.key}".encode()).hexdigest()

    return sorted(mutations, key=order)[:count]


def summary(
    chosen: Sequence[Mutation], verdicts: Mapping[Mutation, Verdict], equivalents: Sequence[Equivalent]
) -> Iterator[str]:
    """Yield the lines of a Markdown table by package, and the survivors that are not listed as equivalent."""
    yield "| package | mutations | killed by tests | by simulation | equivalent | survived |"
    yield "|---|---:|---:|---:|---:|---:|"
    totals = [0] * 5
    survivors: list[Mutation] = []
    for package in sorted({mutation.module.split(".")[1] for mutation in chosen}):
        row = [0] * 5
        for mutation in chosen:
            if mutation.module.split(".")[1] != package or mutation not in verdicts:
                continue
            column = _column(mutation, verdicts[mutation], equivalents)
            row[0] += 1
            row[column] += 1
            if column == 4:
                survivors.append(mutation)
        yield f"| {package} | {' | '.join(map(str, row))} |"
        totals = [total + each for total, each in zip(totals, row, strict=True)]
    yield f"| all | {' | '.join(map(str, totals))} |"
    real = totals[0] - totals[3]
    yield f"\n{totals[4]} of {real} mutations that are not equivalent survived: {totals[4] / max(1, real):.1%}"
    for mutation in survivors:
        yield describe(mutation)


def _column(mutation: Mutation, verdict: Verdict, equivalents: Sequence[Equivalent]) -> int:
    """Return the column of a mutation: 1 for tests, 2 for simulation, 3 for equivalent, 4 for survived."""
    if verdict.outcome == KILLED:
        return 2 if verdict.by.startswith("seed ") else 1
    if verdict.outcome == UNCHANGED or any(each.covers(mutation) for each in equivalents):
        return 3
    assert verdict.outcome == SURVIVED
    return 4


def describe(mutation: Mutation) -> str:
    """Describe a mutation in one line, as an entry of `equivalent.toml` names it."""
    number = f" (occurrence {mutation.occurrence})" if mutation.occurrence > 1 else ""
    return f"{mutation.place}:{mutation.lines[0]}: {mutation.old!r} -> {mutation.new!r}{number}"
