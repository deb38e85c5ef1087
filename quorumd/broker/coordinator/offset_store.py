"""The committed offsets of groups, replayed from the offset records of one partition."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from quorumd.broker.coordinator.records import NO_PRODUCER, CoordinatorRecord, LoadedMarker, LoadedRecord
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from quorumd.protocol.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from quorumd.protocol.messages.offset_commit_key import OffsetCommitKey
from quorumd.protocol.messages.offset_commit_value import OffsetCommitValue

NO_TIMESTAMP: Final = -1
_VALUE_VERSION: Final = 3
"""The version that Kafka writes if the record has neither a topic id nor an expire timestamp."""
_VALUE_VERSION_WITH_EXPIRY: Final = 1


class TopicPartition(NamedTuple):
    """A partition, by topic name."""

    topic: str
    partition: int


class StoredOffset(NamedTuple):
    """A committed offset; `record_offset` is the offset of its record in the log."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: KafkaUuid = ZERO_UUID
    record_offset: int = -1


def offset_record(group: str, target: TopicPartition, stored: StoredOffset) -> CoordinatorRecord:
    """Return the record of a committed offset."""
    value = OffsetCommitValue(
        stored.offset,
        stored.leader_epoch,
        stored.metadata,
        stored.commit_timestamp_ms,
        stored.expire_timestamp_ms,
        ZERO_UUID,
    )
    version = _VALUE_VERSION
    if stored.expire_timestamp_ms != NO_TIMESTAMP:
        version = _VALUE_VERSION_WITH_EXPIRY
        value.leader_epoch = -1
    return CoordinatorRecord(OffsetCommitKey(group, target.topic, target.partition), value, version)


def offset_tombstone(group: str, target: TopicPartition) -> CoordinatorRecord:
    """Return the tombstone of a committed offset."""
    return CoordinatorRecord(OffsetCommitKey(group, target.topic, target.partition))


Offsets = dict[TopicPartition, StoredOffset]


class OffsetStore:
    """Committed offsets by group, and pending offsets of open transactions by producer id and group."""

    def __init__(self) -> None:
        self._committed: dict[str, Offsets] = {}
        self._pending: dict[int, dict[str, Offsets]] = {}

    def groups(self) -> list[str]:
        """Return the groups with committed or pending offsets."""
        return list(dict.fromkeys(chain(self._committed, *self._pending.values())))

    def of_group(self, group: str) -> Offsets:
        """Return the committed offsets of a group; the caller must not modify them."""
        return self._committed.get(group, {})

    def find(self, group: str, target: TopicPartition) -> StoredOffset | None:
        """Return the committed offset of a partition, None if there is none."""
        return self.of_group(group).get(target)

    def is_unstable(self, group: str, target: TopicPartition) -> bool:
        """Whether an open transaction has a pending offset of the partition."""
        return any(target in groups.get(group, {}) for groups in self._pending.values())

    def has_pending(self, group: str) -> bool:
        """Whether an open transaction has pending offsets of the group."""
        return any(group in groups for groups in self._pending.values())

    def pending_groups(self, producer_id: int) -> list[str]:
        """Return the groups with pending offsets in the open transaction of a producer."""
        return sorted(self._pending.get(producer_id, {}))

    def commit(self, group: str, target: TopicPartition, stored: StoredOffset, producer_id: int = -1) -> None:
        """Store an offset; with a producer id, it is pending until the transaction of the producer ends."""
        if producer_id == NO_PRODUCER:
            self._committed.setdefault(group, {})[target] = stored
        else:
            self._pending.setdefault(producer_id, {}).setdefault(group, {})[target] = stored

    def delete(self, group: str, target: TopicPartition) -> None:
        """Delete the committed offset and the pending offsets of a partition."""
        offsets = self._committed.get(group)
        if offsets is not None:
            offsets.pop(target, None)
            if not offsets:
                del self._committed[group]
        for producer_id, groups in list(self._pending.items()):
            pending = groups.get(group)
            if pending is not None and pending.pop(target, None) is not None:
                if not pending:
                    del groups[group]
                if not groups:
                    del self._pending[producer_id]

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a producer."""
        for group, offsets in self._pending.pop(producer_id, {}).items():
            if not is_commit:
                continue
            for target, stored in offsets.items():
                known = self.find(group, target)
                # An offset that was committed outside the transaction may be newer.
                if known is None or known.record_offset <= stored.record_offset:
                    self.commit(group, target, stored)

    # Records

    def replay(self, record: LoadedRecord) -> bool:
        """Apply a record of the log; return False if it is not an offset record."""
        key, value = record.key, record.value
        if not isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            return False
        target = TopicPartition(key.topic, key.partition)
        if value is None:
            self.delete(key.group, target)
        elif isinstance(value, OffsetCommitValue):
            stored = StoredOffset(
                value.offset,
                value.leader_epoch,
                value.metadata,
                value.commit_timestamp,
                value.expire_timestamp,
                value.topic_id,
                record.offset,
            )
            self.commit(key.group, target, stored, record.producer_id)
        elif isinstance(value, LegacyOffsetCommitValue):
            legacy = StoredOffset(value.offset, -1, value.metadata, value.commit_timestamp)
            self.commit(key.group, target, legacy, record.producer_id)
        return True

    def replay_marker(self, marker: LoadedMarker) -> None:
        """Apply a transaction marker of the log."""
        self.end_transaction(marker.producer_id, marker.is_commit)

    def tombstones(self, group: str) -> Iterator[CoordinatorRecord]:
        """Iterate over the tombstones of all offsets of a group."""
        pending = {target for groups in self._pending.values() for target in groups.get(group, ())}
        for target in sorted(pending.union(self.of_group(group))):
            yield offset_tombstone(group, target)
