"""Declares settings: fields of a pydantic model with their keys in a properties file."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import Field

INTERNAL = "internal."
"""Prefix of keys that inject faults for tests of quorumd. They are neither documented nor suggested in errors."""


class Problem(NamedTuple):
    """Settings that contradict each other. `fields` are the fields involved; the error names the key of the first."""

    fields: tuple[str, ...]
    wrong: str
    allowed: str


class SettingDocumentation(NamedTuple):
    """One row of the documentation. `default` is "required" for a setting without a default."""

    keys: tuple[str, ...]
    kind: str
    default: str
    meaning: str
    allowed: str


def setting(*keys: str, about: str, default: str | None = None) -> Any:
    """Declare a field of a pydantic model with its keys in a properties file. Errors name the first key.

    `about` is its documentation. A field without a default is required.
    """
    extra: dict[str, Any] = {"keys": keys}
    if default is None:
        return Field(description=about, json_schema_extra=extra)
    return Field(default, validate_default=True, description=about, json_schema_extra=extra)
