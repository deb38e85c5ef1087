"""The Python and wire layout of a schema: names, types, defaults, struct codes, sizes."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from messages.schema import FieldSchema, MessageSchema
from quorumd.ids import ZERO_UUID, KafkaUuid

FIXED_CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Fixed-size types and their codes in the format strings of `struct`."""

FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}

VARIABLE_TYPES = ("string", "bytes", "records")

PYTHON_TYPES = {
    **dict.fromkeys(FIXED_CODES, "int"),
    "bool": "bool",
    "float64": "float",
    "uuid": "KafkaUuid",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes",
}

_INTEGER_RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}


class StructLayout(NamedTuple):
    """A struct that becomes a class: the message itself, a nested struct or a common struct."""

    name: str
    about: str
    fields: list[FieldSchema]


def snake_case(name: str) -> str:
    """Convert a schema name to a Python name: `TopicId` to topic_id, `KRaftVersion` to kraft_version."""
    return re.sub(
        r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name.replace("KRaft", "Kraft")
    ).lower()


def module_name(message_name: str) -> str:
    """Return the name of a message's module in `quorumd.protocol.messages`."""
    return snake_case(message_name)


def is_primitive(kind: str) -> bool:
    return kind in FIXED_CODES or kind in VARIABLE_TYPES


def structs_of(message: MessageSchema) -> list[StructLayout]:
    """Return all structs of a message, each after the structs that it contains; the message itself is the last."""
    common = {
        struct.name: StructLayout(struct.name, struct.about, struct.fields)
        for struct in message.common_structs
    }
    found: dict[str, StructLayout] = {}

    def add(struct: StructLayout) -> None:
        for field in struct.fields:
            kind = field.element_type
            if field.fields:
                add(StructLayout(kind, field.about, field.fields))
            elif kind in common and kind not in found:
                add(common[kind])
        found[struct.name] = struct

    for struct in common.values():
        if struct.name not in found:
            add(struct)
    add(StructLayout(message.name, message.about, message.fields))
    return list(found.values())


def fields_of(field: FieldSchema, message: MessageSchema) -> list[FieldSchema]:
    """Return the fields of the struct type of a field or of its elements."""
    if field.fields:
        return field.fields
    return next(struct.fields for struct in message.common_structs if struct.name == field.element_type)


def python_type(field: FieldSchema) -> str:
    """Return the type annotation of the field's attribute."""
    element = PYTHON_TYPES.get(field.element_type, field.element_type)
    annotation = f"list[{element}]" if field.is_array else element
    return f"{annotation} | None" if field.nullable_versions else annotation


def literal(field: FieldSchema) -> str:
    """Return the field's default as Python source, which is `[]` or `Struct()` if each object needs a new one.

    Raises ValueError for a default that does not have the field's type.
    """
    text = field.default
    if text == "null":
        if field.nullable_versions is None:
            raise ValueError("null is the default of a field that is never nullable")
        return "None"
    if field.is_array:
        if text:
            raise ValueError(f"{text!r}: the default of an array must be null or empty")
        return "[]"
    return _scalar_literal(field.type, text)


def _scalar_literal(kind: str, text: str | None) -> str:
    if kind in _INTEGER_RANGES:
        value = int(text or "0", 0)
        low, high = _INTEGER_RANGES[kind]
        if not low <= value <= high:
            raise ValueError(f"{text} does not fit {kind}")
        return str(value)
    if kind == "bool":
        if text not in (None, "true", "false"):
            raise ValueError(f"{text!r} is neither true nor false")
        return str(text == "true")
    if kind == "float64":
        return repr(float(text or "0"))
    if kind == "uuid":
        return (
            "ZERO_UUID"
            if text is None or KafkaUuid.parse(text) == ZERO_UUID
            else f"KafkaUuid.parse({text!r})"
        )
    if kind == "string":
        return json.dumps(text or "")
    if kind in VARIABLE_TYPES:
        if text:
            raise ValueError(f"{text!r}: the default of {kind} must be null or empty")
        return 'b""'
    return f"{kind}()"


def differs_from_default(field: FieldSchema, value: str, message: MessageSchema) -> str:
    """Return a condition, as Python source, that holds if the expression `value` differs from the field's default."""
    default = literal(field)
    if default == "None":
        return f"{value} is not None"
    if default == "[]":
        return f"{value} is None or {value}" if field.nullable_versions else value
    if default in ("False", "0", "0.0", '""', 'b""') and not field.nullable_versions:
        return value
    if default == "True":
        return f"not {value}"
    if is_primitive(field.type):
        return f"{value} != {default}"
    inner = [
        differs_from_default(part, f"{value}.{snake_case(part.name)}", message)
        for part in fields_of(field, message)
    ]
    if field.nullable_versions:
        inner.insert(0, f"{value} is None")
    return " or ".join(f"({part})" if " or " in part else part for part in inner)


def smallest_size(field: FieldSchema, version: int, message: MessageSchema) -> int:
    """Return the minimum encoded size in bytes of a field, or of an element if it is an array."""
    kind = field.element_type
    if kind in FIXED_SIZES:
        return FIXED_SIZES[kind]
    flexible = message.flexible_in(version)
    if kind in VARIABLE_TYPES:
        if flexible and field.flexible_in(version):
            return 1
        return 2 if kind == "string" else 4
    size = 1 if flexible else 0
    for part in fields_of(field, message):
        if version not in part.versions or part.tagged_in(version):
            continue
        if part.is_array:
            size += 1 if flexible else 4
        elif part.nullable_in(version) and not is_primitive(part.type):
            size += 1
        else:
            size += smallest_size(part, version, message)
    return max(size, 1)


_LIST_SLOT, _OBJECT, _LIST = 9, 32, 72
"""Memory in bytes of a slot in a growing list, of an object without its fields, of an empty list."""
_MEMORY = {
    **dict.fromkeys(("bool", "int8"), 0),
    **dict.fromkeys(("int16", "uint16", "int32", "uint32", "int64", "float64"), 32),
    "uuid": 72,
    "string": 56,
    "bytes": 40,
    "records": 40,
}
"""Memory in bytes of a value in addition to its encoded size; small integers are shared objects."""


def memory_of_element(field: FieldSchema, version: int, message: MessageSchema) -> int:
    """Estimate the memory in bytes of one decoded element of an array field, without the elements of arrays in it,
    which are counted separately, and without the bytes of its strings."""
    if is_primitive(field.element_type):
        return _LIST_SLOT + _MEMORY[field.element_type]
    return _LIST_SLOT + _memory_of_struct(fields_of(field, message), version, message)


def _memory_of_struct(fields: list[FieldSchema], version: int, message: MessageSchema) -> int:
    size = _OBJECT + 8 * len(fields)
    for part in fields:
        if part.is_array:
            size += _LIST
        elif version not in part.versions:
            continue
        elif is_primitive(part.type):
            size += _MEMORY[part.type]
        else:
            size += _memory_of_struct(fields_of(part, message), version, message)
    return size
