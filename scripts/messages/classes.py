"""Emits one slotted class per struct, for all versions of the message.

`FIELDS` has the names of the fields with the classes of their structs: a compiled class has no `__slots__`.
"""

from __future__ import annotations

from textwrap import wrap

from messages.layout import StructLayout, is_primitive, literal, python_type, snake_case
from messages.schema import FieldSchema, MessageSchema

COMMENT_WIDTH = 100


def emit_class(struct: StructLayout, message: MessageSchema) -> str:
    """Emit the class of a struct; the class of the message also has the attributes that `codec` reads."""
    is_message = struct.name == message.name
    lines = [f"class {struct.name}({'Message' if is_message else 'MessageStruct'}):"]
    if struct.about:
        lines += _docstring(struct.about)
    lines += _fields(struct.fields)
    if is_message:
        lines += _identity(message)
    if struct.fields:
        lines += ["", *_init(struct.fields)]
    return "\n".join(lines) + "\n"


def _docstring(about: str) -> list[str]:
    lines = wrap(about, COMMENT_WIDTH)
    if len(lines) == 1:
        return [f'    """{lines[0]}"""', ""]
    return [f'    """{lines[0]}', *(f"    {line}" for line in lines[1:]), '    """', ""]


def _fields(fields: list[FieldSchema]) -> list[str]:
    if not fields:
        return ["    FIELDS = {}", "    __slots__ = tuple(FIELDS)"]
    lines = ["    FIELDS = {"]
    for field in fields:
        lines += [f"        # {line}" for line in wrap(_comment(field), COMMENT_WIDTH)]
        struct = None if is_primitive(field.element_type) else field.element_type
        lines.append(f'        "{snake_case(field.name)}": {struct},')
    return [*lines, "    }", "    __slots__ = tuple(FIELDS)"]


def _comment(field: FieldSchema) -> str:
    facts = f"{field.type} {field.versions}"
    if field.nullable_versions is not None:
        facts += f", null {field.nullable_versions}"
    if field.tagged_versions is not None:
        facts += f", tag {field.tag} in {field.tagged_versions}"
    if field.ignorable:
        facts += ", left out where a version lacks it"
    return f"{facts}. {field.about}".rstrip()


def _identity(message: MessageSchema) -> list[str]:
    flexible_from = None if message.flexible_versions is None else message.flexible_versions.first
    key = [f"    API_KEY = {message.api_key}"]
    if message.coordinator is not None:
        key = ["    API_KEY = None", f"    RECORD_TYPE = {message.api_key}"]
    return [
        f'    NAME = "{message.name}"',
        *key,
        f"    MIN_VERSION = {message.versions[0]}",
        f"    MAX_VERSION = {message.versions[-1]}",
        f"    FLEXIBLE_FROM = {flexible_from}",
    ]


def _init(fields: list[FieldSchema]) -> list[str]:
    lines = ["    def __init__(", "        self,"]
    lines += [f"        {_parameter(field)}," for field in fields]
    lines.append("    ) -> None:")
    for field in fields:
        name = snake_case(field.name)
        if literal(field) == "[]":
            lines.append(f"        self.{name}: {python_type(field)} = [] if {name} is NOT_GIVEN else {name}")
        elif _has_fresh_default(field):
            lines.append(
                f"        self.{name} = {literal(field)} if {name} is {_no_argument(field)} else {name}"
            )
        else:
            lines.append(f"        self.{name} = {name}")
    return lines


def _has_fresh_default(field: FieldSchema) -> bool:
    return not is_primitive(field.element_type) and not field.is_array and literal(field) != "None"


def _no_argument(field: FieldSchema) -> str:
    return "NEW_STRUCT" if field.nullable_versions else "None"


def _parameter(field: FieldSchema) -> str:
    name = snake_case(field.name)
    if literal(field) == "[]":
        return f"{name}: {python_type(field)} = NOT_GIVEN"
    if _has_fresh_default(field):
        return f"{name}: {field.type} | None = {_no_argument(field)}"
    return f"{name}: {python_type(field)} = {literal(field)}"
