"""Assignments to dictionaries that can be undone.

A leader applies its own records when it appends them, and undoes them if it loses leadership before they are
committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

ABSENT = object()
TOGETHER = object()

UndoEntry = tuple[dict[Any, Any], Any, Any]
"""One assignment: the dictionary, the key, and the previous value or ABSENT. Many assignments made together: the
dictionary, TOGETHER, and the previous values by key."""


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
    """Assign many new keys together, in a fraction of the time of single assignments."""
    changes.append((mapping, TOGETHER, dict.fromkeys(added, ABSENT)))
    mapping.update(added)


def remove_all(mapping: dict[Any, Any], keys: Iterable[Any], changes: list[UndoEntry]) -> None:
    """Remove many keys together, all of which must be present."""
    pop = mapping.pop
    changes.append((mapping, TOGETHER, {key: pop(key) for key in keys}))


def undo(changes: Iterable[UndoEntry]) -> None:
    """Undo changes, given newest first."""
    for mapping, key, previous in changes:
        if key is TOGETHER:
            undo((mapping, each, before) for each, before in previous.items())
        elif previous is ABSENT:
            mapping.pop(key, None)
        else:
            mapping[key] = previous
