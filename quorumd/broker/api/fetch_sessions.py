"""Incremental fetch sessions (KIP-227): requests and responses contain only partitions that changed.

A session remembers the partitions of a fetcher, in the order in which they are served: a partition with records moves
to the end, so that a busy partition does not starve the others. Each request of a session has the next epoch, so that
a lost request or response is detected, and the fetcher begins a new session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Final, Generic, Protocol, TypeVar

from quorumd.errors import ErrorCode

NO_SESSION: Final = 0
"""The session id of a fetch without a session."""
FIRST_EPOCH: Final = 0
"""The epoch of a request for a new session."""
FINAL_EPOCH: Final = -1
"""The epoch of a request without a session, which ends the session that it names."""
MAX_EPOCH: Final = 2**31 - 1
MAX_SESSION_ID: Final = 2**31 - 1
MAX_SESSION_PARTITIONS: Final = 100_000
"""Partitions in all sessions: they take about 50 MB, and any client may request sessions."""
EVICTION_MS: Final = 120_000.0
"""The time after which an unused session can be evicted, and the age from which a new session of higher priority can
evict another."""

PartitionKey = tuple[object, int]
"""(topic id or name, partition number)"""
Q = TypeVar("Q")
"""A partition in a request."""


class PartitionResult(Protocol):
    """A partition in a response, such as `fetch_response.PartitionData`."""

    error_code: int
    high_watermark: int
    log_start_offset: int
    preferred_read_replica: int

    @property
    def records(self) -> Sized | None:
        """The record batches."""

    @property
    def has_diverged(self) -> bool:
        """Whether the fetcher has to truncate its log."""


R = TypeVar("R", bound=PartitionResult)


class _CachedPartition(Generic[Q]):
    """A partition in a session: its last request, and the offsets of the leader that the fetcher knows."""

    __slots__ = ("high_watermark", "is_served", "log_start_offset", "requested")

    def __init__(self, requested: Q) -> None:
        self.requested = requested
        self.is_served = False
        """Whether `requested` was served before, without an error."""
        self.high_watermark = -1
        self.log_start_offset = -1

    def must_be_sent(self, result: PartitionResult) -> bool:
        return (
            bool(result.records)
            or result.error_code != ErrorCode.NONE
            or result.high_watermark != self.high_watermark
            or result.log_start_offset != self.log_start_offset
            or result.preferred_read_replica >= 0
            or result.has_diverged
        )

    def update_sent(self, result: PartitionResult) -> None:
        # After an error, send the partition again even if the fetcher already knows its offsets.
        self.high_watermark = -1 if result.error_code != ErrorCode.NONE else result.high_watermark
        self.log_start_offset = result.log_start_offset

    def update_read(self, result: PartitionResult) -> None:
        self.is_served = result.error_code == ErrorCode.NONE and not result.has_diverged


class _Session(Generic[Q]):
    __slots__ = ("created_ms", "epoch", "id", "is_follower", "partitions", "used_ms", "uses_topic_ids")

    def __init__(self, session_id: int, is_follower: bool, uses_topic_ids: bool, now_ms: float) -> None:
        self.id = session_id
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.epoch = FIRST_EPOCH + 1
        """The epoch of the next request."""
        self.partitions: dict[PartitionKey, _CachedPartition[Q]] = {}


class SessionFetch(Generic[Q]):
    """One fetch: the partitions to read, in order, and the session to which its response belongs."""

    def __init__(
        self,
        partitions: Mapping[PartitionKey, Q],
        sessions: FetchSessions[Q],
        session: _Session[Q] | None,
        wants_session: bool,
        is_follower: bool,
        uses_topic_ids: bool,
    ) -> None:
        self.partitions = partitions
        self._sessions = sessions
        self._session = session
        self._epoch = session.epoch if session is not None else 0
        self._wants_session = wants_session
        self._is_follower = is_follower
        self._uses_topic_ids = uses_topic_ids

    def unread(self, is_unchanged: Callable[[PartitionKey, Q, int, int], bool]) -> list[PartitionKey]:
        """Return the partitions to read: all without a session, otherwise partitions with a new request or a change.

        `is_unchanged` is called with the key, the request, and the high watermark and log start offset that the
        fetcher knows.
        """
        session = self._session
        if session is None:
            return list(self.partitions)
        return [
            key
            for key, known in session.partitions.items()
            if not known.is_served
            or not is_unchanged(key, known.requested, known.high_watermark, known.log_start_offset)
        ]

    def delay(self, results: Mapping[PartitionKey, PartitionResult]) -> list[PartitionKey]:
        """Record what was read before a delay, and return the partitions to read again afterwards."""
        if self._session is not None:
            for key, result in results.items():
                known = self._session.partitions.get(key)
                if known is not None:
                    known.update_read(result)
        return self.changed(results)

    def changed(self, results: Mapping[PartitionKey, PartitionResult]) -> list[PartitionKey]:
        """Return the partitions that the response has to contain; without a session, all of them."""
        session = self._session
        if session is None:
            return list(results)
        known = session.partitions
        return [key for key, result in results.items() if key in known and known[key].must_be_sent(result)]

    def respond(
        self, results: Mapping[PartitionKey, R], now_ms: float
    ) -> tuple[ErrorCode, int, Mapping[PartitionKey, R]]:
        """Return the top-level error, the session id and the results to send. Called when the fetch is complete.

        `results` may omit partitions that `changed` did not return.
        """
        session = self._session
        if session is None:
            if not self._wants_session:
                return ErrorCode.NONE, NO_SESSION, results
            created = self._sessions.create(self._is_follower, self._uses_topic_ids, len(results), now_ms)
            if created is None:
                return ErrorCode.NONE, NO_SESSION, results
            for key, result in results.items():
                sent = created.partitions[key] = _CachedPartition(self.partitions[key])
                sent.update_sent(result)
                sent.update_read(result)
            return ErrorCode.NONE, created.id, results
        if session.epoch != self._epoch:
            # A later request of the session was handled first.
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, {}
        changed = {key: results[key] for key in self.delay(results)}
        for key, result in changed.items():
            session.partitions[key].update_sent(result)
            if result.records:
                session.partitions[key] = session.partitions.pop(key)
        return ErrorCode.NONE, session.id, changed

    def respond_nothing(self) -> tuple[ErrorCode, int]:
        """Return the top-level error and the session id of a response without results; nothing counts as sent.

        No new session is created; the client requests it again.
        """
        session = self._session
        if session is None:
            return ErrorCode.NONE, NO_SESSION
        if session.epoch != self._epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id
        return ErrorCode.NONE, session.id


class FetchSessions(Generic[Q]):
    """The fetch sessions of a broker; `randrange` is a method of `Entropy`.

    When all slots are taken, or all sessions have `max_partitions`, a new session evicts unused sessions or sessions
    of lower priority: followers have priority over consumers, and larger sessions over smaller ones.
    """

    def __init__(
        self, randrange: Callable[[int], int], slots: int, max_partitions: int = MAX_SESSION_PARTITIONS
    ) -> None:
        self.evictions = 0
        """The number of evicted sessions."""
        self._randrange = randrange
        self._slots = slots
        self._max_partitions = max_partitions
        self._sessions: dict[int, _Session[Q]] = {}
        """Session id -> session, least recently used first."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def begin(
        self,
        session_id: int,
        epoch: int,
        requested: Mapping[PartitionKey, Q],
        forgotten: Iterable[PartitionKey],
        now_ms: float,
        *,
        is_follower: bool,
        uses_topic_ids: bool,
        max_size: int = MAX_SESSION_PARTITIONS,
    ) -> SessionFetch[Q] | ErrorCode:
        """Begin a fetch. Returns a top-level error if the request does not continue its session, or if the session
        has more than `max_size` partitions, which ends it."""
        if epoch in (FIRST_EPOCH, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            return SessionFetch(requested, self, None, epoch == FIRST_EPOCH, is_follower, uses_topic_ids)
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        previous_size = len(session.partitions)
        for key, partition in requested.items():
            known = session.partitions.get(key)
            if known is None:
                session.partitions[key] = _CachedPartition(partition)
            else:
                known.requested = partition
                known.is_served = False
        for key in forgotten:
            session.partitions.pop(key, None)
        del self._sessions[session_id]
        if not session.partitions:
            return SessionFetch(requested, self, None, False, is_follower, uses_topic_ids)
        size = len(session.partitions)
        has_grown = size > previous_size
        if (requested and size > max_size) or (has_grown and not self._has_room(size)):
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._sessions[session_id] = session
        session.used_ms = now_ms
        session.epoch = epoch + 1 if epoch < MAX_EPOCH else FIRST_EPOCH + 1
        partitions = {key: sent.requested for key, sent in session.partitions.items()}
        return SessionFetch(partitions, self, session, False, is_follower, uses_topic_ids)

    def create(self, is_follower: bool, uses_topic_ids: bool, size: int, now_ms: float) -> _Session[Q] | None:
        """Create a session for `size` partitions; None if there is no room for it."""
        while not self._has_room(size):
            if size > self._max_partitions or not self._evict(is_follower, size, now_ms):
                return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = 1 + self._randrange(MAX_SESSION_ID)
        session = self._sessions[session_id] = _Session[Q](session_id, is_follower, uses_topic_ids, now_ms)
        return session

    def _has_room(self, size: int) -> bool:
        """Whether there is room for one more session with `size` partitions."""
        return len(self._sessions) < self._slots and self.partitions + size <= self._max_partitions

    def _evict(self, is_follower: bool, size: int, now_ms: float) -> bool:
        least_recently_used = next(iter(self._sessions.values()), None)
        if least_recently_used is None:
            return False
        victim: _Session[Q] | None = least_recently_used
        if now_ms - least_recently_used.used_ms <= EVICTION_MS:
            victim = min(
                (each for each in self._sessions.values() if _may_be_evicted(each, is_follower, now_ms)),
                key=_priority,
                default=None,
            )
            if victim is None or (is_follower, size) <= _priority(victim)[:2]:
                return False
        assert victim is not None
        del self._sessions[victim.id]
        self.evictions += 1
        return True


def _priority(session: _Session[Q]) -> tuple[bool, int, int]:
    return session.is_follower, len(session.partitions), session.id


def _may_be_evicted(session: _Session[Q], to_follower: bool, now_ms: float) -> bool:
    """Whether the session may be evicted although it is in use."""
    is_old = now_ms - session.created_ms > EVICTION_MS
    return is_old or (to_follower and not session.is_follower)
