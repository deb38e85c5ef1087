"""The metadata log on a model broker, which fetches it as an observer and applies it up to the high watermark."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, METADATA_TOPIC_ID
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages import (
    fetch_request,
    fetch_response,
    fetch_snapshot_request,
    fetch_snapshot_response,
)
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values
from quorumd.protocol.wire import Message

FETCH_VERSION = 17
FETCH_SNAPSHOT_VERSION = 0
FETCH_BYTES = 1 << 20


class MetadataBatch(NamedTuple):
    """One batch of the metadata log."""

    base_offset: int
    end_offset: int
    epoch: int
    is_control: bool
    data: bytes


class Applied(Protocol):
    """The callback for batches applied to a broker's image."""

    def __call__(self, batch: MetadataBatch) -> None: ...


class Leader(NamedTuple):
    """The leader of the quorum, as known to an observer."""

    node_id: int
    epoch: int
    address: tuple[str, int]


class Snapshot:
    """A snapshot being fetched."""

    __slots__ = ("data", "end_offset", "epoch")

    def __init__(self, end_offset: int, epoch: int) -> None:
        self.end_offset = end_offset
        self.epoch = epoch
        self.data = bytearray()


class MetadataObserver:
    """Fetches the metadata log and its snapshots, without connections of its own."""

    def __init__(self, replica_id: int, applied: Applied) -> None:
        self.image = ClusterImage()
        """The committed state up to `end_offset`."""
        self.end_offset = 0
        self.high_watermark = -1
        self.leader: Leader | None = None
        self._replica_id = replica_id
        self._applied = applied
        self._epoch = 0
        self._applied_epoch = 0
        self._unapplied: deque[MetadataBatch] = deque()
        self._snapshot: Snapshot | None = None
        self._changed: dict[PartitionId, None] | None = {}

    @property
    def has_caught_up(self) -> bool:
        """Whether the image includes all records that were committed according to the last response."""
        return 0 <= self.high_watermark <= self.end_offset

    def take_changed(self) -> Iterable[PartitionId] | None:
        """Return the partitions changed since the last call; None if all may have changed."""
        changed, self._changed = self._changed, {}
        return changed

    def request(self, longest_wait_ms: float) -> tuple[Message, int]:
        """Return the next request and its version."""
        if self._snapshot is not None:
            return self._snapshot_request(self._snapshot), FETCH_SNAPSHOT_VERSION
        wire = fetch_request
        last = self._unapplied[-1] if self._unapplied else None
        partition = wire.FetchPartition(
            METADATA_PARTITION,
            self._epoch,
            last.end_offset if last is not None else self.end_offset,
            last.epoch if last is not None else self._applied_epoch,
            0,
        )
        request = wire.FetchRequest(
            replica_state=wire.ReplicaState(self._replica_id, -1),
            max_wait_ms=int(longest_wait_ms),
            max_bytes=FETCH_BYTES,
            topics=[wire.FetchTopic("", METADATA_TOPIC_ID, [partition])],
        )
        return request, FETCH_VERSION

    def handle_response(self, message: Message) -> bool:
        """Handle a response; return False if another node should be tried."""
        if isinstance(message, fetch_snapshot_response.FetchSnapshotResponse):
            return self._snapshot_received(message)
        assert isinstance(message, fetch_response.FetchResponse)
        if message.error_code or not message.responses:
            return False
        ((partition,),) = [topic.partitions for topic in message.responses]
        current = partition.current_leader
        if current is not None and current.leader_epoch >= self._epoch:
            self._epoch = current.leader_epoch
            found = {node.node_id: (node.host, node.port) for node in message.node_endpoints}
            address = found.get(current.leader_id)
            self.leader = Leader(current.leader_id, current.leader_epoch, address) if address else None
        if partition.error_code != ErrorCode.NONE:
            return False
        if partition.snapshot_id is not None and partition.snapshot_id.end_offset >= 0:
            self._snapshot = Snapshot(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        elif partition.diverging_epoch is not None and partition.diverging_epoch.end_offset >= 0:
            self._truncate(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset)
        else:
            self._append(partition.records or b"", partition.high_watermark)
        return True

    def _append(self, data: bytes, high_watermark: int) -> None:
        for header in headers(data):
            batch = data[header.position : header.position + header.size]
            self._unapplied.append(
                MetadataBatch(header.base_offset, header.end_offset, header.epoch, header.is_control, batch)
            )
        self.high_watermark = max(self.high_watermark, high_watermark)
        while self._unapplied and self._unapplied[0].end_offset <= self.high_watermark:
            self._apply(self._unapplied.popleft())

    def _truncate(self, epoch: int, end_offset: int) -> None:
        while self._unapplied and (
            self._unapplied[-1].epoch > epoch or self._unapplied[-1].end_offset > end_offset
        ):
            self._unapplied.pop()

    def _apply(self, batch: MetadataBatch) -> None:
        self._applied(batch)
        if not batch.is_control:
            for header in headers(batch.data):
                for value in values(batch.data, header):
                    record = decode_record(value)
                    self.image.apply(record, [])
                    self._note_change(record)
        self.end_offset = batch.end_offset
        self._applied_epoch = batch.epoch

    def _note_change(self, record: Message) -> None:
        if self._changed is None:
            return
        if isinstance(record, PartitionRecord | PartitionChangeRecord):
            self._changed[PartitionId(record.topic_id, record.partition_id)] = None
        elif type(record).__name__ in ANY_PARTITION:
            self._changed = None

    # Snapshots

    def _snapshot_request(self, snapshot: Snapshot) -> fetch_snapshot_request.FetchSnapshotRequest:
        wire = fetch_snapshot_request
        wanted = wire.PartitionSnapshot(
            METADATA_PARTITION,
            self._epoch,
            wire.SnapshotId(snapshot.end_offset, snapshot.epoch),
            len(snapshot.data),
        )
        return wire.FetchSnapshotRequest(
            replica_id=self._replica_id,
            max_bytes=FETCH_BYTES,
            topics=[wire.TopicSnapshot(METADATA_TOPIC, [wanted])],
        )

    def _snapshot_received(self, message: fetch_snapshot_response.FetchSnapshotResponse) -> bool:
        snapshot = self._snapshot
        if snapshot is None or message.error_code or not message.topics:
            self._snapshot = None
            return False
        ((part,),) = [topic.partitions for topic in message.topics]
        if part.error_code or part.position != len(snapshot.data):
            self._snapshot = None
            return False
        snapshot.data += part.unaligned_records
        if len(snapshot.data) >= part.size:
            self._load(snapshot)
        return True

    def _load(self, snapshot: Snapshot) -> None:
        self._snapshot = None
        image = ClusterImage()
        data = bytes(snapshot.data)
        for header in headers(data):
            if not header.is_control:
                for value in values(data, header):
                    image.apply(decode_record(value), [])
        self.image = image
        self.end_offset, self._applied_epoch = snapshot.end_offset, snapshot.epoch
        self.high_watermark = max(self.high_watermark, snapshot.end_offset)
        self._unapplied.clear()
        self._changed = None


ANY_PARTITION = frozenset({"RemoveTopicRecord", "ClearElrRecord", "ConfigRecord"})
"""Records that may concern any replica."""
