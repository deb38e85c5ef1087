"""What the fleet knows of the cluster: one observer follows the metadata log for all of its brokers."""

from __future__ import annotations

import asyncio

from quorumd.controller.cluster_image import ClusterImage
from quorumd.simulator.brokers.metadata import MetadataObserver
from tests.chaos.fleet.request_channel import Address, Channel

OBSERVER_ID = 100
EVERY_S = 0.2
"""Clients write all the while: an observer that asks again at once would be told of each write by itself."""
WAIT_MS = 300.0


class Metadata:
    """`nodes`: where to look for a leader of the quorum."""

    def __init__(self, nodes: list[Address]) -> None:
        self._nodes = nodes
        self._turn = 0
        self._observer = MetadataObserver(OBSERVER_ID, lambda batch: None)
        self._channel = Channel("client-observer")

    @property
    def image(self) -> ClusterImage:
        """What is committed, as far as the observer was told."""
        return self._observer.image

    @property
    def end_offset(self) -> int:
        return self._observer.end_offset

    @property
    def has_caught_up(self) -> bool:
        return self._observer.has_caught_up

    @property
    def controller(self) -> Address | None:
        """Who leads the quorum, as far as the observer was told."""
        return self._observer.leader.address if self._observer.leader else None

    async def follow(self) -> None:
        """Until it is cancelled."""
        while True:
            address = self.controller or self._nodes[self._turn % len(self._nodes)]
            request, version = self._observer.request(WAIT_MS)
            answer = await self._channel.ask(address, request, version)
            if answer is None:
                self._observer.leader = None
            if answer is None or not self._observer.handle_response(answer):
                self._turn += 1
            await asyncio.sleep(EVERY_S)
