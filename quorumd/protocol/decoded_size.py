"""The memory of decoded messages, estimated from the lengths of their lists: elements may need forty times their
bytes."""

from __future__ import annotations

from typing import Final, get_args, get_origin, get_type_hints

from quorumd.protocol.wire import MessageStruct

STRUCT_BYTES: Final = 256
"""A struct in a list, with its own fields."""
ITEM_BYTES: Final = 40
"""A number or a short text in a list."""


def decoded_size(message: MessageStruct) -> int:
    """Estimate the memory of the lists of a message, in bytes."""
    size = 0
    for name, item_bytes, has_lists in _lists_of(type(message)):
        items = getattr(message, name)
        if items:
            size += len(items) * item_bytes
            if has_lists:
                size += sum(map(decoded_size, items))
    return size


_LISTS: Final[dict[type[MessageStruct], tuple[tuple[str, int, bool], ...]]] = {}


def _lists_of(kind: type[MessageStruct]) -> tuple[tuple[str, int, bool], ...]:
    """The name of each list, the memory of one of its items, and whether these have lists too."""
    known = _LISTS.get(kind)
    if known is not None:
        return known
    lists = []
    for name, hint in get_type_hints(kind.__init__).items():
        for option in (hint, *get_args(hint)):
            if get_origin(option) is list:
                (item,) = get_args(option)
                if isinstance(item, type) and issubclass(item, MessageStruct):
                    lists.append((name, STRUCT_BYTES, bool(_lists_of(item))))
                else:
                    lists.append((name, ITEM_BYTES, False))
    found = _LISTS[kind] = tuple(lists)
    return found
