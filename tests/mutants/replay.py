"""Replay recorded hunts, to notice those that are stale: their seed no longer catches the mutant.

A change of the code, of a fault or of a workload changes what a seed does. Hunt the mutants of stale hunts again.
A seed that violates another invariant than recorded still catches its mutant if it holds without the mutant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.mutants.catalogue import Mutant
from tests.mutants.hunt import Catch, hunt
from tests.mutants.table import HuntResult, Results


@dataclass(frozen=True, slots=True)
class RecordedHunt:
    """A hunt that caught its mutant when it was recorded."""

    mutant: Mutant
    profile: str
    result: HuntResult

    def violated(self) -> str:
        """Simulate the recorded seed with the mutant. Returns the invariant by which the seed catches it, "" if the
        hunt is stale: if all invariants hold, or if another one than recorded is also violated without the mutant."""
        catch = self._simulate(self.mutant)
        if catch is None:
            return ""
        if catch.invariant != self.result.invariant and self._simulate(None) is not None:
            return ""
        return catch.invariant

    def _simulate(self, mutant: Mutant | None) -> Catch | None:
        return hunt(mutant, self.profile, [self.result.seed], lambda seed: None)


def recorded_hunts(mutants: Sequence[Mutant], results: Results) -> list[RecordedHunt]:
    """Return the hunts of these mutants that caught them."""
    return [
        RecordedHunt(mutant, profile, result)
        for mutant in mutants
        for profile, result in results.get(mutant.name, {}).items()
        if result.invariant
    ]


def correct(results: Results, replayed: Iterable[tuple[RecordedHunt, str]]) -> None:
    """Record the invariants that replayed hunts violated, and remove the stale ones."""
    for found, invariant in replayed:
        hunts = results[found.mutant.name]
        if invariant:
            hunts[found.profile] = replace(found.result, invariant=invariant)
        else:
            del hunts[found.profile]


def sample(hunts: Sequence[RecordedHunt], count: int, day: str) -> list[RecordedHunt]:
    """Return at most `count` hunts, chosen by the day, so that all are replayed in time."""
    return Random(day).sample(hunts, min(count, len(hunts)))


def part(hunts: Sequence[RecordedHunt], number: int, count: int) -> list[RecordedHunt]:
    """Return the part with this number, from 1, of `count` parts of nearly the same size, ordered by names."""
    ordered = sorted(hunts, key=lambda found: (found.mutant.name, found.profile))
    return ordered[(number - 1) * len(ordered) // count : number * len(ordered) // count]
