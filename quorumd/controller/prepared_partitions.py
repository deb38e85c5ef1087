"""Partitions prepared before they are added to the image: ten thousand of one topic take a quarter of a second.

They are prepared in slices, outside of the image and invisible to its readers. The image then adds all of them in one
step, and their records are in one batch, after that of the topic if it is new.
"""

from __future__ import annotations

from quorumd.controller.image_hash import partition_row, replace_row
from quorumd.controller.intern_pool import InternPool
from quorumd.controller.partition import Partition, PartitionId, partition_from_record
from quorumd.controller.partition_index import PartitionIndex
from quorumd.controller.record_versions import encode_for_version
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.partition_record import PartitionRecord


class PreparedPartitions:
    """New partitions of one topic. `frames`: their records, encoded for readers at a metadata version; `rows`: their
    contribution to the hash of the image; `index`: the index of only these partitions."""

    __slots__ = ("_metadata_version", "_shared", "frames", "index", "partitions", "rows", "topic_id")

    def __init__(self, topic_id: KafkaUuid, metadata_version: int, shared: InternPool) -> None:
        self.topic_id = topic_id
        self.partitions: dict[int, Partition] = {}
        self.index = PartitionIndex()
        self.rows = 0
        self.frames: list[bytes] = []
        self._metadata_version = metadata_version
        self._shared = shared

    def add(self, record: PartitionRecord) -> None:
        """Add the next partition of the topic; its number must be new."""
        self.frames.append(encode_for_version(record, self._metadata_version))
        partition = partition_from_record(record, self._shared)
        where = PartitionId(self.topic_id, record.partition_id)
        self.partitions[where.number] = partition
        self.index.load(where, partition)
        partition.id, partition.row = where, partition_row(where, partition)
        self.rows = replace_row(self.rows, 0, partition.row)
