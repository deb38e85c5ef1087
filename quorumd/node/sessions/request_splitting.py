"""A large request to the controller is carried out in parts, so that none holds up the event loop for long.

A part is a request of its own: it is planned and appended at once, all or none of it, and other work comes between
two parts. Kafka's admin APIs promise no more: they are not transactional over topics and partitions. A topic is
created whole, however many partitions it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, Final, NamedTuple

from quorumd.node.sessions.server_session import Session
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.wire import Message

MAX_PARTITIONS_PER_PART = 250
"""How many partitions of one request are changed at once: some milliseconds of work."""

Handler = Callable[[Session, Request], None]


class SplitFields(NamedTuple):
    """Which fields of a request and of its response list the topics, and in these the partitions; `partitions` is ""
    where a topic is not divided."""

    topics: str
    response_topics: str
    partitions: str = ""
    response_partitions: str = ""


SPLIT_FIELDS: Final[dict[int, SplitFields]] = {
    ApiKey.CREATE_TOPICS: SplitFields("topics", "topics"),
    ApiKey.DELETE_TOPICS: SplitFields("topics", "responses"),
    ApiKey.CREATE_PARTITIONS: SplitFields("topics", "results"),
    ApiKey.ALTER_PARTITION: SplitFields("topics", "topics", "partitions", "partitions"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: SplitFields("topics", "responses", "partitions", "partitions"),
    ApiKey.ELECT_LEADERS: SplitFields(
        "topic_partitions", "replica_election_results", "partitions", "partition_result"
    ),
}


class RequestPart(NamedTuple):
    """`continues`: whether its first topic is the last one of the part before."""

    message: Message
    continues_topic: bool


def split(request: Request, max_partitions: int = MAX_PARTITIONS_PER_PART) -> list[RequestPart]:
    """The parts of a request, each with at most so many partitions or topics; only one for most requests."""
    message: Any = request.message
    lists = SPLIT_FIELDS.get(request.api_key)
    topics = None if lists is None else getattr(message, lists.topics)
    if lists is None or not topics or _size(topics, lists.partitions) <= max_partitions:
        return [RequestPart(message, False)]
    parts: list[RequestPart] = []
    for continues_topic, part in _groups(topics, lists.partitions, max_partitions):
        part_message = copy(message)
        setattr(part_message, lists.topics, part)
        parts.append(RequestPart(part_message, continues_topic))
    return parts


def _size(topics: Sequence[Any], partitions: str) -> int:
    return sum(max(1, len(getattr(topic, partitions))) for topic in topics) if partitions else len(topics)


def _groups(topics: Sequence[Any], partitions: str, max_partitions: int) -> Iterator[tuple[bool, list[Any]]]:
    """Topics with `most` partitions together at most, and whether the first one was begun in the group before."""
    group: list[Any] = []
    continues_topic, budget = False, max_partitions
    for topic in topics:
        pending = getattr(topic, partitions) if partitions else ()
        consumed = 0
        while True:
            if budget <= 0:
                yield continues_topic, group
                group, continues_topic, budget = [], consumed > 0, max_partitions
            chunk = pending[consumed : consumed + budget] if partitions else ()
            if len(chunk) == len(pending):
                group.append(topic)
            else:
                piece = copy(topic)
                setattr(piece, partitions, chunk)
                group.append(piece)
            consumed += len(chunk)
            budget -= max(1, len(chunk))
            if consumed >= len(pending):
                break
    yield continues_topic, group


def merge(lists: SplitFields, parts: Sequence[RequestPart], responses: Sequence[Message]) -> Message:
    """The answer to the whole. An error that is for a whole part is that of all."""
    for response in responses:
        if getattr(response, "error_code", 0):
            return response
    whole = copy(responses[0])
    topics: list[Any] = []
    for part, response in zip(parts, responses, strict=True):
        found = getattr(response, lists.response_topics)
        if part.continues_topic:
            before = copy(topics[-1])
            partitions_field = lists.response_partitions
            setattr(
                before,
                partitions_field,
                getattr(before, partitions_field) + getattr(found[0], partitions_field),
            )
            topics[-1] = before
            found = found[1:]
        topics += found
    setattr(whole, lists.response_topics, topics)
    return whole


class SplitRequestTask:
    """Satisfies `sliced_work.Work`: a part a turn. `handle(session, request)` carries a part out.

    `done(answer)` is called with the answer to the whole. `not_leader(no_effect)` instead if this node leads no
    longer; `no_effect` where no part had an effect.
    """

    def __init__(
        self,
        session: Session,
        request: Request,
        parts: Sequence[RequestPart],
        handle: Handler,
        on_done: Callable[[Message], None],
        not_leader: Callable[[bool], None],
    ) -> None:
        self.is_done = False
        self._session = session
        self._request = request
        self._parts = parts
        self._handle = handle
        self._on_done = on_done
        self._not_leader = not_leader
        self._next = 0
        self._responses: dict[int, Message] = {}

    def advance(self, budget: int) -> int:
        number = self._next
        self._next += 1
        if self._next == len(self._parts):
            self.is_done = True
        whole = self._request
        part = Request(
            whole.api_key,
            whole.api_version,
            whole.correlation_id,
            whole.client_id,
            self._parts[number].message,
            b"",
            0,
        )
        self._handle(_PartSession(self._session, self, number), part)
        return budget

    def on_part_response(self, number: int, response: Message) -> None:
        self._responses[number] = response
        if len(self._responses) == len(self._parts):
            responses = [self._responses[each] for each in range(len(self._parts))]
            self._on_done(merge(SPLIT_FIELDS[self._request.api_key], self._parts, responses))

    def on_part_refused(self) -> None:
        """This node leads no longer, and a part had no effect: the others are left."""
        if self._next <= len(self._parts):
            no_effect = self._next == 1
            self.is_done = True
            self._next = len(self._parts) + 1
            self._not_leader(no_effect)


class _PartSession:
    """Where a part gets its answer. Satisfies `Session`."""

    is_controller_client = True

    def __init__(self, outer: Session, whole: SplitRequestTask, number: int) -> None:
        self.peer = outer.peer
        self.number = outer.number
        self.comes_from_broker = outer.comes_from_broker
        self._outer = outer
        self._task = whole
        self._part = number

    def respond(self, request: Request, message: Message) -> None:
        del request
        self._task.on_part_response(self._part, message)

    def respond_immediately(self, request: Request, message: Message) -> None:
        self.respond(request, message)

    def respond_encoded(self, request: Request, response: bytes) -> None:
        raise AssertionError(f"{request!r} is a part, which is never forwarded")

    def respond_not_leader(self, request: Request, message: Message) -> None:
        del request, message
        self._task.on_part_refused()

    def block(self, request: Request) -> None:
        del request

    def close(self) -> None:
        self._outer.close()
