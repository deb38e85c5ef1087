"""Interning of equal tuples: even a million partitions have only a few distinct replica sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorumd.ids import KafkaUuid

Replicas = tuple[int, ...]
"""Broker ids."""

MAX_ENTRIES: Final = 1 << 17
"""Maximum number of interned tuples of one kind. A full pool is cleared: later tuples are not shared with earlier
ones, which only costs memory."""


class InternPool:
    """The interned replica sets and directories of an image."""

    __slots__ = ("_directories", "_ids", "_replicas")

    def __init__(self) -> None:
        self._replicas: dict[Replicas, Replicas] = {}
        self._directories: dict[tuple[KafkaUuid, ...], tuple[KafkaUuid, ...]] = {}
        self._ids: dict[KafkaUuid, KafkaUuid] = {}

    def replicas(self, values: Sequence[int] | None) -> Replicas:
        """Intern broker ids; None is interned as an empty tuple."""
        if not values:
            return ()
        value = tuple(values)
        known = self._replicas.get(value)
        if known is None:
            if len(self._replicas) >= MAX_ENTRIES:
                self._replicas.clear()
            known = self._replicas[value] = value
        return known

    def directories(self, values: Sequence[KafkaUuid]) -> tuple[KafkaUuid, ...]:
        """Intern directory ids, both the tuple and each id."""
        if not values:
            return ()
        value = tuple(values)
        known = self._directories.get(value)
        if known is None:
            if len(self._directories) >= MAX_ENTRIES:
                self._directories.clear()
            if len(self._ids) >= MAX_ENTRIES:
                self._ids.clear()
            known = tuple([self._ids.setdefault(each, each) for each in value])
            self._directories[known] = known
        return known
