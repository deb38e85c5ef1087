"""Fetch on a leader of the model. A request without new data is delayed until there is some or its wait ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from quorumd.broker.replication.replica import Replica
from quorumd.broker.replication.replica_fetch import FetchDecision
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode, MalformedMessage
from quorumd.ports import Transport
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request, ServerConnection
from quorumd.protocol.messages.fetch_request import FetchRequest
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.data_log import DataLog
from quorumd.simulator.brokers.fetch_codec import (
    VERSION,
    FetchPartitions,
    ServedPartition,
    decode_request,
    response_of,
)
from quorumd.simulator.environment.event_heap import EventHeap, Process, Scheduled

SUPPORTED_VERSIONS: Final = {int(ApiKey.FETCH): (VERSION, VERSION)}
LARGEST_REQUEST: Final = 1 << 20


class _DelayedFetch:
    """A fetch that waits for data."""

    __slots__ = ("fetches", "request", "session", "timer")

    def __init__(self, session: DataSession, request: Request[Message], fetches: FetchPartitions) -> None:
        self.session = session
        self.request = request
        self.fetches = fetches
        self.timer: Scheduled | None = None


class FetchServer:
    """Serves all followers of one broker incarnation. `replica(where)` returns None if the broker has no such
    replica."""

    def __init__(
        self, heap: EventHeap, process: Process, replica: Callable[[PartitionId], Replica[DataLog] | None]
    ) -> None:
        self._heap = heap
        self._process = process
        self._replica = replica
        self._delayed: list[_DelayedFetch] = []

    def accept(self) -> DataSession:
        return DataSession(self)

    def serve(self, session: DataSession, request: Request[Message]) -> None:
        """Respond to a fetch, now or once there is new data."""
        message = request.message
        assert isinstance(message, FetchRequest)
        fetches = decode_request(message)
        served = self._serve(fetches, is_delayed=False)
        if _completes(served) or message.max_wait_ms <= 0:
            session.respond(request, served)
            return
        delayed = _DelayedFetch(session, request, fetches)
        self._delayed.append(delayed)
        delayed.timer = self._heap.call_later(
            message.max_wait_ms, lambda: self._complete(delayed), b"parked fetch", self._process
        )

    def wake(self, changed: Iterable[PartitionId]) -> None:
        """Complete delayed fetches of partitions that may have new data."""
        names = set(changed)
        for delayed in [each for each in self._delayed if any(where in names for where, _ in each.fetches)]:
            if _completes(self._serve(delayed.fetches, is_delayed=True)):
                self._complete(delayed)

    def _complete(self, delayed: _DelayedFetch) -> None:
        if delayed in self._delayed:
            self._delayed.remove(delayed)
            if delayed.timer is not None:
                delayed.timer.cancel()
            delayed.session.respond(delayed.request, self._serve(delayed.fetches, is_delayed=True))

    def _serve(self, fetches: FetchPartitions, *, is_delayed: bool) -> list[ServedPartition]:
        now_ms = self._heap.now_ms
        served = []
        for where, fetch in fetches:
            replica = self._replica(where)
            if replica is None:
                served.append(ServedPartition(where, FetchDecision(ErrorCode.UNKNOWN_TOPIC_ID)))
                continue
            decision = replica.serve_fetch(fetch, now_ms, is_delayed=is_delayed)
            records = replica.log.records[fetch.offset :] if decision.has_records else ()
            served.append(ServedPartition(where, decision, records))
        return served


class DataSession:
    """One connection of a follower; satisfies `ports.Connection`."""

    def __init__(self, server: FetchServer) -> None:
        self._server = server
        self._connection = ServerConnection(LARGEST_REQUEST, SUPPORTED_VERSIONS)
        self._transport: Transport | None = None

    def connected(self, transport: Transport) -> None:
        self._transport = transport

    def received(self, data: bytes) -> None:
        try:
            requests = self._connection.receive(data)
        except MalformedMessage:
            self._close()
            return
        for request in requests:
            self._server.serve(self, request)

    def closed(self, reason: str, refused: bool) -> None:
        self._transport = None

    def respond(self, request: Request[Message], served: Sequence[ServedPartition]) -> None:
        self._connection.respond(request, response_of(served))
        if self._transport is not None:
            self._transport.write(self._connection.take_output())

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _completes(served: Sequence[ServedPartition]) -> bool:
    return any(each.records or not each.decision.has_records for each in served)
