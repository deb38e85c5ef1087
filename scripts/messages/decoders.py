"""Emits decode_vN: one function per version, nested structs inlined, runs of fixed-size fields in one unpack.

Each field becomes a local variable; variables of a nested struct have its name as a prefix, so that all are distinct.
Each loop has its own count: compiled by mypyc, a loop ends at the current value of the variable in its `range`.
The function returns the message, the position after it, and an estimate of the memory of its array elements. With
`in_steps` it is a generator that yields this estimate after each array element, for the arrays read so far.
"""

from __future__ import annotations

from messages.layout import (
    FIXED_CODES,
    FIXED_SIZES,
    fields_of,
    is_primitive,
    literal,
    memory_of_element,
    python_type,
    smallest_size,
    snake_case,
)
from messages.schema import FieldSchema, MessageSchema
from messages.source import Needs, Source

OWN_NAMES = ("buf", "pos", "memory", "tag", "end")


class Decoder:
    """The body of one message's decode function for one version."""

    def __init__(self, message: MessageSchema, version: int, needs: Needs, in_steps: bool = False) -> None:
        self._message = message
        self._version = version
        self._in_steps = in_steps
        self._flexible = message.flexible_in(version)
        self._needs = needs
        self._source = Source()
        self._prefixes: set[str] = set()

    def body(self) -> str:
        arguments = self._struct(self._message.fields, "")
        has_arrays = "memory += " in self._source.text()
        self._construct(
            "return ", self._message.name, arguments, ", pos, memory" if has_arrays else ", pos, 0"
        )
        text = self._source.text()
        return f"    memory = 0\n{text}" if has_arrays else text

    def _struct(self, fields: list[FieldSchema], prefix: str) -> list[str]:
        """Emit the decoding of fields into local variables; return the arguments of the struct's class, in order."""
        for field in fields:
            if self._is_present(field) and (field.tagged_in(self._version) or self._may_be_null_list(field)):
                self._declare(field, prefix)
        run: list[FieldSchema] = []
        for field in fields:
            if not self._is_present(field) or field.tagged_in(self._version):
                continue
            if field.type in FIXED_CODES:
                run.append(field)
                continue
            self._run(run, prefix)
            run = []
            self._variable(field, prefix)
        self._run(run, prefix)
        if self._flexible:
            self._tags(fields, prefix)
        return [self._argument(field, prefix) for field in fields]

    def _is_present(self, field: FieldSchema) -> bool:
        return self._version in field.versions

    def _may_be_null_list(self, field: FieldSchema) -> bool:
        return not is_primitive(field.type) and field.nullable_in(self._version)

    def _local(self, field: FieldSchema, prefix: str) -> str:
        name = prefix + snake_case(field.name)
        return f"{name}_" if name in OWN_NAMES else name

    def _argument(self, field: FieldSchema, prefix: str) -> str:
        if not self._is_present(field):
            return literal(field)
        name = self._local(field, prefix)
        if field.type == "uuid" and not field.tagged_in(self._version):
            return f"KafkaUuid({name})"
        return name

    def _declare(self, field: FieldSchema, prefix: str) -> None:
        default = literal(field) if field.tagged_in(self._version) else "None"
        self._source.line(f"{self._local(field, prefix)}: {python_type(field)} = {default}")

    def _construct(self, head: str, name: str, arguments: list[str], tail: str = "") -> None:
        if len(arguments) < 4:
            self._source.line(f"{head}{name}({', '.join(arguments)}){tail}")
            return
        self._source.line(f"{head}{name}(")
        for argument in arguments:
            self._source.line(f"    {argument},")
        self._source.line(f"){tail}")

    def _run(self, run: list[FieldSchema], prefix: str) -> None:
        if not run:
            return
        codes = [FIXED_CODES[field.type] for field in run]
        names = [self._local(field, prefix) for field in run]
        unpack = f"{self._needs.unpack(codes)}(buf, pos)"
        if len(names) <= 3:
            self._source.line(
                f"({names[0]},) = {unpack}" if len(names) == 1 else f"{', '.join(names)} = {unpack}"
            )
        else:
            self._source.line("(")
            for name in names:
                self._source.line(f"    {name},")
            self._source.line(f") = {unpack}")
        self._source.line(f"pos += {sum(FIXED_SIZES[field.type] for field in run)}")

    def _variable(self, field: FieldSchema, prefix: str) -> None:
        name = self._local(field, prefix)
        if field.is_array:
            self._array(field, name)
        elif is_primitive(field.type):
            self._source.line(f"{name}, pos = {self._reader(field)}(buf, pos)")
        elif field.nullable_in(self._version):
            self._source.line("pos += 1")
            # The presence of a nullable struct is a varint in a tagged field, an int8 elsewhere.
            not_null = "> 0" if field.tagged_in(self._version) else "< 128"
            with self._source.block(f"if buf[pos - 1] {not_null}:"):
                self._nested(field, f"{name} = ")
            self._else_null(field, name)
        else:
            self._nested(field, f"{name} = ")

    def _nested(self, field: FieldSchema, head: str, tail: str = "") -> None:
        arguments = self._struct(fields_of(field, self._message), self._prefix(field))
        self._construct(head, field.element_type, arguments, tail)

    def _prefix(self, field: FieldSchema) -> str:
        prefix = f"{snake_case(field.element_type)}_"
        while prefix in self._prefixes:
            prefix = f"{snake_case(field.name)}_{prefix}"
        self._prefixes.add(prefix)
        return prefix

    def _reader(self, field: FieldSchema) -> str:
        compact = "compact_" if self._flexible and field.flexible_in(self._version) else ""
        nullable = "nullable_" if field.nullable_in(self._version) else ""
        kind = "string" if field.element_type == "string" else "bytes"
        return self._needs.from_primitives(f"read_{compact}{nullable}{kind}")

    def _array(self, field: FieldSchema, name: str) -> None:
        compact = "compact_" if self._flexible else ""
        nullable = "nullable_" if field.nullable_in(self._version) else ""
        reader = self._needs.from_primitives(f"read_{compact}{nullable}count")
        self._source.line(
            f"{_count(name)}, pos = {reader}(buf, pos, {smallest_size(field, self._version, self._message)})"
        )
        if not field.nullable_in(self._version):
            self._elements(field, name)
            return
        with self._source.block(f"if {_count(name)} >= 0:"):
            self._elements(field, name)
        self._else_null(field, name)

    def _else_null(self, field: FieldSchema, name: str) -> None:
        """Emit the branch for null if the local variable has another default."""
        if field.tagged_in(self._version) and literal(field) != "None":
            with self._source.block("else:"):
                self._source.line(f"{name} = None")

    def _elements(self, field: FieldSchema, name: str) -> None:
        kind, count = field.element_type, _count(name)
        check = "check_response_memory" if self._message.type == "response" else "check_memory"
        self._source.line(f"memory += {memory_of_element(field, self._version, self._message)} * {count}")
        with self._source.block(f"if memory > {self._needs.from_primitives('ALWAYS_ALLOWED_MEMORY')}:"):
            self._source.line(f"{self._needs.from_primitives(check)}(buf, memory)")
        if kind in FIXED_CODES and kind != "uuid":
            if kind == "int32":
                read = self._needs.from_primitives("read_int32s")
                self._source.line(f"{name} = {read}(buf, pos, {count})")
                self._source.line(f"pos += 4 * {count}")
                return
            unpack = self._needs.from_struct("unpack_from")
            self._source.line(f'{name} = list({unpack}(f">{{{count}}}{FIXED_CODES[kind]}", buf, pos))')
            self._source.line(f"pos += {_times(FIXED_SIZES[kind], count)}")
            return
        self._source.line(f"{name} = []")
        with self._source.block(f"for _ in range({count}):"):
            if kind == "uuid":
                self._source.line(f"{name}.append(KafkaUuid(buf[pos : pos + 16]))")
                self._source.line("pos += 16")
            elif is_primitive(kind):
                plain = field.model_copy(update={"nullable_versions": None})
                self._source.line(f"{name}_element, pos = {self._reader(plain)}(buf, pos)")
                self._source.line(f"{name}.append({name}_element)")
            else:
                self._nested(field, f"{name}.append(", ")")
            if self._in_steps:
                self._source.line("yield memory")

    def _tags(self, fields: list[FieldSchema], prefix: str) -> None:
        tagged = [field for field in fields if self._is_present(field) and field.tagged_in(self._version)]
        with self._source.block("if buf[pos] == 0:"):
            self._source.line("pos += 1")
        with self._source.block("else:"):
            if tagged:
                self._known_tags(tagged, prefix)
            else:
                self._source.line(f"pos = {self._needs.from_primitives('skip_tagged_fields')}(buf, pos)")

    def _known_tags(self, tagged: list[FieldSchema], prefix: str) -> None:
        tag, end, count = f"{prefix}tag", f"{prefix}end", _count(f"{prefix}tags")
        self._source.line(f"{count}, pos = {self._needs.from_primitives('read_uvarint')}(buf, pos)")
        with self._source.block(f"for _ in range({count}):"):
            self._source.line(f"{tag}, pos, {end} = {self._needs.from_primitives('read_tag')}(buf, pos)")
            for index, field in enumerate(sorted(tagged, key=lambda field: field.tag or 0)):
                with self._source.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                    self._tagged_value(field, prefix)
            with self._source.block("else:"):
                self._source.line(f"pos = {end}")
            with self._source.block(f"if pos != {end}:"):
                self._source.line(f"raise {self._needs.from_primitives('wrong_tag_size')}({tag}, pos, {end})")

    def _tagged_value(self, field: FieldSchema, prefix: str) -> None:
        if field.type not in FIXED_CODES:
            self._variable(field, prefix)
            return
        name = self._local(field, prefix)
        unpack = self._needs.unpack([FIXED_CODES[field.type]])
        if field.type == "uuid":
            self._source.line(f"{name} = KafkaUuid({unpack}(buf, pos)[0])")
        else:
            self._source.line(f"({name},) = {unpack}(buf, pos)")
        self._source.line(f"pos += {FIXED_SIZES[field.type]}")


def _count(name: str) -> str:
    """Return the variable of the count of the array in the local variable `name`."""
    return f"count_of_{name}"


def _times(size: int, count: str) -> str:
    return count if size == 1 else f"{size} * {count}"
