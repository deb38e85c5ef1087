"""Kafka's schema language as pydantic models.

The language is that of Kafka's own message files, without comments and without the attributes that only Kafka's
generator of Java code reads (mapKey, entityType, listeners, zeroCopy). An attribute that is not declared here is an
error.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

NAME_PATTERN = r"^[A-Z][A-Za-z0-9]*$"
TYPE_PATTERN = r"^(\[\])?[A-Za-z][A-Za-z0-9]*$"


class SchemaError(Exception):
    """Invalid schemas. The message has one line per problem: file, path in the JSON, problem."""


class Problem(NamedTuple):
    """One problem of a schema, at `path` in its JSON."""

    path: str
    text: str


class Versions(NamedTuple):
    """An inclusive range of versions; `last` is None for an open range such as "3+"."""

    first: int
    last: int | None

    @classmethod
    def parse(cls, text: object) -> Versions:
        """Parse "3", "3-5" or "3+". Raises ValueError for anything else."""
        match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text) if isinstance(text, str) else None
        if match is None:
            raise ValueError(f'{text!r} is not a version range: expected "3", "3-5" or "3+"')
        first = int(match[1])
        last = None if match[2] else int(match[3] or first)
        if last is not None and last < first:
            raise ValueError(f"{text!r} ends before it begins")
        return cls(first, last)

    def __contains__(self, version: object) -> bool:
        return (
            isinstance(version, int) and version >= self.first and (self.last is None or version <= self.last)
        )

    def within(self, outer: Versions) -> bool:
        """Return True if every version of this range is in `outer`; the end of `outer` also ends an open range."""
        return self.first in outer and (self.last is None or self.last in outer)

    def __str__(self) -> str:
        if self.last is None:
            return f"{self.first}+"
        return str(self.first) if self.last == self.first else f"{self.first}-{self.last}"


def _versions_or_none(text: object) -> Versions | None:
    return None if text == "none" else Versions.parse(text)


Range = Annotated[Versions, BeforeValidator(Versions.parse)]
RangeOrNone = Annotated[Versions | None, BeforeValidator(_versions_or_none)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)


class FieldSchema(_Model):
    """One field of a struct."""

    name: str = Field(pattern=NAME_PATTERN)
    type: str = Field(pattern=TYPE_PATTERN)
    versions: Range
    nullable_versions: Range | None = None
    tagged_versions: Range | None = None
    tag: int | None = Field(default=None, ge=0)
    flexible_versions: RangeOrNone = Versions(0, None)
    default: str | None = None
    ignorable: bool = False
    about: str = ""
    fields: list[FieldSchema] = []
    """The fields of its struct type; empty if the type is primitive or a common struct."""

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element_type(self) -> str:
        """The type without the array brackets."""
        return self.type.removeprefix("[]")

    def nullable_in(self, version: int) -> bool:
        return self.nullable_versions is not None and version in self.nullable_versions

    def tagged_in(self, version: int) -> bool:
        return self.tagged_versions is not None and version in self.tagged_versions

    def flexible_in(self, version: int) -> bool:
        """Return True if the field has the compact encoding in this version of a flexible message."""
        return self.flexible_versions is not None and version in self.flexible_versions


class CommonStruct(_Model):
    """A struct used as the type of several fields."""

    name: str = Field(pattern=NAME_PATTERN)
    versions: Range
    about: str = ""
    fields: list[FieldSchema]


class MessageSchema(_Model):
    """One schema file: a message of an API, a header, a metadata record or other data."""

    name: str = Field(pattern=NAME_PATTERN)
    type: Literal["request", "response", "header", "metadata", "data", "coordinator-key", "coordinator-value"]
    api_key: int | None = Field(default=None, ge=0)
    """The key of an API, the id of a metadata record or the type of a coordinator record."""
    coordinator: Literal["group", "transaction"] | None = None
    """The coordinator, for the key or value of a coordinator record."""
    about: str = ""
    valid_versions: Range
    flexible_versions: RangeOrNone
    encoded_in_steps: bool = False
    """Also emit an encoder in steps."""
    common_structs: list[CommonStruct] = []
    fields: list[FieldSchema]

    @property
    def versions(self) -> range:
        """All versions. `rules` ensures that the range is closed."""
        assert self.valid_versions.last is not None
        return range(self.valid_versions.first, self.valid_versions.last + 1)

    @property
    def decoded_in_steps(self) -> bool:
        """Whether to emit a decoder in steps too: any client may send requests with 100,000 array elements."""
        return self.type == "request" and any(field.type.startswith("[]") for field in self.fields)

    def flexible_in(self, version: int) -> bool:
        return self.flexible_versions is not None and version in self.flexible_versions


def read_schema(path: Path) -> MessageSchema:
    """Read a schema file. Raises SchemaError, which names each invalid attribute."""
    try:
        return MessageSchema.model_validate(
            json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_without_duplicates)
        )
    except ValidationError as error:
        problems = [_problem(details["loc"], details["msg"]) for details in error.errors()]
        raise SchemaError(render(path, problems)) from None
    except ValueError as error:
        raise SchemaError(f"{path}: {error}") from None


def render(path: Path, problems: list[Problem]) -> str:
    """Format the problems of one file, one per line."""
    return "\n".join(f"{path}: {problem.path or '(top)'}: {problem.text}" for problem in problems)


def _problem(location: tuple[int | str, ...], message: str) -> Problem:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return Problem(path.removeprefix("."), message.removeprefix("Value error, "))


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Reject duplicate keys: `json` would silently use the last one."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"attribute {name!r} occurs twice in an object")
    return dict(pairs)
