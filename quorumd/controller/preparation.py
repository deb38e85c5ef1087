"""Many partitions of one topic are made ready in slices, before the request for them is planned.

What is made depends on the brokers: where one changes meanwhile, all is made anew. A request that meets such changes
again and again is planned as a small one is, in one piece.
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
    """New partitions of one topic, and how to find the replicas of each number, in order."""

    topic_id: KafkaUuid
    numbers: range
    replicas_of: Callable[[int], Replicas]


class Preparation:
    """`wanted()`: what is to be made now, None where the request is refused, or nothing is to be made for it."""

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
        return not self._left

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
        """The partitions as they would be made now, None where they are not ready."""
        return self._prepared if self.is_done and self._is_current else None

    @property
    def _is_current(self) -> bool:
        image = self._controller.image
        return (
            image is self._image and image.metadata_version == self._level and image.brokers == self._brokers
        )
