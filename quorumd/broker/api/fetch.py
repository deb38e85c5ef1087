"""Fetch: records for consumers and followers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from quorumd.broker.api.context import BrokerApiContext
from quorumd.broker.api.fetch_purgatory import FetchPurgatory
from quorumd.broker.api.fetch_reader import (
    READ_COMMITTED,
    Fetcher,
    PartitionReader,
    ReadPartition,
    failed_partition,
)
from quorumd.broker.api.fetch_sessions import (
    MAX_SESSION_PARTITIONS,
    FetchSessions,
    PartitionKey,
    SessionFetch,
)
from quorumd.broker.replication.repeated_fetch import count_repeated
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.fetch_request import FetchPartition, FetchRequest
from quorumd.protocol.messages.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from quorumd.protocol.routes import Route, Session
from quorumd.quotas.entities import CONSUMER_BYTE_RATE
from quorumd.security.acls import Operation, ResourceType
from quorumd.security.authorizer import Access

TOPIC_IDS_SINCE: Final = 13
REPLICA_STATE_SINCE: Final = 15
FOLLOWER_READS_SINCE: Final = 11
LEADERS_SINCE: Final = 16
"""The first version whose responses name the current leader (KIP-951)."""
STORAGE_ERROR_SINCE: Final = 6
MAX_FETCHED: Final = 10_000
"""Partitions in a fetch, or in its session, unless the sender is a registered broker: no consumer reads more from one
broker."""
LARGE_RESPONSE_BYTES: Final = 64 * 1024
"""A larger response counts towards `fetch_memory_bytes` until the client has received it; the next request of the
connection waits until then."""

_NAMES_LEADER = frozenset({int(ErrorCode.NOT_LEADER_OR_FOLLOWER), int(ErrorCode.FENCED_LEADER_EPOCH)})


class FetchMemory:
    """The bytes of records that are in memory, in responses that clients have not received yet."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)


class FetchApis:
    """Handles Fetch: responds immediately, or once enough records are available."""

    def __init__(self, context: BrokerApiContext) -> None:
        settings = context.settings.api
        self.context = context
        self.reader = PartitionReader(context)
        self.memory = FetchMemory(settings.fetch_memory_bytes)
        self.purgatory = FetchPurgatory(context.clock)
        self.sessions: FetchSessions[FetchPartition] = FetchSessions(
            context.entropy.randrange, settings.fetch_session_slots
        )
        context.partitions.add_listener(self.purgatory)

    def routes(self) -> Iterable[Route]:
        return (Route(FetchRequest, self.fetch),)

    def fetch(self, session: Session, request: Request[FetchRequest]) -> None:
        """Read the requested partitions; respond, or wait for more records."""
        message, version = request.message, request.api_version
        uses_ids = version >= TOPIC_IDS_SINCE
        fetcher = _fetcher(message, version)
        max_size = MAX_SESSION_PARTITIONS if self.is_registered(fetcher) else MAX_FETCHED
        if sum(len(topic.partitions) for topic in message.topics) > max_size:
            session.respond(request, FetchResponse(0, int(ErrorCode.INVALID_REQUEST)))
            return
        requested: dict[PartitionKey, FetchPartition] = {
            (topic.topic_id if uses_ids else topic.topic, partition.partition): partition
            for topic in message.topics
            for partition in topic.partitions
        }
        forgotten: list[PartitionKey] = [
            (topic.topic_id if uses_ids else topic.topic, number)
            for topic in message.forgotten_topics_data
            for number in topic.partitions
        ]
        begun = self.sessions.begin(
            message.session_id,
            message.session_epoch,
            requested,
            forgotten,
            self.context.clock.now_ms(),
            is_follower=fetcher.is_follower,
            uses_topic_ids=uses_ids,
            max_size=max_size,
        )
        if isinstance(begun, ErrorCode):
            session.respond(request, FetchResponse(0, int(begun)))
            return
        access = self.context.access(session, ApiKey.FETCH)
        denied = frozenset[PartitionKey]()
        if access is not None:
            denied = self._denied(access, fetcher, begun.partitions)
        _Fetch(self, session, request, fetcher, begun, denied).begin()

    def is_registered(self, fetcher: Fetcher) -> bool:
        """Whether the sender is a follower that is a registered broker."""
        epoch = self.context.metadata.broker_epoch(fetcher.replica_id)
        return fetcher.is_follower and epoch >= 0 and fetcher.broker_epoch == epoch

    def _denied(
        self, access: Access, fetcher: Fetcher, requested: Iterable[PartitionKey]
    ) -> frozenset[PartitionKey]:
        """Return the partitions that the client may not read. Every request checks all partitions of its session."""
        if fetcher.is_follower:
            return frozenset() if access.allows_cluster(Operation.CLUSTER_ACTION) else frozenset(requested)
        image = self.context.metadata.image
        denied: set[PartitionKey] = set()
        names: dict[object, bool] = {}
        for key in requested:
            topic = _topic(key)
            if topic not in names:
                found = None if isinstance(topic, str) else image.topics.get(topic)
                name = topic if isinstance(topic, str) else found.name if found is not None else None
                names[topic] = name is None or access.allows(Operation.READ, ResourceType.TOPIC, name)
            if not names[topic]:
                denied.add(key)
        return frozenset(denied)


def _fetcher(message: FetchRequest, version: int) -> Fetcher:
    replica_id, broker_epoch = message.replica_id, -1
    if version >= REPLICA_STATE_SINCE:
        replica_id, broker_epoch = message.replica_state.replica_id, message.replica_state.replica_epoch
    return Fetcher(
        replica_id,
        broker_epoch,
        message.isolation_level == READ_COMMITTED and replica_id < 0,
        message.rack_id,
        version >= FOLLOWER_READS_SINCE,
    )


class _Fetch:
    """A fetch in progress; a `DelayedFetch` while it waits for records."""

    def __init__(
        self,
        apis: FetchApis,
        session: Session,
        request: Request[FetchRequest],
        fetcher: Fetcher,
        fetch: SessionFetch[FetchPartition],
        denied: frozenset[PartitionKey],
    ) -> None:
        message = request.message
        self._apis = apis
        self._session = session
        self._request = request
        self._fetcher = fetcher
        self._fetch = fetch
        self._denied = denied
        max_bytes = min(message.max_bytes, apis.context.settings.api.fetch_max_bytes)
        if not fetcher.is_follower:
            quotas, client = apis.context.quotas, (session.origin.principal, request.client_id)
            max_bytes = int(min(max_bytes, quotas.max_burst(CONSUMER_BYTE_RATE, *client)))
        self._max_bytes = max(0, max_bytes)
        self._min_bytes = min(message.min_bytes, self._max_bytes)
        self._results: dict[PartitionKey, ReadPartition] = {}
        self._keys: dict[PartitionId, PartitionKey] = {}
        """The key of each partition; complete once the fetch is delayed."""
        self._unread: dict[PartitionKey, None] = {}
        """Partitions to read before the response to a delayed fetch. The others have not changed since they were
        read, so the session omits them."""
        self._size = 0
        self._must_be_sent = False
        self._log_sizes: list[tuple[PartitionId, int]] = []
        """Sizes of the logs when the fetch was delayed, if it waits for more than one batch."""
        self._counted_bytes = 0

    def begin(self) -> None:
        """Respond, or delay the fetch."""
        message = self._request.message
        self._read(self._unread_partitions(), is_delayed=False)
        if message.max_wait_ms <= 0 or not self._fetch.partitions or self._is_complete:
            self._respond()
            return
        context = self._apis.context
        for key in self._results:
            id = context.partition_id(_topic(key), key[1])
            if id is not None:
                self._keys[id] = key
        if self._min_bytes > 1:
            hosted = [context.partitions.hosted(each) for each in self._keys]
            self._log_sizes = [(each.id, each.log.size_bytes) for each in hosted if each is not None]
        self._unread = dict.fromkeys(self._fetch.delay(self._results))
        self._results = {}
        # As in Kafka, later requests of the connection wait, so that a connection has at most one delayed fetch.
        self._session.block(self._request, self._release)
        self._apis.purgatory.watch(self, self._keys, message.max_wait_ms)

    def _unread_partitions(self) -> Iterable[PartitionKey]:
        """The partitions to read; for a follower, without partitions that have not changed since its last fetch."""
        fetcher, context = self._fetcher, self._apis.context
        if not self._apis.is_registered(fetcher) or self._denied:
            return self._fetch.partitions
        now_ms, keys, hosted_by_id = context.clock.now_ms(), self._keys, context.partitions.hosted_by_id
        replica_id, broker_epoch = fetcher.replica_id, fetcher.broker_epoch

        def is_unchanged(key: PartitionKey, requested: FetchPartition, end: int, start: int) -> bool:
            # A hot path: called for every idle partition in every fetch of a follower.
            hosted = hosted_by_id.get(key)  # type: ignore[call-overload]  # a PartitionId equals its key
            if hosted is None or end > requested.high_watermark:
                return False
            keys[hosted.id] = key
            return count_repeated(
                hosted.replica,
                replica_id,
                broker_epoch,
                requested.current_leader_epoch,
                requested.fetch_offset,
                requested.log_start_offset,
                end,
                start,
                now_ms,
            )

        return self._fetch.unread(is_unchanged)

    def _read(self, keys: Iterable[PartitionKey], *, is_delayed: bool) -> None:
        remaining = min(self._max_bytes, self._apis.memory.remaining)
        self._size, self._must_be_sent = 0, False
        for key in keys:
            requested = self._fetch.partitions[key]
            if key in self._denied:
                self._results[key] = failed_partition(requested, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                self._must_be_sent = True
                continue
            result = self._apis.reader.read(
                self._fetcher,
                _topic(key),
                requested,
                min(requested.partition_max_bytes, remaining),
                at_least_one=self._size == 0,
                is_delayed=is_delayed,
            )
            size = len(result.records or b"")
            self._size += size
            remaining = max(0, remaining - size)
            self._must_be_sent |= result.must_be_sent
            if self._fetcher.is_follower and requested.high_watermark < result.high_watermark:
                self._must_be_sent = True
            self._results[key] = result

    @property
    def _is_complete(self) -> bool:
        return self._must_be_sent or self._size >= self._min_bytes

    def mark_changed(self, partition: PartitionId) -> None:
        """See `DelayedFetch`."""
        self._unread[self._keys[partition]] = None

    def may_be_complete(self) -> bool:
        """See `DelayedFetch`. The growth of the logs is an upper bound of the bytes that can be read."""
        grown = self._size
        partitions = self._apis.context.partitions
        for id, size in self._log_sizes:
            hosted = partitions.hosted(id)
            if hosted is None or hosted.log.size_bytes < size:
                return True  # The log was removed, or segments were deleted, so its growth is not a bound.
            grown += hosted.log.size_bytes - size
        return not self._log_sizes or grown >= self._min_bytes

    def complete(self, *, is_forced: bool) -> bool:
        """See `DelayedFetch`."""
        first_size = self._size
        self._read(self._unread, is_delayed=True)
        if is_forced or self._is_complete:
            self._respond()
            return True
        self._results, self._size = {}, first_size
        return False

    def _respond(self) -> None:
        """Send what was read."""
        context, version = self._apis.context, self._request.api_version
        throttle_ms = 0
        if self._size and not self._fetcher.is_follower:
            throttle_ms, is_withheld = self._use_quota()
            if is_withheld:
                self._withhold(throttle_ms)
                return
        if self._size > LARGE_RESPONSE_BYTES:
            self._counted_bytes = sum(_held_bytes(each) for each in self._results.values())
            self._apis.memory.used += self._counted_bytes
            self._session.block(self._request, self._release)
        error, session_id, results = self._fetch.respond(self._results, context.clock.now_ms())
        response = FetchResponse(throttle_ms, int(error), session_id)
        by_id = version >= TOPIC_IDS_SINCE
        response.responses = _by_topic(results, by_id)
        for key, result in results.items():
            if result.error_code == ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_SINCE:
                result.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if result.error_code in _NAMES_LEADER and version >= LEADERS_SINCE:
                self._add_leader(response, key, result)
        self._results = {}
        self._session.respond(self._request, response)

    def _use_quota(self) -> tuple[int, bool]:
        """Charge the records to the client's quota. Return the throttle time, and whether to withhold the records.

        Records are always sent if the quota is unused: otherwise a batch larger than the quota would never be sent.
        """
        quotas, now_ms = self._apis.context.quotas, self._apis.context.clock.now_ms()
        client = (self._session.origin.principal, self._request.client_id)
        is_unused = quotas.is_unused(CONSUMER_BYTE_RATE, *client, now_ms)
        throttle_ms = quotas.record(CONSUMER_BYTE_RATE, *client, self._size, now_ms)
        if throttle_ms == 0 or is_unused:
            return throttle_ms, False
        quotas.unrecord(CONSUMER_BYTE_RATE, *client, self._size, now_ms)
        return throttle_ms, True

    def _withhold(self, throttle_ms: int) -> None:
        """Respond without the records; the client fetches them again."""
        self._results = {}
        error, session_id = self._fetch.respond_nothing()
        self._session.respond(self._request, FetchResponse(throttle_ms, int(error), session_id))

    def _add_leader(self, response: FetchResponse, key: PartitionKey, result: ReadPartition) -> None:
        """Name the current leader, so that the consumer finds it without a Metadata request."""
        context = self._apis.context
        leader, epoch = context.current_leader(_topic(key), key[1])
        result.current_leader = LeaderIdAndEpoch(leader, epoch)
        found = context.endpoint(self._session.origin.listener, leader)
        if found is not None and all(each.node_id != leader for each in response.node_endpoints):
            endpoint, rack = found
            response.node_endpoints.append(NodeEndpoint(leader, endpoint.host, endpoint.port, rack))

    def _release(self) -> None:
        """Release the memory of the response: the client has received it, or the connection is closed."""
        self._apis.memory.used -= self._counted_bytes
        self._counted_bytes = 0
        self._apis.purgatory.remove(self)


def _topic(key: PartitionKey) -> KafkaUuid | str:
    return cast("KafkaUuid | str", key[0])


def _held_bytes(result: ReadPartition) -> int:
    return len(result.records) if isinstance(result.records, bytes) else 0


def _by_topic(results: Mapping[PartitionKey, ReadPartition], by_id: bool) -> list[FetchableTopicResponse]:
    """Group results by topic, in their order."""
    topics: list[FetchableTopicResponse] = []
    last: object = None
    for key, result in results.items():
        if not topics or key[0] != last:
            last = key[0]
            topic = FetchableTopicResponse()
            if by_id:
                topic.topic_id = cast("KafkaUuid", last)
            else:
                topic.topic = cast("str", last)
            topics.append(topic)
        topics[-1].partitions.append(result)
    return topics
