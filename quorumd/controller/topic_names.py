"""What a topic may be called (Kafka's rules: the name is part of a folder's name and of metrics')."""

from __future__ import annotations

import re

MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_name_reason(name: str) -> str | None:
    """Why no topic can be called so, None if one can."""
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
    """Two names that differ only in '.' and '_' have the same unified name: in metrics they would be one."""
    return name.replace(".", "_")


def has_collision_chars(name: str) -> bool:
    """Whether another name can have the same unified name."""
    return "." in name or "_" in name
