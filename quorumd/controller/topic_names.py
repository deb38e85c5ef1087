"""Validation of topic names by Kafka's rules, which make them usable in directory and metric names."""

from __future__ import annotations

import re

MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_name_reason(name: str) -> str | None:
    """Return why a topic name is invalid, None if it is valid."""
    if not name:
        return "The topic name must not be empty."
    if name in (".", ".."):
        return f"The topic name must not be {name!r}."
    if len(name) > MAX_NAME_LENGTH:
        return f"The topic name has {len(name)} characters; the maximum is {MAX_NAME_LENGTH}."
    if not _LEGAL.fullmatch(name):
        return "The topic name may contain only ASCII letters, digits, '.', '_' and '-'."
    return None


def normalized(name: str) -> str:
    """Return the unified name, equal for names that differ only in '.' and '_' and so collide in metric names."""
    return name.replace(".", "_")


def has_collision_chars(name: str) -> bool:
    """Whether another name can have the same unified name."""
    return "." in name or "_" in name
