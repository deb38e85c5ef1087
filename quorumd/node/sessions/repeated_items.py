"""Divides the items of a request that have the same name, all of which are rejected: a part with two of them still
rejects both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


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
