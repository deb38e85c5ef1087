"""What the fleet asked for and was told: one line of JSON an answer, or a missing one."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

OK = "ok"
NO_ANSWER = "no answer"


class ToldIsr(NamedTuple):
    """An AlterPartition that was answered without an error: it is committed."""

    topic_id: str
    partition: int
    partition_epoch: int
    leader_epoch: int
    isr: tuple[int, ...]


class Notes:
    """Writes the lines."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def note(self, what: str, outcome: str, told: object = None) -> None:
        """`told`: a ToldIsr, or the name of a topic."""
        self._file.write(json.dumps([what, outcome, told]) + "\n")


@dataclass(slots=True)
class FleetHistory:
    """Everything that was written down. Topics have names of their own: none is made twice."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By what was asked for, and outcome."""
    isrs: list[ToldIsr] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    """Names of topics: acknowledged, as all lists."""

    @classmethod
    def read(cls, path: Path) -> FleetHistory:
        """What is in the whole lines of a file that may grow."""
        history = cls()
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            what, outcome, told = json.loads(line)
            history.outcomes[what, outcome] += 1
            if outcome == OK and what == "CreateTopics":
                history.created.append(told)
            elif outcome == OK and what == "DeleteTopics":
                history.deleted.append(told)
            elif outcome == OK and what == "AlterPartition":
                *epochs, isr = told
                history.isrs.append(ToldIsr(*epochs, tuple(isr)))
        return history
