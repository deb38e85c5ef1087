"""The histories of the client processes: files with one line per operation, which are read while they grow."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import astuple, dataclass
from itertools import pairwise
from math import inf
from pathlib import Path

from quorumd.simulator.checkers.append_only_list import check_append_only_list
from quorumd.simulator.checkers.linearizability import Operation, check_register, first_contradiction

LIST_KEY = "list-"
"""Prefix of the keys of lists; all other keys are registers."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation as its client saw it; times are milliseconds of the machine's monotonic clock."""

    client: int
    kind: str
    key: str
    value: str | None
    called_ms: float
    returned_ms: float | None
    outcome: str
    """The outcome "ok", "not sent" (it certainly had no effect), or the reason why its effect is unknown."""

    def line(self) -> str:
        """Return the line of the file."""
        return json.dumps(astuple(self)) + "\n"

    @property
    def is_write(self) -> bool:
        return self.kind != "read"


class Histories:
    """The operations of all client processes; `poll` reads new operations."""

    def __init__(self, files: list[Path]) -> None:
        self._files = dict.fromkeys(files, 0)
        self.entries: list[Entry] = []
        self._acknowledged_ms: list[float] = []
        self._is_sorted = True

    def poll(self) -> None:
        """Read new lines; an incomplete line is left for the next call."""
        for file, position in self._files.items():
            if not file.exists():
                continue
            with file.open("rb") as stream:
                stream.seek(position)
                data = stream.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._files[file] = position + len(whole)
            for line in whole.splitlines():
                self.add(Entry(*json.loads(line)))

    def add(self, entry: Entry) -> None:
        """Add an operation."""
        self.entries.append(entry)
        if entry.is_write and entry.returned_ms is not None:
            self._acknowledged_ms.append(entry.returned_ms)
            self._is_sorted = False

    def acknowledged_between(self, start_ms: float, end_ms: float) -> list[float]:
        """Return the sorted times of acknowledgements in an interval."""
        if not self._is_sorted:
            self._acknowledged_ms.sort()
            self._is_sorted = True
        times = self._acknowledged_ms
        return times[bisect_left(times, start_ms) : bisect_right(times, end_ms)]

    def first_write_begun_after(self, moment_ms: float) -> float | None:
        """Return the time of the first acknowledgement of a write called after a moment; None if there is none."""
        recent = [
            entry.returned_ms
            for entry in self.entries[-2000:]
            if entry.is_write and entry.called_ms > moment_ms and entry.returned_ms is not None
        ]
        return min(recent, default=None)

    def longest_gap_ms(self, start_ms: float, end_ms: float) -> float:
        """Return the longest time without an acknowledged write between two moments."""
        moments = [start_ms, *self.acknowledged_between(start_ms, end_ms), end_ms]
        return max(after - before for before, after in pairwise(moments))

    def outcomes(self) -> Counter[tuple[str, str]]:
        """Count the operations by kind and outcome."""
        return Counter((entry.kind, entry.outcome) for entry in self.entries)

    def keys(self) -> list[str]:
        """Return all keys, sorted."""
        return sorted({entry.key for entry in self.entries})

    def acknowledged_registers(self) -> list[Entry]:
        """Return the acknowledged writes of registers."""
        return [entry for entry in self.entries if entry.kind == "write" and entry.outcome == "ok"]

    def contradictions(self) -> list[str]:
        """Return one text for each key whose operations are not linearizable."""
        by_key: dict[str, list[Operation]] = {}
        for entry in self.entries:
            if entry.outcome != "not sent":
                by_key.setdefault(entry.key, []).append(operation_of(entry))
        found = []
        for key, history in sorted(by_key.items()):
            if key.startswith(LIST_KEY):
                if not check_append_only_list(history):
                    found.append(_describe(f"the list {key} was not only appended to", history))
            elif not check_register(history):
                found.append(
                    _describe(f"the register {key} is not linearizable", first_contradiction(history) or [])
                )
        return found


def operation_of(entry: Entry) -> Operation:
    """Convert an entry for the checkers, where the value of a read of a list is a tuple."""
    value: object = entry.value
    if entry.key.startswith(LIST_KEY) and entry.kind == "read":
        value = tuple((entry.value or "").split(",")) if entry.value else ()
    returned = inf if entry.returned_ms is None else entry.returned_ms
    return Operation(entry.client, entry.kind, entry.key, value, entry.called_ms, returned)


def _describe(what: str, history: list[Operation]) -> str:
    ordered = sorted(history, key=lambda operation: operation.called_ms)
    return "\n".join([what + ":", *(f"    {operation}" for operation in ordered[-40:])])
