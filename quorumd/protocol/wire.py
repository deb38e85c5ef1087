"""Base classes of generated messages; `primitives` encodes their fields.

They are compiled because some messages are: mypyc gives a compiled class with an interpreted base a list of weak
references, which its garbage collection takes for a reference of the object. Such a class crashes when one of its
objects has a weak reference. Here, neither compiled nor interpreted messages can have one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar, Final

from mypy_extensions import mypyc_attr

NOT_GIVEN: Final[list[Any]] = []
"""Default of list parameters of generated classes, which replace it by a new empty list. Never in a message."""


NEW_STRUCT: Final[Any] = object()
"""Default of nullable struct parameters, which is replaced by a new struct; None is null. Never in a message."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageStruct:
    """Base of all generated classes. They compare, print, copy and pickle by their fields.

    FIELDS: the fields in the order of the schema, which is that of the constructor's parameters. The value is the
    class of a struct or of the structs in an array, None for other types.
    """

    __slots__: tuple[str, ...] = ()
    FIELDS: ClassVar[Mapping[str, type[MessageStruct] | None]] = {}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELDS)
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[type[MessageStruct], tuple[object, ...]]:
        return type(self), tuple([getattr(self, name) for name in self.FIELDS])


@mypyc_attr(allow_interpreted_subclasses=True)
class Message(MessageStruct):
    """Base of versioned messages: requests, responses, headers and records. `codec` encodes and decodes them.

    API_KEY: None for headers and control records. RECORD_TYPE: the type of a coordinator record, in its key and its
    value; None for other messages. FLEXIBLE_FROM: the first flexible version (KIP-482), None if there is none.
    DECODE_IN_STEPS, ENCODE_IN_STEPS: generators that yield after each element of an array, for requests and responses
    that may be large. Decoders also return the estimated memory of the elements of all arrays in bytes; those in
    steps yield as much of it as is known.
    """

    __slots__ = ()
    NAME: ClassVar[str]
    API_KEY: ClassVar[int | None]
    RECORD_TYPE: ClassVar[int | None] = None
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    FLEXIBLE_FROM: ClassVar[int | None]
    ENCODE: ClassVar[Mapping[int, Callable[[Any, bytearray], None]]]
    DECODE: ClassVar[Mapping[int, Callable[[bytes, int], tuple[Any, int, int]]]]
    ENCODE_IN_STEPS: ClassVar[Mapping[int, Callable[[Any, bytearray], Generator[None, None, None]]]] = {}
    DECODE_IN_STEPS: ClassVar[
        Mapping[int, Callable[[bytes, int], Generator[int, None, tuple[Any, int, int]]]]
    ] = {}
