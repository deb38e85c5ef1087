"""A consumer that reads partitions from their start, on leaders or on replicas in its rack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.protocol.batch_scan import Ascending, scan
from quorumd.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from quorumd.protocol.messages.fetch_response import FetchResponse, PartitionData
from quorumd.simulator.brokers.data_log import Record
from quorumd.simulator.brokers.nodes.clients import BACKOFF_MS, BrokerClient, KnownPartition, topics_of
from quorumd.simulator.brokers.nodes.observed import GAP, BatchCache
from quorumd.simulator.brokers.nodes.record import Recorder
from quorumd.simulator.brokers.options import BrokerOptions

VERSIONS: Final = (13, 16, 17, 18)
MAX_BYTES: Final = 4000
UNBOUNDED: Final = 2**31 - 1
"""The `max_bytes` of a consumer that reads partitions to their end."""
PARTITIONS_AT_ONCE: Final = 4
"""The number of partitions that fill a response."""
READ_COMMITTED: Final = 1
NO_SESSION: Final = -1


class Consumer:
    """Fetches from one broker after another, one request at a time, until `running` is False."""

    def __init__(
        self,
        client: BrokerClient,
        options: BrokerOptions,
        recorder: Recorder,
        cache: BatchCache,
        isolation_level: int,
        rack: str,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.client = client
        self.running = True
        self.positions: dict[PartitionId, int] = {}
        self._options = options
        self._recorder = recorder
        self._cache = cache
        self._isolation_level = isolation_level
        self._rack = rack
        self._max_bytes = max_bytes
        self._preferred: dict[PartitionId, int] = {}
        """The preferred read replicas that leaders have named."""

    def start(self) -> None:
        """Fetch after a random pause."""
        if self.running:
            self.client.later(self.client.random.random() * 2 * self._options.write_ms, self._next)

    def _next(self) -> None:
        by_broker: dict[int, list[KnownPartition]] = {}
        for each in self.client.led_partitions():
            by_broker.setdefault(self._preferred.get(each.id, each.leader), []).append(each)
        if not by_broker or self.client.random.random() < 0.05:
            self.client.refresh(self.start)
            return
        broker_id = self.client.random.choice(list(by_broker))
        self._fetch(broker_id, by_broker[broker_id])

    def _fetch(self, broker_id: int, partitions: Sequence[KnownPartition]) -> None:
        version = self.client.random.choice(VERSIONS)
        topics = []
        for topic_id, ids in topics_of({each.id: each for each in partitions}).items():
            parts = [
                FetchPartition(
                    id.number,
                    self.client.partitions[id].leader_epoch,
                    self.positions.get(id, 0),
                    partition_max_bytes=self._max_bytes // PARTITIONS_AT_ONCE,
                )
                for id in ids
            ]
            topics.append(FetchTopic("", topic_id, parts))
        wait_ms = self.client.random.choice((0, 50, int(self._options.fetch_wait_ms)))
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation_level,
            session_id=0,
            session_epoch=NO_SESSION,
            topics=topics,
            rack_id=self._rack,
        )

        def responded(response: Any) -> None:
            if not isinstance(response, FetchResponse) or response.error_code:
                for each in partitions:
                    self._preferred.pop(each.id, None)
                self.client.refresh(self.start)
            else:
                self._fetched(response)

        self.client.call(broker_id, request, version, responded, wait_ms + 1000.0, "fetch")

    def _fetched(self, response: FetchResponse) -> None:
        has_failed = False
        for topic in response.responses:
            for part in topic.partitions:
                where = PartitionId(topic.topic_id, part.partition_index)
                if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._reset(where, part)
                elif part.error_code:
                    has_failed = True
                    self._preferred.pop(where, None)
                else:
                    self._read(where, part)
        if has_failed:
            self.client.refresh(lambda: self.client.later(BACKOFF_MS, self.start))
        else:
            self.start()

    def _reset(self, where: PartitionId, part: PartitionData) -> None:
        # This happens only after records were deleted, or lost in an unclean election.
        self._preferred.pop(where, None)
        self.positions.pop(where, None)

    def _read(self, where: PartitionId, part: PartitionData) -> None:
        if part.preferred_read_replica >= 0:
            self._preferred[where] = part.preferred_read_replica
            return
        data = part.records or b""
        offset = self.positions.get(where, 0)
        records: list[Record] = []
        visible: list[int] = []
        aborted = sorted((each.first_offset, each.producer_id) for each in part.aborted_transactions or ())
        open_aborted: set[int] = set()
        for batch in scan(data, Ascending()).headers:
            while aborted and aborted[0][0] < batch.end_offset:
                open_aborted.add(aborted.pop(0)[1])
            decoded = self._cache.records(data, batch)
            start = max(0, offset + len(records) - batch.base_offset)
            records += [GAP] * max(0, batch.base_offset - offset - len(records))
            records += decoded[start:]
            if batch.is_control:
                open_aborted.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in open_aborted):
                visible += [record.value for record in decoded[start:] if record is not GAP]
        if records:
            self._recorder.consumed(where, offset, records)
            if self._isolation_level == READ_COMMITTED:
                self._recorder.read_committed(where, visible)
            self.positions[where] = offset + len(records)
