"""Preparation of many partitions of one topic in slices, before the request is planned.

Placement depends on the brokers: if one changes meanwhile, the preparation starts over. A request that meets such
changes repeatedly is planned like a small one, without slices.
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


class Wanted(NamedTuple):
    """New partitions of one topic, and the function that returns the replicas of each number, in order."""

    topic_id: KafkaUuid
    numbers: range
    replicas_of: Callable[[int], Replicas]


class Preparation:
    """`wanted()` returns the partitions to prepare, None if the request is refused or needs none."""

    def __init__(self, controller: Controller, wanted: Callable[[], Wanted | None]) -> None:
        self._controller = controller
        self._wanted = wanted
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
        wanted = self._wanted() if self._attempts <= ATTEMPTS else None
        if wanted is not None:
            self._replicas_of = wanted.replicas_of
            self._prepared = PreparedPartitions(wanted.topic_id, self._level, image.shared)
            self._numbers, self._left = iter(wanted.numbers), len(wanted.numbers)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to prepare; a broker that changes meanwhile leaves everything."""
        return not self._left and (self._prepared is None or self._is_current)

    def advance(self, count: int) -> None:
        """Prepare the next `count` partitions."""
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
