"""Fetch on a follower of the model: one loop per leader, with one request at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from quorumd.broker.replication.replica_fetch import ReplicaFetch
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.fetch_response import FetchResponse
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.fetch_codec import (
    VERSION,
    FetchPartitions,
    ReceivedPartition,
    decode_response,
    request_of,
)
from quorumd.simulator.brokers.request_channel import Address, Channel
from quorumd.simulator.environment.event_heap import EventHeap, Process

BACKOFF_MS: Final = 60.0


class FollowerReplicas(Protocol):
    """The replicas for which a fetcher sends requests."""

    def fetches_from(self, leader_id: int) -> FetchPartitions:
        """Return the next fetches from this leader; empty if no replica follows it."""

    def address_of(self, broker_id: int) -> Address | None: ...

    def fetched(self, fetch: ReplicaFetch, received: ReceivedPartition) -> None: ...


class ReplicaFetcher:
    """Fetches from one leader until no replica follows it, and then calls `finished()`."""

    def __init__(
        self,
        leader_id: int,
        heap: EventHeap,
        process: Process,
        channel: Channel,
        fetch_wait_ms: float,
        replicas: FollowerReplicas,
        finished: Callable[[], None],
    ) -> None:
        self._leader_id = leader_id
        self._heap = heap
        self._process = process
        self._channel = channel
        self._fetch_wait_ms = fetch_wait_ms
        self._replicas = replicas
        self._finished = finished

    def next(self) -> None:
        """Send the next request."""
        requested = self._replicas.fetches_from(self._leader_id)
        if not requested:
            self._channel.close()
            self._finished()
            return
        address = self._replicas.address_of(self._leader_id)
        if address is None:
            self._later(BACKOFF_MS)
            return
        request = request_of(requested, self._fetch_wait_ms)
        self._channel.send(address, request, VERSION, partial(self._on_response, requested))

    def _later(self, delay_ms: float) -> None:
        self._heap.call_later(delay_ms, self.next, b"fetch", self._process)

    def _on_response(self, requested: FetchPartitions, message: Message | None) -> None:
        if not isinstance(message, FetchResponse):
            self._later(BACKOFF_MS)
            return
        fetches = dict(requested)
        failed = False
        for received in decode_response(message):
            failed |= received.fetched.error is not ErrorCode.NONE
            self._replicas.fetched(fetches[received.where], received)
        self._later(BACKOFF_MS if failed else 0.0)
