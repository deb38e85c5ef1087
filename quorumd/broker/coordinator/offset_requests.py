"""Handles OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete, and expires offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from quorumd.broker.coordinator.classic_group import ClassicGroup, GroupState
from quorumd.broker.coordinator.classic_membership import append_error
from quorumd.broker.coordinator.effects import Outbox, Times, Write
from quorumd.broker.coordinator.offset_store import (
    NO_TIMESTAMP,
    OffsetStore,
    StoredOffset,
    TopicPartition,
    offset_record,
    offset_tombstone,
)
from quorumd.broker.coordinator.records import NO_PRODUCER, CoordinatorRecord
from quorumd.broker.coordinator.topics import Topics
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID, KafkaUuid

MAX_RECORDS_PER_WRITE: Final = 5_000
"""The maximum number of expired offsets to delete in one batch."""


class CommittedOffset(NamedTuple):
    """An offset to commit."""

    target: TopicPartition
    offset: int
    leader_epoch: int
    metadata: str | None
    topic_id: KafkaUuid = ZERO_UUID


class FetchedOffset(NamedTuple):
    """The committed offset of a partition, -1 if there is none."""

    target: TopicPartition
    offset: int = -1
    leader_epoch: int = -1
    metadata: str | None = ""
    error: ErrorCode = ErrorCode.NONE


Errors = dict[TopicPartition, ErrorCode]
CommitResponder = Callable[[Errors], None]
FetchResponder = Callable[[ErrorCode, Sequence[FetchedOffset]], None]


class OffsetRequests:
    """Handles the offsets of all groups of one partition. The caller checks membership."""

    def __init__(self, store: OffsetStore, settings: GroupSettings, outbox: Outbox) -> None:
        self.store = store
        self._settings = settings
        self._outbox = outbox

    def commit(
        self,
        group: str,
        offsets: Sequence[CommittedOffset],
        times: Times,
        respond: CommitResponder,
        retention_ms: int = -1,
        producer_id: int = NO_PRODUCER,
        producer_epoch: int = -1,
    ) -> None:
        """Commit offsets, in a transaction if a producer id is given; respond with an error per partition."""
        errors: Errors = {}
        accepted: list[tuple[TopicPartition, StoredOffset]] = []
        for committed in offsets:
            metadata = committed.metadata or ""
            if len(metadata.encode("utf-16-le")) // 2 > self._settings.offset_metadata_max_bytes:
                errors[committed.target] = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            errors[committed.target] = ErrorCode.NONE
            expiry_ms = times.wall_ms + retention_ms if retention_ms >= 0 else NO_TIMESTAMP
            stored = StoredOffset(
                committed.offset,
                committed.leader_epoch,
                metadata,
                times.wall_ms,
                expiry_ms,
                committed.topic_id,
            )
            accepted.append((committed.target, stored))
        if not accepted:
            respond(errors)
            return

        def appended(end_offset: int) -> None:
            first = end_offset - len(accepted)
            for index, (target, stored) in enumerate(accepted):
                placed = stored._replace(record_offset=first + index)
                self.store.commit(group, target, placed, producer_id)

        def completed(error: ErrorCode, times: Times) -> None:
            del times
            if error is not ErrorCode.NONE:
                for target, _ in accepted:
                    errors[target] = append_error(error)
            respond(errors)

        records = [offset_record(group, target, stored) for target, stored in accepted]
        self._outbox.add(Write(records, appended, completed, producer_id, producer_epoch))

    def fetch(
        self,
        group: str,
        targets: Iterable[TopicPartition] | None,
        require_stable: bool,
        respond: FetchResponder,
    ) -> None:
        """Respond with the offsets of `targets`, or of all partitions for None, once their records are committed."""
        found = []
        for target in sorted(self.store.of_group(group)) if targets is None else targets:
            stored = self.store.find(group, target)
            if require_stable and self.store.is_unstable(group, target):
                found.append(FetchedOffset(target, error=ErrorCode.UNSTABLE_OFFSET_COMMIT))
            elif stored is None:
                found.append(FetchedOffset(target))
            else:
                found.append(FetchedOffset(target, stored.offset, stored.leader_epoch, stored.metadata))

        def completed(error: ErrorCode, times: Times) -> None:
            del times
            respond(append_error(error), found if error is ErrorCode.NONE else [])

        self._outbox.add(Write([], completed=completed))

    def delete(
        self,
        group: str,
        targets: Sequence[TopicPartition],
        subscribed: frozenset[str],
        respond: CommitResponder,
    ) -> None:
        """Delete committed offsets, except for topics to which members subscribe."""
        errors: Errors = {}
        deleted = []
        for target in targets:
            errors[target] = ErrorCode.NONE
            if target.topic in subscribed:
                errors[target] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif self.store.find(group, target) is not None:
                deleted.append(target)

        def completed(error: ErrorCode, times: Times) -> None:
            del times
            if error is not ErrorCode.NONE:
                errors.update((target, append_error(error)) for target in deleted)
            respond(errors)

        self._outbox.add(self._deletion(group, deleted, completed))

    def delete_topics(self, group: str, topics: frozenset[str], current: Topics) -> None:
        """Delete the offsets of deleted topics in a group, unless they are of `current` topics with these names."""
        deleted = []
        for target, stored in self.store.of_group(group).items():
            if target.topic in topics:
                known = current.partitions(target.topic)
                if known is None or stored.topic_id not in (ZERO_UUID, known[0]):
                    deleted.append(target)
        if deleted:
            self._outbox.add(self._deletion(group, deleted))

    def expired(
        self, group_id: str, group: ClassicGroup | None, subscribed: frozenset[str] | None, times: Times
    ) -> list[TopicPartition]:
        """Return the expired offsets of a group.

        The retention of an offset starts at its commit or, if later, when the last member leaves the group. In a
        group with members, only offsets of topics without subscribers expire; none if `subscribed` is None (unknown).
        """
        retention_ms = self._settings.offsets_retention_ms
        expired: list[TopicPartition] = []
        if group is not None and group.state not in (GroupState.EMPTY, GroupState.STABLE):
            return expired
        empty_since_ms = float(NO_TIMESTAMP)
        if group is not None and group.state is GroupState.EMPTY:
            subscribed = frozenset()
            if group.protocol_type is not None:
                empty_since_ms = group.state_timestamp_ms
        for target, stored in sorted(self.store.of_group(group_id).items()):
            is_subscribed = subscribed is None or target.topic in subscribed
            if is_subscribed or self.store.is_unstable(group_id, target):
                continue
            deadline_ms = max(stored.commit_timestamp_ms, empty_since_ms) + retention_ms
            if stored.expire_timestamp_ms != NO_TIMESTAMP:
                deadline_ms = stored.expire_timestamp_ms
            if times.wall_ms >= deadline_ms:
                expired.append(target)
        return expired[:MAX_RECORDS_PER_WRITE]

    def delete_expired(self, group: str, targets: Sequence[TopicPartition]) -> None:
        """Delete expired offsets."""
        self._outbox.add(self._deletion(group, targets))

    def _deletion(
        self,
        group: str,
        targets: Sequence[TopicPartition],
        completed: Callable[[ErrorCode, Times], None] = lambda error, times: None,
    ) -> Write:
        def appended(end_offset: int) -> None:
            del end_offset
            for target in targets:
                self.store.delete(group, target)

        records: list[CoordinatorRecord] = [offset_tombstone(group, target) for target in targets]
        return Write(records, appended, completed)
