"""The leader's end of fetches between brokers. A fetch that finds nothing new is parked until there is something."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode, MalformedMessage
from quorumd.ports import Transport
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request, ServerConnection
from quorumd.protocol.messages.fetch_request import FetchRequest
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.fetch_codec import (
    VERSION,
    FetchedPartitions,
    FetchPartitions,
    decode_request,
    response_of,
)
from quorumd.simulator.brokers.replica import Fetched, Replica
from quorumd.simulator.environment.event_heap import EventHeap, Process, Scheduled

SPOKEN: Final = {int(ApiKey.FETCH): (VERSION, VERSION)}
LARGEST_REQUEST: Final = 1 << 20


class _DelayedFetch:
    """A fetch that waits."""

    __slots__ = ("asked", "request", "session", "timer")

    def __init__(self, session: DataSession, request: Request[Message], asked: FetchPartitions) -> None:
        self.session = session
        self.request = request
        self.asked = asked
        self.timer: Scheduled | None = None


class FetchServer:
    """All sessions of one life of a broker. `replica(where)`: None for one that is not here."""

    def __init__(
        self, heap: EventHeap, process: Process, replica: Callable[[PartitionId], Replica | None]
    ) -> None:
        self._heap = heap
        self._process = process
        self._replica = replica
        self._delayed: list[_DelayedFetch] = []

    def accept(self) -> DataSession:
        return DataSession(self)

    def serve(self, session: DataSession, request: Request[Message]) -> None:
        """Answer a fetch, now or when there is something to tell."""
        message = request.message
        assert isinstance(message, FetchRequest)
        asked = decode_request(message)
        answered = self._answers(asked, delayed=False)
        if _is_news(answered) or message.max_wait_ms <= 0:
            session.answer(request, answered)
            return
        delayed = _DelayedFetch(session, request, asked)
        self._delayed.append(delayed)
        delayed.timer = self._heap.call_later(
            message.max_wait_ms, lambda: self._complete(delayed), b"parked fetch", self._process
        )

    def wake(self, changed: Iterable[PartitionId]) -> None:
        """These partitions may have something to tell now."""
        names = set(changed)
        for delayed in [each for each in self._delayed if any(where in names for where, _ in each.asked)]:
            if _is_news(self._answers(delayed.asked, delayed=True)):
                self._complete(delayed)

    def _complete(self, delayed: _DelayedFetch) -> None:
        if delayed in self._delayed:
            self._delayed.remove(delayed)
            if delayed.timer is not None:
                delayed.timer.cancel()
            delayed.session.answer(delayed.request, self._answers(delayed.asked, delayed=True))

    def _answers(self, asked: FetchPartitions, *, delayed: bool) -> FetchedPartitions:
        now_ms = self._heap.now_ms
        answers = []
        for where, fetch in asked:
            replica = self._replica(where)
            if replica is None:
                answers.append((where, Fetched(ErrorCode.UNKNOWN_TOPIC_ID)))
            else:
                answers.append((where, replica.serve(fetch, now_ms, delayed=delayed)))
        return answers


class DataSession:
    """One connection of a follower; satisfies `ports.Connection`."""

    def __init__(self, server: FetchServer) -> None:
        self._server = server
        self._connection = ServerConnection(LARGEST_REQUEST, SPOKEN)
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

    def answer(self, request: Request[Message], answered: FetchedPartitions) -> None:
        self._connection.answer(request, response_of(answered))
        if self._transport is not None:
            self._transport.write(self._connection.take_output())

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _is_news(answered: FetchedPartitions) -> bool:
    return any(
        fetched.records or fetched.diverging is not None or fetched.error is not ErrorCode.NONE
        for _, fetched in answered
    )
