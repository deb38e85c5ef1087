"""Emits encode_vN: one function per version, nested structs inlined, runs of fixed-size fields in one pack.

With `in_steps` the function is a generator that yields after each array element.
"""

from __future__ import annotations

from messages.layout import (
    FIXED_CODES,
    differs_from_default,
    fields_of,
    is_primitive,
    literal,
    snake_case,
)
from messages.schema import FieldSchema, MessageSchema
from messages.source import Needs, Source


class Encoder:
    """The body of one message's encode function for one version."""

    def __init__(self, message: MessageSchema, version: int, needs: Needs, in_steps: bool = False) -> None:
        self._message = message
        self._version = version
        self._flexible = message.flexible_in(version)
        self._needs = needs
        self._in_steps = in_steps
        self._source = Source()

    def body(self) -> str:
        self._struct(self._message.fields, "message", "out")
        return self._source.text() or "    pass\n"

    def _struct(self, fields: list[FieldSchema], owner: str, out: str) -> None:
        for field in fields:
            self._reject_unsupported_value(field, owner)
        run: list[FieldSchema] = []
        plain = [field for field in fields if self._is_present(field) and not field.tagged_in(self._version)]
        for field in plain:
            if field.type in FIXED_CODES:
                run.append(field)
                continue
            self._run(run, owner, out)
            run = []
            self._variable(field, f"{owner}.{snake_case(field.name)}", out)
        self._run(run, owner, out)
        if self._flexible:
            self._tags(fields, owner, out)

    def _is_present(self, field: FieldSchema) -> bool:
        return self._version in field.versions

    def _reject_unsupported_value(self, field: FieldSchema, owner: str) -> None:
        """Emit the error for a value that this version cannot encode: a value other than the default, or null."""
        value = f"{owner}.{snake_case(field.name)}"
        if not self._is_present(field):
            if field.ignorable:
                return
            condition = differs_from_default(field, value, self._message)
        elif field.nullable_versions and not field.nullable_in(self._version):
            condition = f"{value} is None"
        else:
            return
        with self._source.block(f"if {condition}:"):
            self._source.line(
                f'raise {self._needs.from_primitives("not_carried")}("{snake_case(field.name)}")'
            )

    def _run(self, run: list[FieldSchema], owner: str, out: str) -> None:
        if not run:
            return
        pack = self._needs.pack([FIXED_CODES[field.type] for field in run])
        values = [f"{owner}.{snake_case(field.name)}" for field in run]
        if len(values) == 1:
            self._source.line(f"{out} += {pack}({values[0]})")
            return
        self._source.line(f"{out} += {pack}(")
        for value in values:
            self._source.line(f"    {value},")
        self._source.line(")")

    def _variable(self, field: FieldSchema, value: str, out: str) -> None:
        if field.is_array:
            self._array(field, value, out)
        elif is_primitive(field.type):
            self._source.line(f"{self._writer(field)}({out}, {value})")
        elif field.nullable_in(self._version):
            self._nullable_struct(field, value, out, 255)
        else:
            self._struct(fields_of(field, self._message), value, out)

    def _nullable_struct(self, field: FieldSchema, value: str, out: str, null: int) -> None:
        with self._source.block(f"if {value} is None:"):
            self._source.line(f"{out}.append({null})")
        with self._source.block("else:"):
            self._source.line(f"{out}.append(1)")
            self._struct(fields_of(field, self._message), value, out)

    def _writer(self, field: FieldSchema) -> str:
        compact = "compact_" if self._flexible and field.flexible_in(self._version) else ""
        nullable = "nullable_" if field.nullable_in(self._version) else ""
        kind = "string" if field.element_type == "string" else "bytes"
        return self._needs.from_primitives(f"write_{compact}{nullable}{kind}")

    def _array(self, field: FieldSchema, value: str, out: str) -> None:
        if not field.nullable_in(self._version):
            self._elements(field, value, out)
            return
        with self._source.block(f"if {value} is None:"):
            self._source.line(f"{out}.append(0)" if self._flexible else f'{out} += b"\\xff\\xff\\xff\\xff"')
        with self._source.block("else:"):
            self._elements(field, value, out)

    def _elements(self, field: FieldSchema, value: str, out: str) -> None:
        if self._flexible and field.element_type == "int32":
            self._source.line(f"{out} += {self._needs.from_primitives('compact_int32s')}({value})")
            return
        if self._flexible:
            self._source.line(f"{self._needs.from_primitives('write_uvarint')}({out}, len({value}) + 1)")
        else:
            self._source.line(f"{out} += {self._needs.pack(['i'])}(len({value}))")
        kind = field.element_type
        if kind in FIXED_CODES and kind != "uuid":
            pack = self._needs.from_struct("pack")
            self._source.line(f'{out} += {pack}(f">{{len({value})}}{FIXED_CODES[kind]}", *{value})')
            return
        element = snake_case(field.name) + "_element" if is_primitive(kind) else snake_case(kind)
        with self._source.block(f"for {element} in {value}:"):
            if kind == "uuid":
                self._source.line(f"{out} += {self._needs.pack(['16s'])}({element})")
            elif is_primitive(kind):
                plain = field.model_copy(update={"nullable_versions": None})
                self._source.line(f"{self._writer(plain)}({out}, {element})")
            else:
                self._struct(fields_of(field, self._message), element, out)
            if self._in_steps:
                self._source.line("yield")

    def _tags(self, fields: list[FieldSchema], owner: str, out: str) -> None:
        tagged = [field for field in fields if self._is_present(field) and field.tagged_in(self._version)]
        if not tagged:
            self._source.line(f"{out}.append(0)")
            return
        tagged.sort(key=lambda field: field.tag or 0)
        conditions = [
            differs_from_default(field, f"{owner}.{snake_case(field.name)}", self._message)
            for field in tagged
        ]
        if len(tagged) == 1:
            with self._source.block(f"if {conditions[0]}:"):
                self._source.line(f"{out}.append(1)")
                self._tagged_value(tagged[0], owner, out)
            with self._source.block("else:"):
                self._source.line(f"{out}.append(0)")
            return
        tags = "tags" if owner == "message" else f"{owner.rpartition('.')[2]}_tags"
        self._source.line(f"{tags} = 0")
        self._source.line(f"{tags}_position = len({out})")
        self._source.line(f"{out}.append(0)")
        for field, condition in zip(tagged, conditions, strict=True):
            with self._source.block(f"if {condition}:"):
                self._source.line(f"{tags} += 1")
                self._tagged_value(field, owner, out)
        self._source.line(f"{out}[{tags}_position] = {tags}")

    def _tagged_value(self, field: FieldSchema, owner: str, out: str) -> None:
        value = f"{owner}.{snake_case(field.name)}"
        write_tag = self._needs.from_primitives("write_tag")
        if not field.is_array and field.type in FIXED_CODES:
            pack = self._needs.pack([FIXED_CODES[field.type]])
            self._source.line(f"{write_tag}({out}, {field.tag}, {pack}({value}))")
            return
        if field.is_array and field.element_type == "int32" and literal(field) == "None":
            # Null is the default, so the field is written only if it is not null.
            array = self._needs.from_primitives("compact_int32s")
            self._source.line(f"{write_tag}({out}, {field.tag}, {array}({value}))")
            return
        payload = f"{snake_case(field.name)}_payload"
        self._source.line(f"{payload} = bytearray()")
        if field.nullable_in(self._version) and not (field.is_array or is_primitive(field.type)):
            # In a tagged field, null is the varint 0 instead of the int8 -1.
            self._nullable_struct(field, value, payload, 0)
        else:
            if literal(field) == "None":
                # Null is the default, so the field is written only if it is not null.
                field = field.model_copy(update={"nullable_versions": None})
            self._variable(field, value, payload)
        self._source.line(f"{write_tag}({out}, {field.tag}, {payload})")
