"""Changes of dictionaries that can be undone.

A leader applies its own records when it appends them, and undoes them if it loses leadership before they are
committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

ABSENT = object()
ADDED = object()
REMOVED = object()

UndoEntry = tuple[dict[Any, Any], Any, Any]
"""One key set or removed: (dictionary, key, previous value or ABSENT). Many keys added together: (dictionary, ADDED,
keys). Many keys removed together: (dictionary, REMOVED, (keys, values))."""


def assign(mapping: dict[Any, Any], key: Any, value: Any, changes: list[UndoEntry]) -> None:
    """Assign a value and add its undo entry to `changes`."""
    changes.append((mapping, key, mapping.get(key, ABSENT)))
    mapping[key] = value


def remove(mapping: dict[Any, Any], key: Any, changes: list[UndoEntry]) -> None:
    """Remove a key if present and add its undo entry to `changes`."""
    previous = mapping.pop(key, ABSENT)
    if previous is not ABSENT:
        changes.append((mapping, key, previous))


def add_all(mapping: dict[Any, Any], added: Mapping[Any, Any], changes: list[UndoEntry]) -> None:
    """Assign many new keys together, in a fraction of the time of single assignments. `added` must not change until
    the change can no longer be undone."""
    changes.append((mapping, ADDED, added))
    mapping.update(added)


def remove_all(mapping: dict[Any, Any], keys: Collection[Any], changes: list[UndoEntry]) -> None:
    """Remove many keys together, all of which must be present. `keys` must not change until the change can no longer
    be undone. Raises KeyError for a missing key."""
    changes.append((mapping, REMOVED, (keys, list(map(mapping.pop, keys)))))


def undo(changes: Iterable[UndoEntry]) -> None:
    """Undo changes, which are given in reverse order, the newest first."""
    for mapping, key, previous in changes:
        if key is ADDED:
            for each in previous:
                mapping.pop(each, None)
        elif key is REMOVED:
            mapping.update(zip(*previous, strict=True))
        elif previous is ABSENT:
            mapping.pop(key, None)
        else:
            mapping[key] = previous
