"""The group coordinator: the state machine of a partition of __consumer_offsets, its groups and their offsets."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from quorumd.broker.coordinator.classic_group import (
    ClassicGroup,
    GroupState,
    JoinResponder,
    JoinResult,
    SyncResponder,
    group_from_record,
    tombstone,
)
from quorumd.broker.coordinator.classic_membership import (
    ClassicMembership,
    Join,
    LeaveResponder,
    Sync,
    append_error,
)
from quorumd.broker.coordinator.classic_rebalance import ClassicRebalances, DeadlineKey
from quorumd.broker.coordinator.consumer_group import ConsumerGroup, ConsumerGroups, group_tombstones
from quorumd.broker.coordinator.consumer_membership import (
    ConsumerMembership,
    Heartbeat,
    HeartbeatResponder,
)
from quorumd.broker.coordinator.consumer_rebalance import CONSUMER_DEADLINES, ConsumerRebalances, Regexes
from quorumd.broker.coordinator.effects import Deadlines, Outbox, Times, Write
from quorumd.broker.coordinator.large_members import LargeMembers, MemberSizes
from quorumd.broker.coordinator.mixed_membership import MixedMembership
from quorumd.broker.coordinator.offset_requests import (
    CommitResponder,
    CommittedOffset,
    FetchResponder,
    OffsetRequests,
)
from quorumd.broker.coordinator.offset_store import OffsetStore, TopicPartition
from quorumd.broker.coordinator.records import NO_PRODUCER, LoadedMarker, LoadedRecord
from quorumd.broker.coordinator.topic_regexes import EvaluatedRegexes
from quorumd.broker.coordinator.topics import Topics
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.group_metadata_key import GroupMetadataKey
from quorumd.protocol.messages.group_metadata_value import GroupMetadataValue

logger = logging.getLogger("quorumd.broker")

EXPIRY: Final = DeadlineKey("expiry", "")
DELETION: Final = DeadlineKey("deletion", "")
GROUPS_PER_CHECK: Final = 16
"""Groups whose offsets are checked for expiry or deleted topics per deadline, of which a slice handles
`EXPIRED_PER_SLICE`."""
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
ErrorResponder = Callable[[ErrorCode], None]


class GroupClient(NamedTuple):
    """The client of a group request. A client that is not a member has generation -1 and no ids."""

    group: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    """The generation of a classic group, or the member epoch in a consumer group."""


class GroupListing(NamedTuple):
    """A group in a ListGroups response."""

    group: str
    protocol_type: str
    state: str
    type: str


class GroupCoordinator:
    """The groups of one partition. Each request gets exactly one response, through its responder."""

    def __init__(
        self,
        settings: GroupSettings,
        new_member_id: Callable[[str], str],
        topics: Topics,
        regexes: Regexes,
        large_members: LargeMembers,
    ) -> None:
        self.outbox = Outbox()
        self.new_member_id = new_member_id
        self.classic: dict[str, ClassicGroup] = {}
        self.consumers = ConsumerGroups()
        self.offsets = OffsetStore()
        self._settings = settings
        self._deadlines: Deadlines[DeadlineKey] = Deadlines()
        self._unchecked: deque[str] = deque()
        """The groups whose offsets are still to be checked for expiry."""
        self._deletions: deque[tuple[str, frozenset[str]]] = deque()
        """The groups from which offsets are still to be deleted, and the names of deleted topics."""
        self._topics = topics
        self._rebalances = ClassicRebalances(self.classic, settings, self._deadlines, self.outbox)
        self._sizes = MemberSizes(large_members, self._has_member)
        self._membership = ClassicMembership(
            self._rebalances, settings, self.outbox, new_member_id, self._sizes
        )
        self._consumer_rebalances = ConsumerRebalances(
            self.consumers,
            self._rebalances,
            settings,
            self._deadlines,
            self.outbox,
            topics,
            regexes,
            self._sizes,
        )
        self._consumer_membership = ConsumerMembership(self._consumer_rebalances, settings, regexes.compile)
        self._mixed = MixedMembership(self._consumer_rebalances, settings, topics, new_member_id)
        self._requests = OffsetRequests(self.offsets, settings, self.outbox)

    # Loading and unloading

    def replay(self, record: LoadedRecord, times: Times) -> None:
        """Apply a record of the log."""
        if self.offsets.replay(record) or self.consumers.replay(record):
            return
        key, value = record.key, record.value
        if isinstance(key, GroupMetadataKey):
            self.classic.pop(key.group, None)
            if isinstance(value, GroupMetadataValue):
                self.classic[key.group] = group_from_record(key, value, times.wall_ms)

    def replay_marker(self, marker: LoadedMarker, times: Times) -> None:
        """Apply a transaction marker of the log."""
        del times
        self.offsets.replay_marker(marker)

    def loaded(self, times: Times) -> None:
        """Start the session timeouts of all members."""
        for group in self.classic.values():
            for member in group.members.values():
                self._rebalances.extend_session(group, member, times)
        self._consumer_rebalances.loaded(times)
        self._deadlines.set(EXPIRY, times.now_ms + self._settings.offsets_retention_check_interval_ms)

    def unload(self) -> None:
        """Respond to every pending request with NOT_COORDINATOR."""
        self._sizes.close()
        self._rebalances.unload()

    def expire_next(self, times: Times) -> bool:
        """Handle the earliest deadline that has passed; return False if no deadline has passed."""
        key = self._deadlines.pop_due(times.now_ms)
        if key is None:
            return False
        if key == EXPIRY:
            if not self._unchecked:
                self._unchecked.extend(self._ids())
            for _ in range(min(GROUPS_PER_CHECK, len(self._unchecked))):
                self._delete_expired(self._unchecked.popleft(), times)
            delay_ms = 0 if self._unchecked else self._settings.offsets_retention_check_interval_ms
            self._deadlines.set(EXPIRY, times.now_ms + delay_ms)
        elif key == DELETION:
            self._delete_next(times)
        elif key.kind in CONSUMER_DEADLINES:
            self._consumer_rebalances.expire(key, times)
        else:
            self._rebalances.expire(key, times)
        return True

    def next_deadline(self) -> float | None:
        """Return the earliest deadline, None if there is none."""
        return self._deadlines.next()

    # Members of the classic protocol

    def join(self, join: Join, times: Times, respond: JoinResponder) -> None:
        """Handle JoinGroup. An empty consumer group is converted to a classic group."""
        minimum_ms, maximum_ms = self._settings.min_session_timeout_ms, self._settings.max_session_timeout_ms
        consumers = self.consumers.groups.get(join.group)
        if not join.group:
            respond(JoinResult(ErrorCode.INVALID_GROUP_ID, join.member_id))
        elif not minimum_ms <= join.session_timeout_ms <= maximum_ms:
            respond(JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, join.member_id))
        elif consumers is not None and consumers.members:
            self._mixed.join(consumers, join, times, respond)
        else:
            if consumers is not None:
                self._delete_consumer_group(consumers)
            self._membership.join(join, times, respond)

    def sync(self, sync: Sync, times: Times, respond: SyncResponder) -> None:
        """Handle SyncGroup."""
        consumers = self.consumers.groups.get(sync.group)
        if consumers is not None:
            self._mixed.sync(consumers, sync, times, respond)
        else:
            self._membership.sync(sync, times, respond)

    def heartbeat(self, member: GroupClient, times: Times) -> ErrorCode:
        """Handle Heartbeat."""
        consumers = self.consumers.groups.get(member.group)
        if consumers is not None:
            return self._mixed.heartbeat(
                consumers, member.member_id, member.instance_id, member.generation, times
            )
        return self._membership.heartbeat(
            member.group, member.member_id, member.instance_id, member.generation, times
        )

    def leave(
        self,
        group: str,
        leaving: Sequence[tuple[str, str | None]],
        times: Times,
        respond: LeaveResponder,
    ) -> None:
        """Handle LeaveGroup."""
        consumers = self.consumers.groups.get(group)
        if consumers is not None:
            self._mixed.leave(consumers, leaving, times, respond)
        else:
            respond(ErrorCode.NONE, self._membership.leave(group, leaving, times))

    # Members of the consumer protocol

    def consumer_heartbeat(self, heartbeat: Heartbeat, times: Times, respond: HeartbeatResponder) -> None:
        """Handle ConsumerGroupHeartbeat. A classic group is upgraded when a member joins."""
        self._consumer_membership.heartbeat(heartbeat, times, respond)

    def regexes_evaluated(self, evaluated: EvaluatedRegexes, times: Times) -> None:
        """Record the topics that the regular expressions of a group match."""
        self._consumer_rebalances.regexes_evaluated(evaluated, times)

    def _delete_consumer_group(self, group: ConsumerGroup) -> None:
        records = list(group_tombstones(group))
        self.outbox.add(Write(records, lambda end_offset: self.consumers.apply(records)))

    # Offsets

    def commit(
        self,
        client: GroupClient,
        offsets: Sequence[CommittedOffset],
        times: Times,
        respond: CommitResponder,
        retention_ms: int = -1,
        producer_id: int = NO_PRODUCER,
        producer_epoch: int = -1,
    ) -> None:
        """Handle OffsetCommit, or TxnOffsetCommit if a producer id is given."""
        error = self._check_commit(client, times, producer_id != NO_PRODUCER)
        if error is not ErrorCode.NONE:
            respond({committed.target: error for committed in offsets})
            return
        self._requests.commit(
            client.group, offsets, times, respond, retention_ms, producer_id, producer_epoch
        )

    def _check_commit(self, client: GroupClient, times: Times, is_transactional: bool) -> ErrorCode:
        group = self.classic.get(client.group)
        if not client.group and client.generation >= 0:
            return ErrorCode.INVALID_GROUP_ID
        consumers = self.consumers.groups.get(client.group)
        if consumers is not None:
            may_commit = is_transactional or not consumers.members
            return _check_member_epoch(consumers, client, may_commit)
        if group is None:
            is_simple_consumer = client.generation < 0 and not client.member_id
            return ErrorCode.NONE if is_simple_consumer or is_transactional else ErrorCode.ILLEGAL_GENERATION
        error = self._membership.check_commit(
            group, client.member_id, client.instance_id, client.generation, is_transactional
        )
        member = group.members.get(client.member_id)
        if error is ErrorCode.NONE and member is not None and member.awaiting_join is None:
            self._rebalances.extend_session(group, member, times)
        return error

    def fetch_offsets(
        self,
        client: GroupClient,
        targets: Sequence[TopicPartition] | None,
        require_stable: bool,
        times: Times,
        respond: FetchResponder,
    ) -> None:
        """Handle OffsetFetch for one group."""
        del times
        consumers = self.consumers.groups.get(client.group)
        if consumers is not None:
            error = _check_member_epoch(consumers, client, without_membership=True)
            if error is not ErrorCode.NONE:
                respond(error, [])
                return
        self._requests.fetch(client.group, targets, require_stable, respond)

    def delete_offsets(
        self,
        group_id: str,
        targets: Sequence[TopicPartition],
        respond: Callable[[ErrorCode, dict[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Handle OffsetDelete."""
        group = self.classic.get(group_id)
        subscribed: frozenset[str] | None = frozenset()
        error = ErrorCode.NONE
        if not self.exists(group_id):
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif group_id in self.consumers.groups:
            subscribed = self.consumers.groups[group_id].subscribed_topics()
        elif group is not None and group.state is not GroupState.EMPTY:
            subscribed = group.subscribed_topics()
            if subscribed is None:
                error = ErrorCode.NON_EMPTY_GROUP
        if error is not ErrorCode.NONE:
            respond(error, {})
            return
        self._requests.delete(
            group_id, targets, subscribed or frozenset(), lambda errors: respond(ErrorCode.NONE, errors)
        )

    def delete_topics(self, topics: frozenset[str], times: Times) -> None:
        """Delete the offsets of deleted topics in every group, a few at once."""
        self._deletions.extend((group, topics) for group in self.offsets.groups())
        self._delete_next(times)

    def _delete_next(self, times: Times) -> None:
        for _ in range(min(GROUPS_PER_CHECK, len(self._deletions))):
            self._requests.delete_topics(*self._deletions.popleft(), self._topics)
        if self._deletions:
            self._deadlines.set(DELETION, times.now_ms)

    def _ids(self) -> Iterable[str]:
        return dict.fromkeys(chain(self.offsets.groups(), self.classic, self.consumers.groups))

    def _delete_expired(self, group_id: str, times: Times) -> None:
        """Delete the expired offsets of a group, and the group if it is empty and has no offsets."""
        group = self.classic.get(group_id)
        consumers = self.consumers.groups.get(group_id)
        subscribed = group.subscribed_topics() if group is not None else frozenset()
        if consumers is not None:
            subscribed = consumers.subscribed_topics()
        expired = self._requests.expired(group_id, group, subscribed, times)
        if expired:
            logger.info("group %s: %d offsets have expired", group_id, len(expired))
            self._requests.delete_expired(group_id, expired)
        is_empty = group is not None and group.state is GroupState.EMPTY and not group.pending
        is_empty = is_empty or (consumers is not None and not consumers.members)
        has_offsets = len(expired) < len(self.offsets.of_group(group_id))
        has_offsets = has_offsets or self.offsets.has_pending(group_id)
        if is_empty and not has_offsets:
            self._delete_group(group_id, lambda error: None)

    # Administration

    def _has_member(self, group_id: str, member_id: str) -> bool:
        group = self.classic.get(group_id) or self.consumers.groups.get(group_id)
        return group is not None and member_id in group.members

    def exists(self, group_id: str) -> bool:
        """Whether the group exists: it has members, a record or offsets."""
        is_known = group_id in self.classic or group_id in self.consumers.groups
        return is_known or bool(self.offsets.of_group(group_id))

    def listings(self) -> Iterator[GroupListing | None]:
        """Yield every group, and None for one that was deleted since the first was yielded."""
        for group_id in self._ids():
            group = self.classic.get(group_id)
            consumers = self.consumers.groups.get(group_id)
            if consumers is not None:
                yield GroupListing(group_id, CONSUMER, consumers.state, CONSUMER)
            elif group is not None:
                yield GroupListing(group_id, group.protocol_type or "", group.state.value, CLASSIC)
            else:
                is_empty = self.exists(group_id)
                yield GroupListing(group_id, "", GroupState.EMPTY.value, CLASSIC) if is_empty else None

    def find_classic(self, group_id: str) -> ClassicGroup | None:
        """Return a classic group, or an empty one if the group has only offsets; None if there is no such group."""
        group = self.classic.get(group_id)
        if group is None and group_id not in self.consumers.groups and self.exists(group_id):
            return ClassicGroup(group_id, 0)
        return group

    def delete_group(self, group_id: str, respond: ErrorResponder) -> None:
        """Handle DeleteGroups for one group."""
        group = self.classic.get(group_id)
        consumers = self.consumers.groups.get(group_id)
        if not self.exists(group_id):
            respond(ErrorCode.GROUP_ID_NOT_FOUND)
        elif (consumers is not None and consumers.members) or (
            group is not None and (group.state is not GroupState.EMPTY or group.pending)
        ):
            respond(ErrorCode.NON_EMPTY_GROUP)
        else:
            self._delete_group(group_id, respond)

    def _delete_group(self, group_id: str, respond: ErrorResponder) -> None:
        group = self.classic.get(group_id)
        consumers = self.consumers.groups.get(group_id)
        targets = list(self.offsets.of_group(group_id))
        deletion = [tombstone(group_id)] if consumers is None else list(group_tombstones(consumers))

        def appended(end_offset: int) -> None:
            del end_offset
            for target in targets:
                self.offsets.delete(group_id, target)
            self.consumers.apply(deletion)
            if group is not None:
                group.state = GroupState.DEAD
                self.classic.pop(group_id, None)

        def completed(error: ErrorCode, times: Times) -> None:
            del times
            respond(append_error(error))

        records = [*self.offsets.tombstones(group_id), *deletion]
        self.outbox.add(Write(records, appended, completed))


def _check_member_epoch(group: ConsumerGroup, client: GroupClient, without_membership: bool) -> ErrorCode:
    """Return the error of a client's offset request, which needs no membership if `without_membership`."""
    if client.generation < 0 and not client.member_id and without_membership:
        return ErrorCode.NONE
    member = group.members.get(client.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if client.generation == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
