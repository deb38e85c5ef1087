"""Checks of a schema beyond its structure, and checks across schemas."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from pathlib import Path

from messages.layout import FIXED_CODES, VARIABLE_TYPES, is_primitive, literal, module_name, snake_case
from messages.schema import FieldSchema, MessageSchema, Problem, Versions

PRIVATE_TAGS = 10000
"""The first tag of quorumd's own fields. Kafka's tags count from 0, and quorumd's tags from this one, both without
gaps. Stock readers skip unknown tags, and Kafka's tags are not expected to reach this range."""


_Key = tuple[str, str | None, int]
"""Type, coordinator and API key of a schema."""


def check_message(message: MessageSchema) -> list[Problem]:
    """Return all problems within one schema."""
    return list(_MessageRules(message).problems())


def check_together(messages: dict[Path, MessageSchema]) -> list[tuple[Path, Problem]]:
    """Return the problems across schemas: duplicate names and API keys, requests without a response."""
    problems = []
    names: dict[str, Path] = {}
    keys: dict[_Key, tuple[Path, MessageSchema]] = {}
    for path, message in messages.items():
        if path.stem != message.name:
            problems.append(
                (path, Problem("name", f"{message.name!r} belongs in the file {message.name}.json"))
            )
        first_path = names.setdefault(module_name(message.name), path)
        if first_path != path:
            problems.append((path, Problem("name", f"{message.name!r} is taken by {first_path}")))
        if message.api_key is not None:
            first, _ = keys.setdefault((message.type, message.coordinator, message.api_key), (path, message))
            if first != path:
                problems.append(
                    (path, Problem("apiKey", f"{message.type} {message.api_key} is taken by {first}"))
                )
    for (kind, coordinator, key), (path, message) in keys.items():
        if kind in ("request", "response"):
            problems += [(path, problem) for problem in _check_pair(message, key, keys)]
        elif coordinator is not None:
            problems += [(path, problem) for problem in _check_record(message, key, keys)]
    return problems


def _check_pair(
    message: MessageSchema, key: int, keys: dict[_Key, tuple[Path, MessageSchema]]
) -> Iterator[Problem]:
    other_kind = "response" if message.type == "request" else "request"
    if (other_kind, None, key) not in keys:
        yield Problem("apiKey", f"API {key} has no schema for its {other_kind}")
    elif message.type == "request":
        _, response = keys[other_kind, None, key]
        if response.valid_versions != message.valid_versions:
            yield Problem(
                "validVersions",
                f"{message.valid_versions}, but {response.name} has {response.valid_versions}",
            )
        if not message.name.endswith("Request") or response.name != message.name[:-7] + "Response":
            yield Problem("name", f"{message.name!r} and {response.name!r} are not XRequest and XResponse")


def _check_record(
    message: MessageSchema, key: int, keys: dict[_Key, tuple[Path, MessageSchema]]
) -> Iterator[Problem]:
    """Check the key or the value of a coordinator record against its counterpart."""
    is_key = message.type == "coordinator-key"
    other_kind, suffix, other_suffix = ("value", "Key", "Value") if is_key else ("key", "Value", "Key")
    if is_key and message.valid_versions != Versions(0, 0):
        yield Problem("validVersions", f"{message.valid_versions}, but a key has only version 0")
    found = keys.get((f"coordinator-{other_kind}", message.coordinator, key))
    if found is None:
        yield Problem("apiKey", f"{message.coordinator} record {key} has no schema for its {other_kind}")
    elif message.name.removesuffix(suffix) + other_suffix != found[1].name:
        yield Problem("name", f"{message.name!r} and {found[1].name!r} are not XKey and XValue")


class _MessageRules:
    """The rules for one message; problems have the path of the field."""

    def __init__(self, message: MessageSchema) -> None:
        self._message = message
        self._common = {struct.name: struct for struct in message.common_structs}
        self._struct_names: set[str] = {message.name}

    def problems(self) -> Iterator[Problem]:
        message = self._message
        valid = message.valid_versions
        if valid.last is None:
            yield Problem("validVersions", f"{valid} has no last version")
            return
        flexible = message.flexible_versions
        if flexible is not None and (flexible.last is not None or flexible.first > valid.last):
            yield Problem(
                "flexibleVersions", f'{flexible} is neither "none" nor an open range that starts in {valid}'
            )
        is_record = message.type in ("coordinator-key", "coordinator-value")
        if (message.api_key is None) == (is_record or message.type in ("request", "response", "metadata")):
            yield Problem(
                "apiKey", f"a {message.type} {'requires' if message.api_key is None else 'must not have'} one"
            )
        if (message.coordinator is None) == is_record:
            yield Problem(
                "coordinator", f"a {message.type} {'requires' if is_record else 'must not have'} one"
            )
        for index, struct in enumerate(message.common_structs):
            path = f"commonStructs[{index}]"
            yield from self._check_struct_name(struct.name, f"{path}.name")
            yield from self._check_range(struct.versions, valid, f"{path}.versions", "validVersions")
            yield from self._check_struct(struct.fields, struct.versions, f"{path}.")
        yield from self._check_struct(message.fields, valid, "")

    def _check_struct(self, fields: list[FieldSchema], versions: Versions, path: str) -> Iterator[Problem]:
        names: set[str] = set()
        for index, field in enumerate(fields):
            here = f"{path}fields[{index}]"
            if snake_case(field.name) in names:
                yield Problem(f"{here}.name", f"{field.name!r} occurs twice in the struct")
            names.add(snake_case(field.name))
            yield from self._check_field(field, versions, here)
        yield from self._check_tags(fields, path)

    def _check_field(self, field: FieldSchema, outer: Versions, path: str) -> Iterator[Problem]:
        if keyword.iskeyword(snake_case(field.name)):
            yield Problem(f"{path}.name", f"{snake_case(field.name)!r} is a Python keyword")
        yield from self._check_range(field.versions, outer, f"{path}.versions", "the struct's versions")
        if field.nullable_versions is not None:
            yield from self._check_nullable(field, path)
        yield from self._check_tagged(field, path)
        yield from self._check_type(field, path)

    def _check_type(self, field: FieldSchema, path: str) -> Iterator[Problem]:
        kind = field.element_type
        if is_primitive(kind):
            if field.fields:
                yield Problem(f"{path}.fields", f"{field.type} cannot have fields")
            if field.default is not None:
                yield from self._check_default(field, path)
            return
        if field.default is not None and not (field.default == "null" and field.nullable_versions):
            yield Problem(f"{path}.default", f"{field.default!r} is not a default of {field.type}")
        if kind in self._common:
            if field.fields:
                yield Problem(f"{path}.fields", f"{kind} is already declared in commonStructs")
            yield from self._check_range(
                field.versions, self._common[kind].versions, f"{path}.versions", kind
            )
        elif not field.fields:
            known = ", ".join([*FIXED_CODES, *VARIABLE_TYPES])
            yield Problem(f"{path}.type", f"{kind!r} is neither a struct with fields nor one of {known}")
        else:
            yield from self._check_struct_name(kind, f"{path}.type")
            yield from self._check_struct(field.fields, field.versions, f"{path}.")

    def _check_default(self, field: FieldSchema, path: str) -> Iterator[Problem]:
        try:
            literal(field)
        except ValueError as error:
            yield Problem(f"{path}.default", str(error))

    def _check_nullable(self, field: FieldSchema, path: str) -> Iterator[Problem]:
        assert field.nullable_versions is not None
        here = f"{path}.nullableVersions"
        yield from self._check_range(field.nullable_versions, field.versions, here, "the field's versions")
        if not field.is_array and field.type in FIXED_CODES:
            yield Problem(here, f"{field.type} cannot be null")

    def _check_tagged(self, field: FieldSchema, path: str) -> Iterator[Problem]:
        tagged = field.tagged_versions
        if (tagged is None) != (field.tag is None):
            yield Problem(f"{path}.tag", "tag and taggedVersions require each other")
        if tagged is None:
            return
        here = f"{path}.taggedVersions"
        yield from self._check_range(tagged, field.versions, here, "the field's versions")
        if tagged.last is not None:
            yield Problem(here, f"{tagged} is not open-ended")
        flexible = self._message.flexible_versions
        if flexible is None or tagged.first not in flexible:
            yield Problem(here, f"{tagged} includes versions that are not flexible")

    def _check_tags(self, fields: list[FieldSchema], path: str) -> Iterator[Problem]:
        tags = sorted(field.tag for field in fields if field.tag is not None)
        for start, own in (
            (0, [tag for tag in tags if tag < PRIVATE_TAGS]),
            (PRIVATE_TAGS, [tag for tag in tags if tag >= PRIVATE_TAGS]),
        ):
            if own != list(range(start, start + len(own))):
                yield Problem(f"{path}fields", f"tags {own} do not count up from {start} without gaps")

    def _check_struct_name(self, name: str, path: str) -> Iterator[Problem]:
        if name in self._struct_names or is_primitive(name):
            yield Problem(path, f"a struct {name!r} is already declared")
        self._struct_names.add(name)

    @staticmethod
    def _check_range(inner: Versions, outer: Versions, path: str, whose: str) -> Iterator[Problem]:
        if not inner.within(outer):
            yield Problem(path, f"{inner} is outside {outer} ({whose})")
