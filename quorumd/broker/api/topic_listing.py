"""Builds responses to Metadata in slices; a topic may have more partitions than one slice.

The encoded partitions of a large topic are shared by all responses until the topic or a broker changes, so that many
clients that request it at once cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from quorumd.broker.api.encoded_topics import EncodedTopics, encode_partitions
from quorumd.broker.api.topic_messages import SharedLists, metadata_head, missing_topic_error
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode, UnsupportedVersion
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.metadata_request import MetadataRequestTopic
from quorumd.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from quorumd.protocol.routes import Session, SlicedTask
from quorumd.protocol.stepped_task import SteppedTask
from quorumd.protocol.wire import Message

MAX_SHARED_BYTES: Final = 8 * 1024 * 1024
MAX_SHARED_TOPICS: Final = 8
COPIES_PER_UNIT: Final = 64
"""The number of partitions that can be copied in the time it takes to describe one."""
TOPICS_PER_STEP: Final = 64
"""Topics without partitions that are encoded in one step."""
BYTES_PER_UNIT: Final = 4096
"""The number of bytes of a response that can be joined and sent in the time it takes to describe a partition."""


BuildResponse = Callable[[list[MetadataResponseTopic]], MetadataResponse]
"""Builds a response with these topics."""


class TopicEntry(NamedTuple):
    """A topic in a response: its description without partitions, and its partitions by number."""

    head: MetadataResponseTopic
    partitions: Mapping[int, Partition]


def all_topics(image: Callable[[], ClusterImage]) -> Iterator[TopicEntry]:
    """Yield all topics as Metadata describes them; a topic that is deleted meanwhile may be missing."""
    for name in image().topic_ids.names():
        topic = image().topic_by_name(name)
        if topic is not None:
            yield TopicEntry(metadata_head(topic), topic.partitions)


def requested_topic(image: ClusterImage, topic_id: KafkaUuid, name: str) -> TopicEntry:
    """Return the topic with this id or name as Metadata describes it, with an error if it does not exist."""
    if topic_id != ZERO_UUID:
        topic, error = image.topics.get(topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic, error = image.topic_by_name(name), missing_topic_error(name)
    if topic is None:
        return TopicEntry(MetadataResponseTopic(int(error), name, topic_id), {})
    return TopicEntry(metadata_head(topic), topic.partitions)


def requested_topics(
    image: Callable[[], ClusterImage], requested: Iterable[MetadataRequestTopic]
) -> Iterator[TopicEntry | None]:
    """Yield each requested topic once, as Metadata describes it when it is yielded, and None where it is repeated."""
    seen: set[tuple[KafkaUuid, str]] = set()
    for topic in requested:
        named = topic.topic_id, topic.name or ""
        if named in seen:
            yield None
        else:
            seen.add(named)
            yield requested_topic(image(), *named)


class LargeTopic:
    """The partitions of one revision of a topic, and their encoded slices by (API version, position)."""

    def __init__(self, entry: TopicEntry, revision: Hashable) -> None:
        self.head = entry.head
        self.revision = revision
        self.partitions = dict(entry.partitions)
        self.numbers = sorted(self.partitions)
        self.encoded: dict[tuple[int, int], bytes] = {}


class LargeTopics:
    """A cache of the large topics that were described last; `max_bytes` limits their encoded partitions."""

    def __init__(self, max_bytes: int = MAX_SHARED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._topics: dict[KafkaUuid, LargeTopic] = {}

    def get(self, entry: TopicEntry, revision: Hashable) -> LargeTopic:
        """Return the current topic; `revision` changes whenever its content does."""
        topic_id = entry.head.topic_id
        known = self._topics.get(topic_id)
        if known is None or known.revision != revision:
            self._drop(topic_id)
            if len(self._topics) >= MAX_SHARED_TOPICS:
                self._drop(next(iter(self._topics)))
            known = self._topics[topic_id] = LargeTopic(entry, revision)
        return known

    def keep(self, topic: LargeTopic, key: tuple[int, int], encoded: bytes) -> None:
        """Keep encoded partitions for other responses; drop the oldest topics if the cache is full."""
        topic_id = topic.head.topic_id
        if self._topics.get(topic_id) is not topic or len(encoded) > self._max_bytes:
            return
        while self._bytes + len(encoded) > self._max_bytes:
            oldest = next(iter(self._topics))
            self._drop(oldest)
        self._topics[topic_id] = topic
        topic.encoded[key] = encoded
        self._bytes += len(encoded)

    def _drop(self, topic_id: KafkaUuid) -> None:
        dropped = self._topics.pop(topic_id, None)
        if dropped is not None:
            self._bytes -= sum(map(len, dropped.encoded.values()))
            dropped.encoded = {}


class Described(NamedTuple):
    """Partitions of a response."""

    partitions: list[MetadataResponsePartition]
    is_lasting: bool = True
    """Whether the partitions depend only on the revision of their topic, so that they can be cached."""


class TopicSource(NamedTuple):
    """The image behind a response.

    `revision(topic_id)` changes when the result of `describe(entry, numbers, shared)` may have changed for the topic.
    `when_committed(callback)` calls back with True once the current content of the image is committed, or with False
    if it may never be.
    """

    revision: Callable[[KafkaUuid], Hashable]
    describe: Callable[[TopicEntry, list[int], SharedLists], Described]
    when_committed: Callable[[Callable[[bool], None]], None]
    slice_partitions: int
    large_topics: LargeTopics


class TopicListingTask:
    """A `SlicedTask` whose unit is a topic or a partition. `topics` yields None for work without a topic.

    A topic is described in its state when its turn comes, even if it changes while its partitions are encoded.
    `build(topics)` builds the response after the last slice: with all topics if that is the only slice, else without
    topics, since they are in `encoded`. `extend(part)` extends topics before they are encoded, and may remove them.
    `on_complete` gets the response once all of it is committed; `on_lost()` is called if it may never be committed.
    """

    def __init__(
        self,
        topics: Iterator[TopicEntry | None],
        source: TopicSource,
        encoded: EncodedTopics,
        build: BuildResponse,
        extend: Callable[[MetadataResponse], object],
        on_complete: Callable[[MetadataResponse], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.is_done = False
        self._topics = topics
        self._source = source
        self._encoded = encoded
        self._build = build
        self._extend = extend
        self._on_complete = on_complete
        self._on_lost = on_lost
        self._shared: SharedLists = {}
        self._described: list[MetadataResponseTopic] = []
        self._large: LargeTopic | None = None
        """The current topic, if it is too large for one slice."""
        self._next = 0
        self._uncommitted_slices = 0
        self._is_lost = False
        self._is_cancelled = False
        self._response: MetadataResponse | None = None

    def cancel(self) -> None:
        """End the task without a response: the client has disconnected."""
        self._is_cancelled = self.is_done = True

    def advance(self, budget: int) -> int:
        if self._is_cancelled:
            return 0
        remaining = budget
        while remaining > 0 and not self.is_done:
            remaining -= self._large_slice(self._large) if self._large is not None else self._next_topic()
        if not self.is_done or len(self._encoded):
            self._encode_described()
        if self.is_done:
            self._response = self._build(self._described)
        # Each slice describes the image of a different time, so every slice must be committed, not only the last.
        self._uncommitted_slices += 1
        self._source.when_committed(self._on_slice_committed)
        return budget - remaining

    def _next_topic(self) -> int:
        try:
            entry = next(self._topics)
        except StopIteration:
            self.is_done = True
            return 0
        if entry is None:
            return 1
        source, size = self._source, len(entry.partitions)
        if size < source.slice_partitions:
            described = source.describe(entry, sorted(entry.partitions), self._shared)
            entry.head.partitions += described.partitions
            self._described.append(entry.head)
            return 1 + size
        self._encode_described()
        if not self._extended([entry.head]):
            return 1
        self._encoded.begin_topic(entry.head, size)
        self._large = source.large_topics.get(entry, source.revision(entry.head.topic_id))
        self._next = 0
        return 1 + size // COPIES_PER_UNIT

    def _large_slice(self, topic: LargeTopic) -> int:
        """Add the next partitions, from the cache if another response has encoded them."""
        source, key = self._source, (self._encoded.version, self._next)
        numbers = topic.numbers[self._next : self._next + source.slice_partitions]
        encoded, cost = topic.encoded.get(key), 1
        if encoded is None:
            described = source.describe(TopicEntry(topic.head, topic.partitions), numbers, self._shared)
            encoded, cost = encode_partitions(described.partitions, self._encoded.version), len(numbers)
            if described.is_lasting:
                source.large_topics.keep(topic, key, encoded)
        self._encoded.add_partitions(encoded, len(numbers))
        self._next += len(numbers)
        if self._next >= len(topic.numbers):
            self._large = None
        return cost

    def _encode_described(self) -> None:
        if self._described:
            self._encoded.add(self._extended(self._described))
            self._described = []

    def _extended(self, topics: list[MetadataResponseTopic]) -> list[MetadataResponseTopic]:
        part = MetadataResponse(topics=topics)
        self._extend(part)
        return part.topics

    def _on_slice_committed(self, committed: bool) -> None:
        self._uncommitted_slices -= 1
        if not committed:
            self._is_lost, self._topics = True, iter(())
        if self._response is None or self._uncommitted_slices or self._is_cancelled:
            return
        if self._is_lost:
            self._on_lost()
        else:
            self._on_complete(self._response)


class SendingTask:
    """A `SlicedTask` that joins and sends a response in one step, charged by its size.

    Thus clients that wait for the same commit are not all served in one iteration of the event loop.
    """

    def __init__(self, size: int, send: Callable[[], None]) -> None:
        self.is_done = False
        self._size = size
        self._send = send

    def cancel(self) -> None:
        """Send nothing: the client has disconnected."""
        self.is_done = True

    def advance(self, budget: int) -> int:
        del budget
        if self.is_done:
            return 0
        self.is_done = True
        self._send()
        return 1 + self._size // BYTES_PER_UNIT


_Task = TopicListingTask | SendingTask | SteppedTask[bool]


class TopicListings:
    """Lists topics in responses to Metadata. `begin` runs a task in slices."""

    def __init__(self, source: TopicSource, begin: Callable[[SlicedTask], None]) -> None:
        self.source = source
        self.begin = begin

    def respond(
        self,
        session: Session,
        request: Request[Message],
        topics: Callable[[], Iterator[TopicEntry | None]],
        build: BuildResponse,
    ) -> None:
        """Describe the topics in slices, and send the response that `build` returns.

        A large response blocks the session, and is cancelled when the connection is closed.
        """
        _Listing(self, session, request, topics, build).start()

    def send(self, session: Session, request: Request[Message], response: MetadataResponse) -> None:
        """Send a response with few topics, to which the session may add many."""
        _Listing(self, session, request, lambda: iter(()), lambda topics: response).send(response)


class _Listing:
    """One response. At the end it drops its task, which refers to it, so that no reference cycle remains."""

    def __init__(
        self,
        listings: TopicListings,
        session: Session,
        request: Request[Message],
        topics: Callable[[], Iterator[TopicEntry | None]],
        build: BuildResponse,
    ) -> None:
        self._listings = listings
        self._session = session
        self._request = request
        self._topics = topics
        self._build = build
        self._encoded = EncodedTopics(request.api_version)
        self._task: _Task | None = None

    def start(self) -> None:
        """Begin, and block the session unless the response is small or has been sent."""
        session = self._session
        work = TopicListingTask(
            self._topics(),
            self._listings.source,
            self._encoded,
            self._build,
            lambda part: session.extend(part, is_rest=False),
            self._complete,
            self._retry,
        )
        self._begin(work)
        is_small = self._task is work and work.is_done and not len(self._encoded)
        if self._task is not None and not is_small:
            session.block(self._request, self._cancel)

    def send(self, response: MetadataResponse) -> None:
        """Send a response that is described already, and block the session until it is encoded."""
        self._complete(response)
        if self._task is not None:
            self._session.block(self._request, self._cancel)

    def _begin(self, task: _Task) -> None:
        self._task = task
        self._listings.begin(task)

    def _complete(self, response: MetadataResponse) -> None:
        """Send a small response; encode what the session adds to a large one, and send that."""
        self._session = session = self._session.extend(response)
        if not len(self._encoded) and len(response.topics) <= self._listings.source.slice_partitions:
            self._task = None
            session.respond(self._request, response)
        elif response.topics:
            self._begin(SteppedTask(self._encode_added(response), partial(self._on_encoded, response)))
        else:
            self._on_encoded(response, True)

    def _encode_added(self, response: MetadataResponse) -> Generator[int, None, bool]:
        """Move the topics of the response to the encoded ones in steps. Returns False if one cannot be encoded."""
        added, response.topics = response.topics, []
        added.reverse()
        while added:
            topics = added[: -TOPICS_PER_STEP - 1 : -1]
            del added[-TOPICS_PER_STEP:]
            try:
                self._encoded.add(topics)
            except (UnsupportedVersion, ValueError):
                response.topics = topics
                return False
            yield TOPICS_PER_STEP
        return True

    def _on_encoded(self, response: MetadataResponse, is_encoded: bool) -> None:
        if is_encoded:
            self._begin(SendingTask(self._encoded.size, partial(self._send, response)))
        else:
            # The session cannot encode it either; it logs the error and closes the connection.
            self._task = None
            self._session.respond(self._request, response)

    def _send(self, response: MetadataResponse) -> None:
        self._task = None
        self._session.respond_encoded(self._request, self._encoded.encode_response(self._request, response))

    def _retry(self) -> None:
        self._task = None
        self._listings.respond(self._session, self._request, self._topics, self._build)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
