"""Directories. A created, renamed or removed name is durable only after its directory is synced.

Until then a crash may undo the change: a random number of the latest changes of a directory is lost (journals
preserve their order), independently for each directory. A rename is one atomic change. Whether a file's bytes survive
does not depend on its name: a renamed file that was not synced may be empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from quorumd.simulator.environment.stored_file import Loss, StoredFile

NameChange = tuple[tuple[str, "StoredFile | Directory | None"], ...]
"""Names with their new entries, None for a removed name; applied atomically."""


class Directory:
    """A directory: `entries` is the view of processes, `durable` the synced state."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, StoredFile | Directory] = {}
        self.durable: dict[str, StoredFile | Directory] = {}
        self.pending: list[NameChange] = []

    def change(self, *names: tuple[str, StoredFile | Directory | None]) -> None:
        self.pending.append(names)
        _apply(self.entries, names)

    def copy(self) -> Directory:
        """Return a durable copy of the directory and its content."""
        copy = Directory()
        copy.entries = {name: entry.copy() for name, entry in self.entries.items()}
        copy.durable = dict(copy.entries)
        return copy

    def contents(self, path: str = "") -> dict[str, bytes]:
        """Return the content of all files in the tree, by path, as a process sees it."""
        found: dict[str, bytes] = {}
        for name, entry in self.entries.items():
            if isinstance(entry, Directory):
                found |= entry.contents(f"{path}/{name}")
            else:
                found[f"{path}/{name}"] = bytes(entry.content)
        return found

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def files(self) -> Iterator[StoredFile]:
        """Iterate over all files in the tree, as a process sees them."""
        for entry in self.entries.values():
            if isinstance(entry, Directory):
                yield from entry.files()
            else:
                yield entry

    def durable_entry(self, name: str) -> StoredFile | Directory | None:
        """Return the entry that `name` has after every possible crash now; None if uncertain or missing."""
        for change in self.pending:
            for changed, _ in change:
                if name == changed:
                    return None
        return self.durable.get(name)

    def crash(self, random: Random) -> Loss:
        """Undo a random number of unsynced changes in this directory, its subdirectories and their files."""
        loss = Loss()
        survivors = random.choice((0, len(self.pending), random.randrange(len(self.pending) + 1)))
        for change in self.pending[:survivors]:
            _apply(self.durable, change)
        loss.lost_names = len(self.pending) - survivors
        loss.lost_renames = sum(len(change) > 1 for change in self.pending[survivors:])
        self.pending.clear()
        self.entries = dict(self.durable)
        for entry in self.entries.values():
            loss.add(entry.crash(random))
        return loss


def _apply(entries: dict[str, StoredFile | Directory], change: NameChange) -> None:
    for name, entry in change:
        if entry is None:
            entries.pop(name, None)
        else:
            entries[name] = entry
