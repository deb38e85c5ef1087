"""Fetches from one leader, one request at a time for all its partitions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from quorumd.broker.channels.broker_client import BrokerClient
from quorumd.broker.channels.controller_channel import NoResponse
from quorumd.broker.fetching.leader_offsets import LeaderOffsets, look_up_offsets
from quorumd.broker.fetching.leader_session import LeaderSession
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.replication.replica import FetchResult
from quorumd.broker.replication.replica_fetch import FetchedPartition, ReplicaFetch
from quorumd.broker.settings.broker_settings import ReplicaFetchSettings
from quorumd.controller.partition import PartitionId
from quorumd.errors import CorruptLog, ErrorCode, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.ports import Clock, Timer
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.fetch_request import FetchRequest
from quorumd.protocol.messages.fetch_response import FetchResponse, PartitionData
from quorumd.protocol.wire import Message

logger = logging.getLogger("quorumd.broker")

FIRST_BACKOFF_MS: Final = 50.0
LOGGED_FAILURES: Final = 4
"""Consecutive errors of a partition are logged at info level from this number on."""
NO_DIVERGENCE: Final = -1


class FetcherContext(Protocol):
    """The broker of a fetcher."""

    def broker_epoch(self) -> int:
        """Return the epoch of this broker."""

    def fetched(self, hosted: HostedPartition) -> None:
        """Handle the growth of a follower's log."""

    def truncated(self, hosted: HostedPartition, done: Callable[[], None]) -> None:
        """Handle the truncation of a follower's log: call `done` once its recovery point is saved."""

    def log_failed(self, hosted: HostedPartition, fault: BaseException) -> None:
        """Handle an error of a log."""


class _Followed:
    """A partition of a fetcher."""

    __slots__ = ("failures", "hosted", "ready_ms")

    def __init__(self, hosted: HostedPartition) -> None:
        self.hosted = hosted
        self.ready_ms = 0.0
        """The partition is not fetched before this time: infinite during a truncation or an offset lookup."""
        self.failures = 0


class LeaderFetcher:
    """Fetches all partitions that this broker follows from one leader."""

    def __init__(
        self,
        leader_id: int,
        broker_id: int,
        settings: ReplicaFetchSettings,
        clock: Clock,
        client: BrokerClient,
        context: FetcherContext,
    ) -> None:
        self.leader_id = leader_id
        self._settings = settings
        self._clock = clock
        self._client = client
        self._context = context
        self._broker_id = broker_id
        self._session = LeaderSession(broker_id, settings)
        self._partitions: dict[PartitionId, _Followed] = {}
        self._changed: dict[PartitionId, None] = {}
        """Partitions whose entry in the next request may differ from the last request."""
        self._is_in_flight = False
        self._is_stopped = False
        self._failures = 0
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, hosted: HostedPartition) -> None:
        """Fetch a partition from its log end offset on."""
        self._partitions[hosted.id] = _Followed(hosted)
        self._changed[hosted.id] = None
        self._schedule(0.0)

    def remove(self, id: PartitionId) -> None:
        """Stop fetching a partition."""
        if self._partitions.pop(id, None) is not None:
            self._changed[id] = None

    def stop(self) -> None:
        """Stop fetching."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, delay_ms: float) -> None:
        """Schedule the next request, unless one is in flight or scheduled; a delay of 0 replaces a later time."""
        if self._is_in_flight or self._is_stopped:
            return
        if self._timer is not None:
            if delay_ms > 0.0:
                return
            self._timer.cancel()
        self._timer = self._clock.call_at(self._clock.now_ms() + delay_ms, self._fetch)

    # Requests

    def _fetch(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        epoch = self._context.broker_epoch()
        session = self._session
        partitions: dict[PartitionId, ReplicaFetch] = {}
        forgotten: list[PartitionId] = []
        is_full = session.is_full
        for each in list(self._partitions if is_full else self._changed):
            followed = self._partitions.get(each)
            if followed is not None and followed.ready_ms <= now_ms:
                fetch = followed.hosted.replica.next_fetch(epoch)
                if is_full or fetch != session.requested.get(each):
                    partitions[each] = fetch
            elif each in session.requested:
                forgotten.append(each)
        if is_full:
            forgotten = []
            session.begin_full(partitions)
        else:
            session.update(partitions, forgotten)
        self._changed.clear()
        if not session.requested and not forgotten:
            return

        def build(version: int) -> FetchRequest:
            return session.request(partitions, forgotten, epoch, version)

        self._is_in_flight = True
        settings = self._settings
        self._client.send(
            self.leader_id,
            ApiKey.FETCH,
            build,
            self._handle_response,
            self._handle_failure,
            settings.timeout_ms + settings.wait_max_ms,
        )

    def _handle_failure(self, failure: NoResponse) -> None:
        self._is_in_flight = False
        if self._failures == 0:
            logger.info("fetching from broker %d failed: %s", self.leader_id, failure.reason)
        self._session.reset()
        self._failures += 1
        self._schedule(self._backoff_ms(self._failures))

    def _backoff_ms(self, failures: int) -> float:
        return min(FIRST_BACKOFF_MS * 2.0 ** min(failures - 1, 16), self._settings.backoff_ms)

    # Responses

    def _handle_response(self, response: Message) -> None:
        assert isinstance(response, FetchResponse)
        self._is_in_flight = False
        if self._is_stopped:
            return
        if response.error_code != ErrorCode.NONE:
            logger.info("fetch from broker %d: %s", self.leader_id, ErrorCode.describe(response.error_code))
            self._session.handle_error(response.error_code)
            self._failures += 1
            self._schedule(self._backoff_ms(self._failures))
            return
        self._failures = 0
        self._session.handle_response(response.session_id)
        for topic in response.responses:
            for data in topic.partitions:
                each = PartitionId(topic.topic_id, data.partition_index)
                followed, fetch = self._partitions.get(each), self._session.requested.get(each)
                if followed is not None and fetch is not None and followed.hosted.is_open:
                    self._changed[each] = None
                    self._handle_partition(followed, fetch, data)
        self._schedule(0.0)

    def _handle_partition(self, followed: _Followed, fetch: ReplicaFetch, data: PartitionData) -> None:
        hosted = followed.hosted
        fetched = _fetched(data)
        try:
            result = hosted.replica.handle_fetched(fetch, fetched, self._clock.now_ms())
        except (StorageError, ValueError) as fault:
            is_from_leader = fetched.diverging is None and isinstance(fault, (CorruptLog, ValueError))
            if is_from_leader:
                logger.error("%s: broker %d sent an invalid response: %s", hosted.name, self.leader_id, fault)
            else:
                self._context.log_failed(hosted, fault)
            self._back_off(followed)
            return
        if result is FetchResult.FAILED:
            self._back_off(followed)
            # While leadership moves, the two brokers briefly have different metadata.
            level = logging.INFO if followed.failures >= LOGGED_FAILURES else logging.DEBUG
            logger.log(
                level, "fetch of %s from broker %d: %s", hosted.name, self.leader_id, fetched.error.name
            )
        elif result is FetchResult.OUT_OF_RANGE:
            self._look_up(followed, fetch)
        elif result is FetchResult.TRUNCATED:
            self._hold_for_checkpoint(followed)
        else:
            followed.failures = 0
            if fetched.records:
                self._context.fetched(hosted)

    def _back_off(self, followed: _Followed) -> None:
        followed.failures += 1
        self._delay(followed, self._backoff_ms(followed.failures))

    def _delay(self, followed: _Followed, delay_ms: float) -> None:
        followed.ready_ms = self._clock.now_ms() + delay_ms
        self._clock.call_at(followed.ready_ms, lambda: self._make_ready(followed))

    def _make_ready(self, followed: _Followed) -> None:
        if self._partitions.get(followed.hosted.id) is followed and not self._is_stopped:
            followed.ready_ms = 0.0
            self._changed[followed.hosted.id] = None
            self._schedule(0.0)

    def _hold_for_checkpoint(self, followed: _Followed) -> None:
        """Fetch again once the checkpoint of the truncated log is saved."""
        followed.ready_ms = float("inf")
        self._context.truncated(followed.hosted, lambda: self._make_ready(followed))

    # Offsets out of range

    def _look_up(self, followed: _Followed, fetch: ReplicaFetch) -> None:
        """Look up the start and end of the leader's log, and adjust the follower's log."""
        followed.ready_ms = float("inf")
        hosted = followed.hosted

        def found(offsets: LeaderOffsets) -> None:
            if self._partitions.get(hosted.id) is not followed or not hosted.is_open:
                return
            try:
                hosted.replica.handle_leader_offsets(fetch, offsets.start, offsets.end)
            except StorageError as fault:
                self._context.log_failed(hosted, fault)
                self._back_off(followed)
                return
            logger.info(
                "%s: the leader's log has offsets %d to %d, continuing at %d",
                hosted.name, offsets.start, offsets.end, hosted.log.end_offset,
            )  # fmt: skip
            self._hold_for_checkpoint(followed)

        def failed(reason: str) -> None:
            logger.info("%s: broker %d did not return its offsets: %s", hosted.name, self.leader_id, reason)
            self._back_off(followed)

        look_up_offsets(
            self._client, self.leader_id, self._broker_id, hosted, self._settings.timeout_ms, found, failed
        )


def _fetched(data: PartitionData) -> FetchedPartition:
    try:
        error = ErrorCode(data.error_code)
    except ValueError:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    diverging = None
    if data.diverging_epoch.epoch != NO_DIVERGENCE:
        diverging = OffsetAndEpoch(data.diverging_epoch.end_offset, data.diverging_epoch.epoch)
    return FetchedPartition(error, data.high_watermark, data.log_start_offset, data.records or b"", diverging)
