"""Valid messages of every type and version, drawn from a seed, from which the inputs for decoders are derived."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import count
from random import Random
from typing import Any

from quorumd.ids import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID, KafkaUuid
from quorumd.protocol.codec import encode
from quorumd.protocol.wire import Message
from tests.support.protocol.message_strategies import all_versions, message_class, schema

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_SMALLEST: dict[str, Any] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "uuid": ZERO_UUID,
    "bool": False,
    "float64": 0.5,
}
_TEXTS = ("", "a", METADATA_TOPIC, "é", "x" * 130, "group", "127.0.0.1")


@cache
def messages_of_all_versions(each: int = 6) -> list[tuple[type[Message], int, list[bytes]]]:
    """Return (class, version, encoded messages) for every version of every schema."""
    return [
        (message_class(name), version, [encode(sample(name, version, n), version) for n in range(each)])
        for name, version in all_versions()
    ]


def sample(name: str, version: int, number: int) -> Message:
    """Draw a message with every field of the version; number 0 has only empty arrays and no nulls."""
    random = Random(f"{name} {version} {number}")
    description = schema(name)
    common = {struct["name"]: struct["fields"] for struct in description.get("commonStructs", [])}
    module = import_module(message_class(name).__module__)

    def struct(class_name: str, fields: list[dict[str, Any]]) -> Any:
        made = getattr(module, class_name)
        values = {
            slot: value(field)
            for slot, field in zip(made.FIELDS, fields, strict=True)
            if _has(field, "versions", version)
        }
        return made(**values)

    def value(field: dict[str, Any]) -> Any:
        if number and _has(field, "nullableVersions", version) and random.random() < 0.2:
            return None
        if field["type"].startswith("[]"):
            return [one(field) for _ in range(random.randrange(4) if number else 0)]
        return one(field)

    def one(field: dict[str, Any]) -> Any:
        kind = field["type"].removeprefix("[]")
        fields = _fields_of(field, common)
        return struct(kind, fields) if fields else _primitive(kind, random)

    message: Message = struct(name, description["fields"])
    return message


def _primitive(kind: str, random: Random) -> Any:
    if kind in _BITS:
        limit = 1 << _BITS[kind] - 1
        return random.choice((0, 1, -1, 2, 3, limit - 1, -limit, random.randrange(-limit, limit)))
    if kind == "uint16":
        return random.randrange(1 << 16)
    if kind == "bool":
        return random.random() < 0.5
    if kind == "float64":
        return random.random()
    if kind == "string":
        return random.choice(_TEXTS)
    if kind == "uuid":
        return random.choice((ZERO_UUID, METADATA_TOPIC_ID, KafkaUuid(random.randbytes(16))))
    return random.randbytes(random.choice((0, 1, 16, 140)))


def _has(field: dict[str, Any], attribute: str, version: int) -> bool:
    if attribute not in field:
        return False
    text: str = field[attribute]
    if text.endswith("+"):
        return version >= int(text[:-1])
    first, _, last = text.partition("-")
    return int(first) <= version <= int(last or first)


def crowded(name: str, version: int, elements: int, is_distinct: bool = False) -> Iterator[Message]:
    """Yield one message for every array of a schema, which has `elements` of the smallest elements in this array, or
    elements with different strings and numbers."""
    numbers = count()
    description = schema(name)
    common = {struct["name"]: struct["fields"] for struct in description.get("commonStructs", [])}
    module = import_module(message_class(name).__module__)

    def arrays(fields: list[dict[str, Any]], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        for field in fields:
            if _has(field, "versions", version):
                path = (*above, field["name"])
                if field["type"].startswith("[]"):
                    yield path
                yield from arrays(_fields_of(field, common), path)

    def struct(class_name: str, fields: list[dict[str, Any]], path: tuple[str, ...]) -> Any:
        made = getattr(module, class_name)
        present = zip(made.FIELDS, fields, strict=True)
        return made(**{slot: value(f, path) for slot, f in present if _has(f, "versions", version)})

    def value(field: dict[str, Any], path: tuple[str, ...]) -> Any:
        rest = path[1:] if path and path[0] == field["name"] else None
        if rest is None and _has(field, "nullableVersions", version):
            return None
        if not field["type"].startswith("[]"):
            return one(field, rest or ())
        if rest is None:
            return []
        return [one(field, rest) for _ in range(1 if rest else elements)]

    def one(field: dict[str, Any], path: tuple[str, ...]) -> Any:
        kind = field["type"].removeprefix("[]")
        fields = _fields_of(field, common)
        if fields:
            return struct(kind, fields, path)
        if is_distinct and kind in ("string", "int32"):
            return f"name-{next(numbers)}" if kind == "string" else next(numbers)
        return _SMALLEST.get(kind, 1000 if kind != "int8" else 1)

    for path in arrays(description["fields"]):
        yield struct(name, description["fields"], path)


def _fields_of(field: dict[str, Any], common: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = field.get("fields") or common.get(field["type"].removeprefix("[]"), [])
    return found
