"""Work on many items in steps of a few microseconds, so that the caller can pause after each of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from heapq import merge
from typing import Final, TypeVar

T = TypeVar("T")

RUN: Final = 128
"""The number of items that are sorted in one step."""


def select_sorted(
    items: Sequence[T], selects: Callable[[T], bool], key: Callable[[T], tuple[object, ...]]
) -> Generator[None, None, Iterator[T]]:
    """Return an iterator over the items that `selects(item)` accepts, sorted by `key(item)`.

    The generator yields after each item, a step; taking an item from the returned iterator is another step.
    """
    runs: list[list[T]] = []
    for begin in range(0, len(items), RUN):
        run: list[T] = []
        for item in items[begin : begin + RUN]:
            if selects(item):
                run.append(item)
            yield
        run.sort(key=key)
        runs.append(run)
    return merge(*runs, key=key)
