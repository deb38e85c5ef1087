"""The fleet's image of the cluster: one observer follows the metadata log for all brokers."""

from __future__ import annotations

import asyncio

from quorumd.controller.cluster_image import ClusterImage
from quorumd.simulator.brokers.metadata import MetadataObserver
from tests.chaos.fleet.request_channel import Address, Channel

OBSERVER_ID = 100
EVERY_S = 0.2
"""The interval of fetches: since clients write all the time, immediate fetches would return single writes."""
WAIT_MS = 300.0


class Metadata:
    """Fetches the metadata log from the leader of the quorum, which is found through `nodes`."""

    def __init__(self, nodes: list[Address]) -> None:
        self._nodes = nodes
        self._turn = 0
        self._observer = MetadataObserver(OBSERVER_ID, lambda batch: None)
        self._channel = Channel("client-observer")

    @property
    def image(self) -> ClusterImage:
        """The image of the committed records that the observer has fetched."""
        return self._observer.image

    @property
    def end_offset(self) -> int:
        return self._observer.end_offset

    @property
    def has_caught_up(self) -> bool:
        return self._observer.has_caught_up

    @property
    def controller(self) -> Address | None:
        """The address of the leader that the observer knows."""
        return self._observer.leader.address if self._observer.leader else None

    async def follow(self) -> None:
        """Fetch until cancelled."""
        while True:
            address = self.controller or self._nodes[self._turn % len(self._nodes)]
            request, version = self._observer.request(WAIT_MS)
            response = await self._channel.send(address, request, version)
            if response is None:
                self._observer.leader = None
            if response is None or not self._observer.handle_response(response):
                self._turn += 1
            await asyncio.sleep(EVERY_S)
