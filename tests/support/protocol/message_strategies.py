"""Hypothesis strategies for messages, built from the schema files without the generator's code."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol import messages
from quorumd.protocol.wire import Message

SCHEMAS = Path(__file__).parents[3] / "schemas"
FIRST_PRIVATE_TAG = 10000

_ERROR_CODES = st.sampled_from([0, -1, 6, 41, 74])
"""Error codes that every oracle accepts."""
_MILLISECONDS = st.one_of(st.sampled_from([0, -1]), st.integers(0, (1 << 31) - 1))
"""Values of fields that kio converts to durations and times, within the range of Python's types."""

_START_OF_A_TRANSACTION = st.integers(0, (1 << 31) - 1)
"""kio refuses -1, which Kafka reports without a transaction."""

_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(1 << 7), (1 << 7) - 1),
    "int16": st.integers(-(1 << 15), (1 << 15) - 1),
    "uint16": st.integers(0, (1 << 16) - 1),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "float64": st.floats(allow_nan=False),
    "string": st.one_of(st.text(max_size=6), st.sampled_from(["x" * 126, "é" * 64])),
    "bytes": st.one_of(st.binary(max_size=6), st.sampled_from([bytes(126), bytes(127)])),
    "uuid": st.one_of(st.just(ZERO_UUID), st.binary(min_size=16, max_size=16).map(KafkaUuid)),
}
_PRIMITIVES["records"] = _PRIMITIVES["bytes"]


def message_class(name: str) -> type[Message]:
    found: type[Message] = getattr(import_module(f"quorumd.protocol.messages.{messages.MODULES[name]}"), name)
    return found


def all_versions() -> list[tuple[str, int]]:
    """Return every (message, version) with a schema."""
    return [
        (path.stem, version) for path in sorted(SCHEMAS.glob("*.json")) for version in versions_of(path.stem)
    ]


def versions_of(name: str) -> range:
    first, last = _range(schema(name)["validVersions"])
    return range(first, last + 1)


@cache
def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text())
    return loaded


def message_values(name: str, version: int, private_tags: bool = True) -> st.SearchStrategy[Message]:
    """Return a strategy for messages with every field of the version; other fields keep their defaults.

    `private_tags` is False for readers that skip quorumd's own tagged fields.
    """
    description = schema(name)
    common = {struct["name"]: struct["fields"] for struct in description.get("commonStructs", [])}
    module = import_module(message_class(name).__module__)

    def struct(class_name: str, fields: list[dict[str, Any]]) -> st.SearchStrategy[Any]:
        make: Callable[..., Any] = getattr(module, class_name)
        slots = make.FIELDS
        present = {
            slot: value(field)
            for slot, field in zip(slots, fields, strict=True)
            if _has(field, "versions", version) and (private_tags or field.get("tag", 0) < FIRST_PRIVATE_TAG)
        }
        return st.builds(make, **present)

    def value(field: dict[str, Any]) -> st.SearchStrategy[Any]:
        kind = field["type"].removeprefix("[]")
        found = _primitive(field)
        if found is None:
            found = struct(kind, field.get("fields") or common[kind])
        if field["type"].startswith("[]"):
            found = st.lists(found, max_size=2)
        return st.none() | found if _has(field, "nullableVersions", version) else found

    return struct(name, description["fields"])


def present_slots(name: str, struct_name: str, version: int) -> list[str]:
    """Return the attributes of one struct of a message version, without quorumd's own tagged fields."""

    def structs(type_name: str, fields: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        found = {type_name: fields}
        for field in fields:
            if field.get("fields"):
                found |= structs(field["type"].removeprefix("[]"), field["fields"])
        return found

    description = schema(name)
    found = structs(name, description["fields"])
    for struct in description.get("commonStructs", []):
        found |= structs(struct["name"], struct["fields"])
    slots = getattr(import_module(message_class(name).__module__), struct_name).FIELDS
    return [
        slot
        for slot, field in zip(slots, found[struct_name], strict=True)
        if _has(field, "versions", version) and field.get("tag", 0) < FIRST_PRIVATE_TAG
    ]


def _primitive(field: dict[str, Any]) -> st.SearchStrategy[Any] | None:
    if field["name"].endswith("ErrorCode"):
        return _ERROR_CODES
    if field["name"] == "TransactionStartTimeMs":
        return _START_OF_A_TRANSACTION
    if field["name"].endswith(("Ms", "Timestamp")):
        return _MILLISECONDS
    return _PRIMITIVES.get(field["type"].removeprefix("[]"))


def _has(field: dict[str, Any], attribute: str, version: int) -> bool:
    if attribute not in field:
        return False
    first, last = _range(field[attribute])
    return first <= version <= last


def _range(text: str) -> tuple[int, int]:
    if text.endswith("+"):
        return int(text[:-1]), 1 << 15
    first, _, last = text.partition("-")
    return int(first), int(last or first)
