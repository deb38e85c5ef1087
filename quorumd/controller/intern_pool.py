"""Equal tuples become one object: a million partitions have their replicas on the same few sets of brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorumd.ids import KafkaUuid

Replicas = tuple[int, ...]
"""Broker ids."""

MAX_ENTRIES: Final = 1 << 17
"""So many different tuples are remembered; more, and sharing starts anew, which costs memory and nothing else."""


class InternPool:
    """What an image has seen of replicas, ISRs and the like, and of the data folders of replicas."""

    __slots__ = ("_directories", "_ids", "_replicas")

    def __init__(self) -> None:
        self._replicas: dict[Replicas, Replicas] = {}
        self._directories: dict[tuple[KafkaUuid, ...], tuple[KafkaUuid, ...]] = {}
        self._ids: dict[KafkaUuid, KafkaUuid] = {}

    def replicas(self, values: Sequence[int] | None) -> Replicas:
        """The tuple of these broker ids; none of None."""
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
        """The tuple of these directory ids, of which each is one object too."""
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
