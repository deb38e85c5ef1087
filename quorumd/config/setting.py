"""Declares settings: fields of a pydantic model with their keys in a properties file."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import Field

INTERNAL = "internal."
"""Prefix of keys that inject faults, for tests of quorumd; neither documentation nor errors mention them."""


class Problem(NamedTuple):
    """Settings that contradict each other. `fields` are the settings involved, the one to change first."""

    fields: tuple[str, ...]
    wrong: str
    allowed: str


class SettingDocumentation(NamedTuple):
    """One row of the documentation; `default` is "required" if there is none."""

    keys: tuple[str, ...]
    kind: str
    default: str
    meaning: str
    allowed: str


def setting(*keys: str, about: str, default: str | None = None) -> Any:
    """A field with its keys in a properties file; errors suggest the first key."""
    extra: dict[str, Any] = {"keys": keys}
    if default is None:
        return Field(description=about, json_schema_extra=extra)
    return Field(default, validate_default=True, description=about, json_schema_extra=extra)
