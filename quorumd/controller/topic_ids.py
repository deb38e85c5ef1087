"""The ids of topics by name, with the names in order: a page of names costs the same among a million topics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from quorumd.ids import KafkaUuid

MAX_STALE: Final = 1000
"""Names that may be inserted one by one, or of removed topics; with more of them, all names are sorted again."""


class TopicIds(dict[str, KafkaUuid]):
    """Assigned to by `undo_log` only, key by key.

    The order is updated when it is read, so that creating a million topics in any order costs one sort.
    """

    __slots__ = ("_added", "_is_sorted", "_order")

    def __init__(self) -> None:
        super().__init__()
        self._order: list[str] = []
        """Names in order, those of removed topics included."""
        self._added: list[str] = []
        """Names that may not be in `_order`."""
        self._is_sorted = True

    def __setitem__(self, name: str, topic_id: KafkaUuid) -> None:
        if self._is_sorted:
            self._added.append(name)
            if len(self._added) > MAX_STALE:
                self._is_sorted = False
                self._added.clear()
        super().__setitem__(name, topic_id)

    def names_from(self, first: str) -> Iterator[str]:
        """Iterate over the names from `first` on in order; topics must not be created meanwhile."""
        order = self._sorted_names()
        for position in range(bisect_left(order, first), len(order)):
            name = order[position]
            if name in self:
                yield name

    def names(self) -> list[str]:
        """Return all names in order."""
        order = self._sorted_names()
        return order.copy() if len(order) == len(self) else [name for name in order if name in self]

    def _sorted_names(self) -> list[str]:
        order = self._order
        for name in self._added:
            position = bisect_left(order, name)
            if position == len(order) or order[position] != name:
                order.insert(position, name)
        self._added.clear()
        if not self._is_sorted or len(order) > len(self) + MAX_STALE:
            self._order = order = sorted(self)
            self._is_sorted = True
        return order
