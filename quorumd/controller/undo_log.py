"""Assignments to dictionaries that can be taken back: all that an undo journal needs.

A leader applies its own records when it proposes them, and takes them back when it loses leadership before they are
committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

ABSENT = object()

UndoEntry = tuple[dict[Any, Any], Any, Any]
"""One assignment that was made: the dictionary, the key, and what stood there before, ABSENT for nothing."""


def assign(mapping: dict[Any, Any], key: Any, value: Any, changes: list[UndoEntry]) -> None:
    """Assign, and note in `changes` how to take it back."""
    changes.append((mapping, key, mapping.get(key, ABSENT)))
    mapping[key] = value


def remove(mapping: dict[Any, Any], key: Any, changes: list[UndoEntry]) -> None:
    """Remove a key, where it is, and note in `changes` how to take it back."""
    previous = mapping.pop(key, ABSENT)
    if previous is not ABSENT:
        changes.append((mapping, key, previous))


def undo(changes: Iterable[UndoEntry]) -> None:
    """Take back changes; they must come newest first."""
    for mapping, key, previous in changes:
        if previous is ABSENT:
            mapping.pop(key, None)
        else:
            mapping[key] = previous
