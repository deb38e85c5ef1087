"""The harness bites: bugs planted into the code that ships are caught within a few seeds.

A handful of the mutants of `tests/mutants`, those that are caught at once; `make mutants` hunts them all.
"""

from __future__ import annotations

import pytest

from tests.mutants.catalogue import load_mutants
from tests.mutants.hunt import hunt

MUTANTS = {mutant.name: mutant for mutant in load_mutants()}
SEEDS = range(1, 100)

CAUGHT_AT_ONCE: dict[str, tuple[str, ...]] = {
    "responds-to-vote-before-flush": ("votes are durable before they count",),
    "epoch-is-not-saved": ("epochs are durable before they are sent", "a node starts after every crash"),
    "commits-by-the-fastest-voter": ("committed data is durable on a majority",),
    "high-watermark-at-epoch-start": ("a leader commits its own epoch first",),
    "flush-without-sync": ("committed data is durable on a majority",),
    "acknowledged-at-append": (
        "acknowledged writes are committed",
        "the controller's responses are committed",
        # A broker has learned an ISR from a response whose records were then lost.
        "a leader without a pending proposal waits for the committed ISR",
    ),
    "roll-back-missing": ("equal logs give equal images", "records kept for others survive"),
    "lost-wakeup-of-the-gate": (
        "a healthy majority makes progress",
        "a leader reachable by its followers stays leader",
    ),
}
"""The invariants that may notice each bug: the first seed depends on what else clusters draw."""


@pytest.mark.parametrize("name", CAUGHT_AT_ONCE)
def test_is_caught(name: str) -> None:
    catch = hunt(MUTANTS[name], MUTANTS[name].profile, SEEDS, lambda seed: None)
    assert catch is not None, f"{name} was not caught within {len(SEEDS)} seeds"
    assert catch.invariant in CAUGHT_AT_ONCE[name], catch.text


def test_no_violation_without_a_planted_bug() -> None:
    assert hunt(None, "", range(1, 4), lambda seed: None) is None
