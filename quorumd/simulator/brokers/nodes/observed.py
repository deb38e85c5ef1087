"""The replicas of a running broker, as the checkers of brokers read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b

from quorumd.broker.broker import Broker
from quorumd.broker.log.clean_shutdown import previous_broker_epoch
from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log.records import decompressed, record_spans
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.replication.isr_proposal import IsrProposal
from quorumd.controller.partition import PartitionId
from quorumd.ids import KafkaUuid
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.batch_scan import Ascending, scan
from quorumd.simulator.brokers.data_log import Record
from quorumd.simulator.brokers.nodes.producer_model import ProducerModel

READ_BYTES = 1 << 20
VALUE_BYTES = 8
"""A producer's value begins with its number, which is unique."""
GAP = Record(-1, -1)
"""An offset that compaction has removed, or that is below the log start."""


def encode_value(number: int, padding: int = 0) -> bytes:
    """Return the value of a produced record."""
    return number.to_bytes(VALUE_BYTES, "big") + bytes(padding)


def decoded(data: bytes, batch: BatchHeader) -> list[Record]:
    """Return the records of a batch that is complete in `data`, one per offset."""
    records = [GAP] * (batch.end_offset - batch.base_offset)
    payload = decompressed(data, batch)
    assert payload is not None
    for span in record_spans(payload, batch.count):
        value = payload[span.value_start : span.value_end] if span.value_start >= 0 else b""
        if (batch.producer_id < 0 and len(value) < VALUE_BYTES) or batch.is_control or span.key_start >= 0:
            # A marker, or a record of a coordinator.
            identity = blake2b(payload[span.start : span.end], digest_size=7).digest()
            records[span.offset_delta] = Record(batch.epoch, -2 - int.from_bytes(identity, "big"))
        else:
            records[span.offset_delta] = Record(batch.epoch, int.from_bytes(value[:VALUE_BYTES], "big"))
    return records


class BatchCache:
    """Decoded batches, which the replicas of a partition share."""

    def __init__(self) -> None:
        self._decoded: dict[tuple[int, int, int, int], list[Record]] = {}

    def records(self, data: bytes, batch: BatchHeader) -> list[Record]:
        """Return the records of a batch, like `decoded`."""
        key = (batch.base_offset, batch.epoch, batch.crc, batch.size)
        found = self._decoded.get(key)
        if found is None:
            found = self._decoded[key] = decoded(data, batch)
        return found


class NodeLog:
    """A copy of the log of one replica, with the records that retention or compaction removed. Satisfies
    `ObservedLog`."""

    __slots__ = ("_cache", "epochs", "producers", "records")

    def __init__(self, cache: BatchCache) -> None:
        self.records: list[Record] = []
        self.epochs: list[tuple[int, int]] = []
        self.producers = ProducerModel()
        self._cache = cache

    @property
    def end_offset(self) -> int:
        return len(self.records)

    def refresh(self, log: PartitionLog, committed: Sequence[Record]) -> list[Record]:
        """Apply the changes of a log to the copy; return the records that were removed at its end.

        Offsets without a record in the log get the record in `committed`, the committed records of the partition.
        """
        records, end = self.records, log.end_offset
        removed = records[end:]
        if removed:
            del records[end:]
            self.producers.truncate(end)
            while self.epochs and self.epochs[-1][1] >= end:
                self.epochs.pop()
        while len(records) < end:
            self._fill(max(len(records), log.start_offset), committed)
            data = log.read(len(records), READ_BYTES, end) if len(records) < end else b""
            if not data:
                self._fill(end, committed)
            for batch in scan(data, Ascending(with_crc=False)).headers:
                self.add(data, batch, committed)
        return removed

    def add(self, data: bytes, batch: BatchHeader, committed: Sequence[Record]) -> None:
        """Append a batch, which may begin below the current end."""
        end = len(self.records)
        self._fill(batch.base_offset, committed)
        self.producers.add(batch)
        if not self.epochs or batch.epoch != self.epochs[-1][0]:
            self.epochs.append((batch.epoch, batch.base_offset))
        for offset, record in enumerate(self._cache.records(data, batch), batch.base_offset):
            if offset >= end:
                known = committed[offset] if record is GAP and offset < len(committed) else record
                self.records.append(known)

    def _fill(self, end_offset: int, committed: Sequence[Record]) -> None:
        for offset in range(len(self.records), end_offset):
            self.records.append(committed[offset] if offset < len(committed) else GAP)


class NodeReplica:
    """One replica of a running broker."""

    __slots__ = (
        "_broker_id",
        "_moved_at",
        "high_watermark",
        "hosted",
        "leadership",
        "log",
        "metadata",
        "partition",
        "proposal",
        "read_from",
    )

    def __init__(self, hosted: HostedPartition, broker_id: int, cache: BatchCache) -> None:
        self._broker_id = broker_id
        self.hosted = hosted
        self.partition = hosted.id
        self.log = NodeLog(cache)
        self.read_from = hosted.log
        """The log that `log` is a copy of; a move between log directories replaces it."""
        self._moved_at: tuple[int, int] | None = None
        # As of the last observation.
        self.high_watermark = hosted.replica.high_watermark
        self.leadership = hosted.replica.leadership
        self.metadata = hosted.replica.metadata
        self.proposal: IsrProposal | None = None

    @property
    def leader_epoch(self) -> int:
        return self.hosted.replica.leader_epoch

    @property
    def isr(self) -> tuple[int, ...]:
        return self.hosted.replica.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.hosted.replica.maximal_isr

    @property
    def min_isr(self) -> int:
        known = self.hosted.replica.metadata
        return min(self.hosted.min_isr, len(known.target)) if known is not None else self.hosted.min_isr

    @property
    def durable_offset(self) -> int:
        """The end of the records that must survive a power loss. After a move to another directory it is the end that
        `moved` has recorded, until the new log is flushed again and its directory is durable."""
        recovery_point = self.hosted.log.recovery_point
        if self._moved_at is not None and recovery_point <= self._moved_at[1]:
            return self._moved_at[0]
        return recovery_point

    def moved(self, cache: BatchCache, committed: Sequence[Record]) -> NodeLog:
        """Copy the log that has replaced the previous log; return the copy of the previous log."""
        before, log = self.log, self.hosted.log
        flushed = self.read_from.recovery_point
        # If records are acknowledged only once they are flushed, a move must keep all that the previous log had
        # flushed. Otherwise it may lose records that the new log had not flushed.
        is_promised = log.settings.flush_messages == 1
        self._moved_at = flushed if is_promised else min(flushed, log.recovery_point), log.recovery_point
        self.log, self.read_from = NodeLog(cache), log
        self.log.refresh(log, committed)
        return before

    def truncated(self) -> None:
        """Record that the log was truncated. The records that were flushed before a move no longer count."""
        self._moved_at = None

    def has_changed(self) -> bool:
        """Whether anything differs from the last observation."""
        replica = self.hosted.replica
        leadership = replica.leadership
        return (
            replica.log is not self.read_from
            or replica.log.end_offset != len(self.log.records)
            or replica.high_watermark != self.high_watermark
            or leadership is not self.leadership
            or replica.metadata is not self.metadata
            or (leadership is not None and leadership.proposal is not self.proposal)
        )


class Advance:
    """The state of a replica when it became leader or its high watermark advanced. Satisfies `ObservedReplica`."""

    __slots__ = (
        "high_watermark",
        "isr",
        "leader_epoch",
        "leadership",
        "log",
        "maximal_isr",
        "metadata",
        "min_isr",
        "partition",
    )

    def __init__(self, replica: NodeReplica) -> None:
        hosted = replica.hosted
        self.partition, self.log = replica.partition, replica.log
        self.high_watermark = hosted.replica.high_watermark
        self.leadership, self.metadata = hosted.replica.leadership, hosted.replica.metadata
        self.leader_epoch, self.isr = replica.leader_epoch, replica.isr
        self.maximal_isr, self.min_isr = replica.maximal_isr, replica.min_isr


class Fetchers(Mapping[int, object]):
    """The leaders from which a broker fetches."""

    def __init__(self, broker: Broker) -> None:
        self._leaders = broker.fetchers.leaders

    def __getitem__(self, leader_id: int) -> object:
        if leader_id not in self._leaders.values():
            raise KeyError(leader_id)
        return leader_id

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys(self._leaders.values()))

    def __len__(self) -> int:
        return len(set(self._leaders.values()))


class NodeBrokerView:
    """A running broker. Satisfies `ObservedBroker`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.id = broker.settings.broker_id
        self.previous_epoch = previous_broker_epoch([each.clean_epoch for each in broker.directories.online])
        self.replicas: dict[PartitionId, NodeReplica] = {}
        self.fetchers = Fetchers(broker)
        self.awaits_heartbeat = True

    @property
    def incarnation_id(self) -> KafkaUuid:
        return self.broker.incarnation_id

    @property
    def epoch(self) -> int:
        return self.broker.epoch

    @property
    def is_published(self) -> bool:
        return self.broker.partitions.is_serving
