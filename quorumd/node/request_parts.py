"""A large request to the controller is carried out in parts, so that none holds up the event loop for long.

A part is a request of its own: it is planned and appended at once, all or none of it, and other work comes between
two parts. Kafka's admin APIs promise no more: they are not transactional over topics and partitions. A topic is
created whole, however many partitions it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, Final, NamedTuple

from quorumd.node.server_session import Session
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.wire import Message

PART_PARTITIONS = 250
"""How many partitions of one request are changed at once: some milliseconds of work."""

Handler = Callable[[Session, Request], None]


class Lists(NamedTuple):
    """Which fields of a request and of its response list the topics, and in these the partitions; `partitions` is ""
    where a topic is not divided."""

    topics: str
    answered_topics: str
    partitions: str = ""
    answered_partitions: str = ""


DIVIDED: Final[dict[int, Lists]] = {
    ApiKey.CREATE_TOPICS: Lists("topics", "topics"),
    ApiKey.DELETE_TOPICS: Lists("topics", "responses"),
    ApiKey.CREATE_PARTITIONS: Lists("topics", "results"),
    ApiKey.ALTER_PARTITION: Lists("topics", "topics", "partitions", "partitions"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Lists("topics", "responses", "partitions", "partitions"),
    ApiKey.ELECT_LEADERS: Lists(
        "topic_partitions", "replica_election_results", "partitions", "partition_result"
    ),
}


class Part(NamedTuple):
    """`continues`: whether its first topic is the last one of the part before."""

    message: Message
    continues: bool


def divided(request: Request, most: int = PART_PARTITIONS) -> list[Part]:
    """The parts of a request, each with at most so many partitions or topics; only one for most requests."""
    message: Any = request.message
    lists = DIVIDED.get(request.api_key)
    topics = None if lists is None else getattr(message, lists.topics)
    if lists is None or not topics or _size(topics, lists.partitions) <= most:
        return [Part(message, False)]
    parts: list[Part] = []
    for continues, part in _groups(topics, lists.partitions, most):
        of_part = copy(message)
        setattr(of_part, lists.topics, part)
        parts.append(Part(of_part, continues))
    return parts


def _size(topics: Sequence[Any], partitions: str) -> int:
    return sum(max(1, len(getattr(topic, partitions))) for topic in topics) if partitions else len(topics)


def _groups(topics: Sequence[Any], partitions: str, most: int) -> Iterator[tuple[bool, list[Any]]]:
    """Topics with `most` partitions together at most, and whether the first one was begun in the group before."""
    group: list[Any] = []
    continues, left = False, most
    for topic in topics:
        wanted = getattr(topic, partitions) if partitions else ()
        taken = 0
        while True:
            if left <= 0:
                yield continues, group
                group, continues, left = [], taken > 0, most
            slice_of_it = wanted[taken : taken + left] if partitions else ()
            if len(slice_of_it) == len(wanted):
                group.append(topic)
            else:
                piece = copy(topic)
                setattr(piece, partitions, slice_of_it)
                group.append(piece)
            taken += len(slice_of_it)
            left -= max(1, len(slice_of_it))
            if taken >= len(wanted):
                break
    yield continues, group


def joined(lists: Lists, parts: Sequence[Part], answers: Sequence[Message]) -> Message:
    """The answer to the whole. An error that is for a whole part is that of all."""
    for answer in answers:
        if getattr(answer, "error_code", 0):
            return answer
    whole = copy(answers[0])
    topics: list[Any] = []
    for part, answer in zip(parts, answers, strict=True):
        found = getattr(answer, lists.answered_topics)
        if part.continues:
            before = copy(topics[-1])
            divided_list = lists.answered_partitions
            setattr(before, divided_list, getattr(before, divided_list) + getattr(found[0], divided_list))
            topics[-1] = before
            found = found[1:]
        topics += found
    setattr(whole, lists.answered_topics, topics)
    return whole


class LargeRequest:
    """Satisfies `sliced_work.Work`: a part a turn. `handle(session, request)` carries a part out.

    `done(answer)` is called with the answer to the whole. `not_leader(nothing_done)` instead if this node leads no
    longer; `nothing_done` where no part had an effect.
    """

    def __init__(
        self,
        session: Session,
        request: Request,
        parts: Sequence[Part],
        handle: Handler,
        done: Callable[[Message], None],
        not_leader: Callable[[bool], None],
    ) -> None:
        self.is_done = False
        self._session = session
        self._request = request
        self._parts = parts
        self._handle = handle
        self._done = done
        self._not_leader = not_leader
        self._next = 0
        self._answers: dict[int, Message] = {}

    def advance(self, room: int) -> int:
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
        return room

    def part_answered(self, number: int, answer: Message) -> None:
        self._answers[number] = answer
        if len(self._answers) == len(self._parts):
            answers = [self._answers[each] for each in range(len(self._parts))]
            self._done(joined(DIVIDED[self._request.api_key], self._parts, answers))

    def part_refused(self) -> None:
        """This node leads no longer, and a part had no effect: the others are left."""
        if self._next <= len(self._parts):
            nothing_done = self._next == 1
            self.is_done = True
            self._next = len(self._parts) + 1
            self._not_leader(nothing_done)


class _PartSession:
    """Where a part gets its answer. Satisfies `Session`."""

    asked_as_controller_client = True

    def __init__(self, outer: Session, whole: LargeRequest, number: int) -> None:
        self.peer = outer.peer
        self.number = outer.number
        self._outer = outer
        self._whole = whole
        self._part = number

    def answer(self, request: Request, message: Message) -> None:
        del request
        self._whole.part_answered(self._part, message)

    def answer_at_once(self, request: Request, message: Message) -> None:
        self.answer(request, message)

    def answer_encoded(self, request: Request, answer: bytes) -> None:
        raise AssertionError(f"{request!r} is a part, which is never forwarded")

    def answer_not_leader(self, request: Request, message: Message) -> None:
        del request, message
        self._whole.part_refused()

    def hold(self, request: Request) -> None:
        del request

    def close(self) -> None:
        self._outer.close()
