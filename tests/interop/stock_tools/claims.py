"""Claims, which are tested one after the other, and the table of their verdicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.errors import QuorumdError

Step = tuple[str, Callable[[], str]]
"""A claim and its test, which returns a summary of its observations, and raises if the claim does not hold."""

HOLDS, BROKEN, NOT_TRIED = "holds", "BROKEN", "not tried"
SHOWN = 300
"""The maximum number of characters of a value or of a tool's output in a message."""
_BREAKS = (AssertionError, LookupError, OSError, TypeError, json.JSONDecodeError, QuorumdError)
"""Other exceptions that mean that a claim does not hold, for example because a response is incomplete or late."""


class ClaimBroken(Exception):
    """A claim does not hold; the message states the actual result."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim with its outcome: HOLDS, BROKEN or NOT_TRIED."""

    about: str
    claim: str
    outcome: str
    seen: str


def expect(what: str, found: object, expected: object) -> None:
    """Raise ClaimBroken unless the values are equal; for dictionaries, the message has only different entries."""
    if found == expected:
        return
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = [key for key in found | expected if found.get(key) != expected.get(key)]
        found, expected = ({key: side.get(key) for key in keys} for side in (found, expected))
    raise ClaimBroken(f"{what}: {shortened(found)}, expected {shortened(expected)}")


def shortened(value: object) -> str:
    """Return the text of a value, shortened to SHOWN characters."""
    text = str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def judge(groups: Sequence[tuple[str, Sequence[Step]]], report: Callable[[str], None]) -> list[Verdict]:
    """Test groups of claims that depend on earlier claims: after a broken claim, no more claims are tested."""
    found: list[Verdict] = []
    for about, claim, attempt in [(about, *step) for about, steps in groups for step in steps]:
        if found and found[-1].outcome != HOLDS:
            found.append(Verdict(about, claim, NOT_TRIED, ""))
            continue
        try:
            found.append(Verdict(about, claim, HOLDS, attempt()))
        except (ClaimBroken, *_BREAKS) as broken:
            found.append(Verdict(about, claim, BROKEN, f"{broken}" or type(broken).__name__))
        report(f"{about}: {claim}: {found[-1].outcome}")
    return found


def show(verdicts: Sequence[Verdict], title: str, console: Console) -> None:
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for heading in ("", "claim", "", "seen"):
        table.add_column(heading, overflow="fold")
    for number, verdict in enumerate(verdicts):
        is_first = number == 0 or verdicts[number - 1].about != verdict.about
        table.add_row(verdict.about if is_first else "", verdict.claim, verdict.outcome, verdict.seen)
    console.print(table)
