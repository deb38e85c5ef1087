"""Names in folders. A name created, renamed or removed is durable only after its folder was synced.

Until then a crash may take the change back: of one folder's changes a random number of the latest vanish
(journals keep them in order), each folder by itself. A rename is one change: it never half happens. Whether a
file's bytes survive does not depend on its name: a renamed file that was not synced may be there and empty.
"""

from __future__ import annotations

from random import Random

from quorumd.simulator.environment.stored_file import Loss, StoredFile

NameChange = tuple[tuple[str, "StoredFile | Directory | None"], ...]
"""Names with what each of them means from now on, None for nothing; all at once."""


class Directory:
    """One folder: `entries` is what a process sees, `durable` what was synced."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, StoredFile | Directory] = {}
        self.durable: dict[str, StoredFile | Directory] = {}
        self.pending: list[NameChange] = []

    def change(self, *names: tuple[str, StoredFile | Directory | None]) -> None:
        self.pending.append(names)
        _apply(self.entries, names)

    def copy(self) -> Directory:
        """Another folder with copies of all that is in this one, durable."""
        copy = Directory()
        copy.entries = {name: entry.copy() for name, entry in self.entries.items()}
        copy.durable = dict(copy.entries)
        return copy

    def contents(self, path: str = "") -> dict[str, bytes]:
        """What a process sees of all files below, by path."""
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

    def durable_entry(self, name: str) -> StoredFile | Directory | None:
        """What `name` means after every crash at this moment; None while that is not certain."""
        for change in self.pending:
            for changed, _ in change:
                if name == changed:
                    return None
        return self.durable.get(name)

    def crash(self, random: Random) -> Loss:
        """Take back a random number of unsynced changes here and in the folders and files below."""
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
