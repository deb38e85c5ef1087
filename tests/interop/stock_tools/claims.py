"""Claims, tried one after the other, and the table of what came of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.errors import QuorumdError

Step = tuple[str, Callable[[], str]]
"""A claim, and what tries it: returns what was seen, raises where the claim does not hold."""

HOLDS, BROKEN, NOT_TRIED = "holds", "BROKEN", "not tried"
SHOWN = 300
"""Characters of what was found, of what was expected, of what a tool said."""
_BREAKS = (AssertionError, LookupError, OSError, TypeError, json.JSONDecodeError, QuorumdError)
"""What else says that a claim does not hold: an answer without what it should have, or none in time."""


class ClaimBroken(Exception):
    """A claim does not hold: what was found instead."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim and what came of it: HOLDS, BROKEN or NOT_TRIED."""

    about: str
    claim: str
    outcome: str
    seen: str


def expect(what: str, found: object, expected: object) -> None:
    """Raises ClaimBroken unless they are equal; of dictionaries it tells where they differ."""
    if found == expected:
        return
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = [key for key in found | expected if found.get(key) != expected.get(key)]
        found, expected = ({key: side.get(key) for key in keys} for side in (found, expected))
    raise ClaimBroken(f"{what}: {shortened(found)}, expected {shortened(expected)}")


def shortened(value: object) -> str:
    """As text, of SHOWN characters at most."""
    text = str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def judge(groups: Sequence[tuple[str, Sequence[Step]]], tell: Callable[[str], None]) -> list[Verdict]:
    """Try claims about several things that build upon each other: behind a broken one nothing is tried."""
    found: list[Verdict] = []
    for about, claim, attempt in [(about, *step) for about, steps in groups for step in steps]:
        if found and found[-1].outcome != HOLDS:
            found.append(Verdict(about, claim, NOT_TRIED, ""))
            continue
        try:
            found.append(Verdict(about, claim, HOLDS, attempt()))
        except (ClaimBroken, *_BREAKS) as broken:
            found.append(Verdict(about, claim, BROKEN, f"{broken}" or type(broken).__name__))
        tell(f"{about}: {claim}: {found[-1].outcome}")
    return found


def show(verdicts: Sequence[Verdict], title: str, console: Console) -> None:
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for heading in ("", "claim", "", "seen"):
        table.add_column(heading, overflow="fold")
    for number, verdict in enumerate(verdicts):
        is_first = number == 0 or verdicts[number - 1].about != verdict.about
        table.add_row(verdict.about if is_first else "", verdict.claim, verdict.outcome, verdict.seen)
    console.print(table)
