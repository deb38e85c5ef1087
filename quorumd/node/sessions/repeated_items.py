"""Items of a request that have the same name. If all are rejected, they are divided so that a part with two of them
still rejects both; else one is kept."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
Level = tuple[str, tuple[str, ...]]
"""A list in a request: its field, and the fields that identify its items, none if the items identify themselves."""


def together(repeated: Sequence[T], max_items: int) -> Iterator[Sequence[T]]:
    """Keep items with the same name in one part."""
    del max_items
    return iter([repeated])


def first_two(repeated: Sequence[T], max_items: int) -> Iterator[Sequence[T]]:
    """Two items, if the response has one result, an error, for all items with the same name."""
    del max_items
    return iter([repeated[:2]])


def in_pieces(repeated: Sequence[T], max_items: int) -> Iterator[Sequence[T]]:
    """Pieces of at least two items, if the response has a result, an error, for each item with the same name."""
    size = max(2, max_items)
    ends = [*range(size, len(repeated) - 1, size), len(repeated)]
    for begin, end in zip([0, *ends], ends, strict=False):
        yield repeated[begin:end]


def keep_once(owner: object, levels: Sequence[Level]) -> Iterator[None]:
    """Keep one of the items that a list has several times, with the inner lists of all of them; one step per item.
    Each level is a list in the items of the level before. An item with a null list, which stands for everything, is
    not the same as one with a list."""
    (field, identity), *below = levels
    kept: dict[Hashable, object] = {}
    for item in getattr(owner, field) or ():
        yield
        inner = getattr(item, below[0][0]) if below else None
        key = (*(getattr(item, name) for name in identity), inner is None) if identity else item
        first = kept.setdefault(key, item)
        if inner and first is not item:
            getattr(first, below[0][0]).extend(inner)
    if kept:
        setattr(owner, field, list(kept.values()))
    if below:
        for item in kept.values():
            yield from keep_once(item, below)
