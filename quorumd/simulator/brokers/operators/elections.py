"""Requests for elections of the preferred leader, or of any replica of a partition without a leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from quorumd.controller.cluster_image import ClusterImage
from quorumd.protocol.messages import elect_leaders_request as wire
from quorumd.simulator.brokers.operators.operator import TIMEOUT_MS, AdminRequest

PREFERRED: Final = 0
UNCLEAN: Final = 1
UNKNOWN_TYPE: Final = 2


class ElectionRequests:
    """Builds requests for elections from the committed metadata, which `image()` returns."""

    def __init__(self, random: Random, image: Callable[[], ClusterImage], broker_ids: Sequence[int]) -> None:
        del broker_ids
        self._random = random
        self._image = image

    def next(self) -> AdminRequest | None:
        """Return the next request."""
        random = self._random
        (kind,) = random.choices((PREFERRED, UNCLEAN, UNKNOWN_TYPE), (6.0, 3.0, 0.3))
        request = wire.ElectLeadersRequest(kind, self._partitions(kind), TIMEOUT_MS)
        lowest = request.MIN_VERSION if kind == PREFERRED else 1
        return AdminRequest(request, random.randint(lowest, request.MAX_VERSION))

    def _partitions(self, kind: int) -> list[wire.TopicPartitions] | None:
        """Draw partitions, None for all; for unclean elections mostly partitions without a leader."""
        random, image = self._random, self._image()
        if random.random() < 0.15 or not image.topics:
            return None
        candidates = [
            (topic.name, number)
            for _, topic_id in sorted(image.topic_ids.items())
            for topic in (image.topics[topic_id],)
            for number, row in topic.partitions.items()
            if row.leader < 0 or kind != UNCLEAN or random.random() < 0.1
        ]
        drawn = random.sample(candidates, min(len(candidates), random.choice((1, 2, 5))))
        numbers: dict[str, list[int]] = {}
        for name, number in drawn:
            numbers.setdefault(name, []).append(number)
        if random.random() < 0.1 or not numbers:
            numbers.setdefault(random.choice(sorted(image.topic_ids)), []).append(99)
        return [wire.TopicPartitions(name, partitions) for name, partitions in numbers.items()]
