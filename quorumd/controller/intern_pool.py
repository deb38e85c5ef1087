"""Interning of equal tuples: even a million partitions have only a few distinct replica sets."""

from __future__ import annotations

from collections.abc import Sequence
from struct import unpack_from
from typing import Final, TypeVar

from quorumd.ids import KafkaUuid

Replicas = tuple[int, ...]
"""Broker ids."""
K = TypeVar("K")
V = TypeVar("V")

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
        return _store(self._replicas, value, value) if known is None else known

    def encoded_replicas(self, value: bytes) -> Replicas | None:
        """Return the interned broker ids of a compact array of at most 31; None for other bytes and for null."""
        known = self._encoded.get(value)
        if known is None:
            count = _element_count(value, 4)
            if count < 0:
                return None
            known = _store(self._encoded, value, self.replicas(unpack_from(f">{count}i", value, 1)))
        return known

    def directories(self, values: Sequence[KafkaUuid]) -> tuple[KafkaUuid, ...]:
        """Intern directory ids, both the tuple and each id."""
        if not values:
            return ()
        value = tuple(values)
        known = self._directories.get(value)
        if known is None:
            if len(self._ids) >= MAX_ENTRIES:
                self._ids.clear()
            known = tuple([self._ids.setdefault(each, each) for each in value])
            _store(self._directories, known, known)
        return known

    def encoded_directories(self, value: bytes) -> tuple[KafkaUuid, ...] | None:
        """Return the interned directory ids of a compact array of at most 31; None for other bytes and for null."""
        known = self._encoded_directories.get(value)
        if known is None:
            if _element_count(value, 16) < 0:
                return None
            ids = [KafkaUuid(value[start : start + 16]) for start in range(1, len(value), 16)]
            known = _store(self._encoded_directories, value, self.directories(ids))
        return known


def _store(interned: dict[K, V], key: K, value: V) -> V:
    if len(interned) >= MAX_ENTRIES:
        interned.clear()
    interned[key] = value
    return value


def _element_count(value: bytes, element_size: int) -> int:
    """Return the number of elements of a compact array of at most 31; -1 for other bytes and for null."""
    count = len(value) // element_size
    is_array = len(value) == element_size * count + 1 and count <= _MAX_ENCODED and value[0] == count + 1
    return count if is_array else -1
