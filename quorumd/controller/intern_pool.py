"""Interning of equal tuples: even a million partitions have only a few distinct replica sets."""

from __future__ import annotations

from collections.abc import Sequence
from struct import unpack_from
from typing import Final

from quorumd.ids import KafkaUuid

Replicas = tuple[int, ...]
"""Broker ids."""

MAX_ENTRIES: Final = 1 << 17
"""Maximum number of interned tuples of one kind. A full pool is cleared: later tuples are not shared with earlier
ones, which only costs memory."""
_MAX_ENCODED: Final = 31
"""The number of broker ids in arrays of less than 128 bytes; no partition has more directories."""


class InternPool:
    """The interned replica sets and directories of an image."""

    __slots__ = ("_directories", "_encoded", "_encoded_directories", "_ids", "_replicas")

    def __init__(self) -> None:
        self._replicas: dict[Replicas, Replicas] = {}
        self._encoded: dict[bytes, Replicas] = {}
        self._directories: dict[tuple[KafkaUuid, ...], tuple[KafkaUuid, ...]] = {}
        self._encoded_directories: dict[bytes, tuple[KafkaUuid, ...]] = {}
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

    def encoded_replicas(self, value: bytes) -> Replicas | None:
        """Return the interned broker ids of a compact array of at most 31; None for other bytes and for null."""
        known = self._encoded.get(value)
        if known is None:
            count = len(value) // 4
            if not value or count > _MAX_ENCODED or value[0] != count + 1 or len(value) != 4 * count + 1:
                return None
            if len(self._encoded) >= MAX_ENTRIES:
                self._encoded.clear()
            known = self._encoded[value] = self.replicas(unpack_from(f">{count}i", value, 1))
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

    def encoded_directories(self, value: bytes) -> tuple[KafkaUuid, ...] | None:
        """Return the interned directory ids of a compact array of at most 31; None for other bytes and for null."""
        known = self._encoded_directories.get(value)
        if known is None:
            count = len(value) // 16
            if not value or count > _MAX_ENCODED or value[0] != count + 1 or len(value) != 16 * count + 1:
                return None
            if len(self._encoded_directories) >= MAX_ENTRIES:
                self._encoded_directories.clear()
            ids = [KafkaUuid(value[start : start + 16]) for start in range(1, len(value), 16)]
            known = self._encoded_directories[value] = self.directories(ids)
        return known
