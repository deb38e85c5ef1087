"""Replay recorded hunts, to notice those that are stale: their seed no longer catches the mutant.

A change of the code, of a fault or of a workload changes what a seed does. Hunt the mutants of stale hunts again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.mutants.catalogue import Mutant
from tests.mutants.hunt import hunt
from tests.mutants.table import HuntResult, Results


@dataclass(frozen=True, slots=True)
class RecordedHunt:
    """A hunt that caught its mutant when it was recorded."""

    mutant: Mutant
    profile: str
    result: HuntResult

    def is_stale(self) -> bool:
        """Simulate the recorded seed with the mutant. Returns whether every invariant holds."""
        return hunt(self.mutant, self.profile, [self.result.seed], lambda seed: None) is None


def recorded_hunts(mutants: Sequence[Mutant], results: Results) -> list[RecordedHunt]:
    """Return the hunts of these mutants that caught them."""
    return [
        RecordedHunt(mutant, profile, result)
        for mutant in mutants
        for profile, result in results.get(mutant.name, {}).items()
        if result.invariant
    ]


def sample(hunts: Sequence[RecordedHunt], count: int, day: str) -> list[RecordedHunt]:
    """Return at most `count` hunts, chosen by the day, so that all are replayed in time."""
    return Random(day).sample(hunts, min(count, len(hunts)))
