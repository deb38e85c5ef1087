"""Requests that unregister running, stopped and unknown brokers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from quorumd.controller.cluster_image import ClusterImage
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from quorumd.simulator.brokers.operators.operator import AdminRequest

UNKNOWN_BROKER: Final = 9999
DOWN_FIRST: Final = 0.5
"""Share of requests that name a fenced broker, if there is one."""


class UnregistrationRequests:
    """Builds unregistrations from the committed metadata, which `image()` returns."""

    def __init__(self, random: Random, image: Callable[[], ClusterImage], broker_ids: Sequence[int]) -> None:
        self._random = random
        self._image = image
        self._broker_ids = broker_ids

    def next(self) -> AdminRequest | None:
        """Return the next request."""
        random, brokers = self._random, self._image().brokers
        fenced = [
            broker_id
            for broker_id in self._broker_ids
            if broker_id in brokers and brokers[broker_id].is_fenced
        ]
        if fenced and random.random() < DOWN_FIRST:
            return AdminRequest(UnregisterBrokerRequest(random.choice(fenced)), 0)
        return AdminRequest(UnregisterBrokerRequest(random.choice([*self._broker_ids, UNKNOWN_BROKER])), 0)
