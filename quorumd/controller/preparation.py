"""Preparation of many new partitions of one topic in slices, before the request is planned.

Placement depends on the brokers: if one changes in the meantime, the preparation starts over. After ATTEMPTS of them
the request is planned like a small one, without slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from quorumd.controller.controller import Controller
from quorumd.controller.new_partitions import record_for
from quorumd.controller.partition import PartitionId, Replicas
from quorumd.controller.prepared_partitions import PreparedPartitions
from quorumd.ids import KafkaUuid

ATTEMPTS = 4
"""Maximum number of times that a preparation starts."""


class PartitionsToPrepare(NamedTuple):
    """Numbers of new partitions of one topic, and the function that returns the replicas of a number."""

    topic_id: KafkaUuid
    numbers: range
    replicas_of: Callable[[int], Replicas]


class Preparation:
    """The preparation of one request. `to_prepare()`: the partitions to prepare, None if the request is rejected or
    creates none; called at every start."""

    def __init__(self, controller: Controller, to_prepare: Callable[[], PartitionsToPrepare | None]) -> None:
        self._controller = controller
        self._to_prepare = to_prepare
        self._attempts = 0
        self._begin()

    def _begin(self) -> None:
        image = self._controller.image
        self._image = image
        self._brokers = dict(image.brokers)
        self._level = image.metadata_version
        self._attempts += 1
        self._prepared: PreparedPartitions | None = None
        self._numbers: Iterator[int] = iter(())
        self._left = 0
        to_prepare = self._to_prepare() if self._attempts <= ATTEMPTS else None
        if to_prepare is not None:
            self._replicas_of = to_prepare.replicas_of
            self._prepared = PreparedPartitions(to_prepare.topic_id, self._level, image.shared)
            self._numbers, self._left = iter(to_prepare.numbers), len(to_prepare.numbers)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to prepare. If a broker has changed in the meantime, everything is."""
        return not self._left and (self._prepared is None or self._is_current)

    def advance(self, count: int) -> None:
        """Prepare at most `count` further partitions, from the start if a broker has changed."""
        if not self._is_current:
            self._begin()
        prepared, controller = self._prepared, self._controller
        if prepared is None:
            return
        for number in islice(self._numbers, count):
            where = PartitionId(prepared.topic_id, number)
            prepared.add(record_for(controller, where, self._replicas_of(number)))
            self._left -= 1

    def result(self) -> PreparedPartitions | None:
        """Return the prepared partitions, None if they are not ready or no longer current."""
        return self._prepared if self.is_done else None

    @property
    def _is_current(self) -> bool:
        image = self._controller.image
        return (
            image is self._image and image.metadata_version == self._level and image.brokers == self._brokers
        )
