"""Assignments to dictionaries that can be taken back: all that an undo journal needs.

A leader applies its own records when it proposes them, and takes them back when it loses leadership before they are
committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

ABSENT = object()
TOGETHER = object()

UndoEntry = tuple[dict[Any, Any], Any, Any]
"""One assignment that was made: the dictionary, the key, and what stood there before, ABSENT for nothing. Of
many that were made together: the dictionary, TOGETHER, and what stood there before by key."""


def assign(mapping: dict[Any, Any], key: Any, value: Any, changes: list[UndoEntry]) -> None:
    """Assign, and note in `changes` how to take it back."""
    changes.append((mapping, key, mapping.get(key, ABSENT)))
    mapping[key] = value


def remove(mapping: dict[Any, Any], key: Any, changes: list[UndoEntry]) -> None:
    """Remove a key, where it is, and note in `changes` how to take it back."""
    previous = mapping.pop(key, ABSENT)
    if previous is not ABSENT:
        changes.append((mapping, key, previous))


def add_all(mapping: dict[Any, Any], added: Mapping[Any, Any], changes: list[UndoEntry]) -> None:
    """Assign many new keys together: a fraction of the time that one by one they would take."""
    changes.append((mapping, TOGETHER, dict.fromkeys(added, ABSENT)))
    mapping.update(added)


def remove_all(mapping: dict[Any, Any], keys: Iterable[Any], changes: list[UndoEntry]) -> None:
    """Remove many keys, which are all there, together."""
    pop = mapping.pop
    changes.append((mapping, TOGETHER, {key: pop(key) for key in keys}))


def undo(changes: Iterable[UndoEntry]) -> None:
    """Take back changes; they must come newest first."""
    for mapping, key, previous in changes:
        if key is TOGETHER:
            undo((mapping, each, before) for each, before in previous.items())
        elif previous is ABSENT:
            mapping.pop(key, None)
        else:
            mapping[key] = previous
