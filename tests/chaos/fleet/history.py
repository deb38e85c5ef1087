"""The history of the fleet's requests and their outcomes, as lines of JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

OK = "ok"
NO_RESPONSE = "no response"


class CommittedIsr(NamedTuple):
    """The ISR in the response to a successful AlterPartition, which is therefore committed."""

    topic_id: str
    partition: int
    partition_epoch: int
    leader_epoch: int
    isr: tuple[int, ...]


class HistoryWriter:
    """Appends lines to a history file."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def record(self, what: str, outcome: str, value: object = None) -> None:
        """Append a line; `value` is a CommittedIsr or the name of a topic."""
        self._file.write(json.dumps([what, outcome, value]) + "\n")


@dataclass(slots=True)
class FleetHistory:
    """The content of a history file; every list has only acknowledged requests. No topic name is used twice."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Counts by request and outcome."""
    isrs: list[CommittedIsr] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    """Names of created topics."""
    deleted: list[str] = field(default_factory=list)
    """Names of deleted topics."""

    @classmethod
    def read(cls, path: Path) -> FleetHistory:
        """Read the complete lines of a file that may grow."""
        history = cls()
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            what, outcome, value = json.loads(line)
            history.outcomes[what, outcome] += 1
            if outcome == OK and what == "CreateTopics":
                history.created.append(value)
            elif outcome == OK and what == "DeleteTopics":
                history.deleted.append(value)
            elif outcome == OK and what == "AlterPartition":
                *epochs, isr = value
                history.isrs.append(CommittedIsr(*epochs, tuple(isr)))
        return history
