"""A group of the consumer protocol (KIP-848), its records, and the state replayed from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from quorumd.broker.coordinator.records import CoordinatorRecord, LoadedRecord
from quorumd.errors import ErrorCode, RequestError
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import (
    consumer_group_current_member_assignment_value as current_value,
)
from quorumd.protocol.messages import (
    consumer_group_target_assignment_member_value as target_value,
)
from quorumd.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from quorumd.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from quorumd.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from quorumd.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from quorumd.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from quorumd.protocol.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from quorumd.protocol.messages.consumer_group_regular_expression_value import (
    ConsumerGroupRegularExpressionValue,
)
from quorumd.protocol.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from quorumd.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from quorumd.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

JOINING: Final = 0
"""The member epoch of a heartbeat that joins the group."""
LEAVING: Final = -1
"""The member epoch of a heartbeat that leaves the group."""
LEAVING_STATIC: Final = -2
"""The member epoch of a static member that leaves temporarily and keeps its assignment."""

Assignment = frozenset[tuple[KafkaUuid, int]]
EMPTY_ASSIGNMENT: Final[Assignment] = frozenset()


class MemberState(Enum):
    """The states of a member, with their values in its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class ClassicProtocols:
    """The session timeout and the protocols in the JoinGroup request of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata) pairs; the first is the one in responses to the member."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member: its subscription and its current assignment."""

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    regex: str = ""
    """A regular expression that matches topics, "" for none."""
    assignor: str | None = None
    classic: ClassicProtocols | None = None
    """Set if the member uses the classic protocol."""
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = EMPTY_ASSIGNMENT
    revoking: Assignment = EMPTY_ASSIGNMENT
    """Partitions that the client has yet to revoke."""


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matches in the metadata up to offset `version`."""

    topics: frozenset[str]
    version: int
    wall_ms: int


@dataclass(slots=True)
class ConsumerGroup:
    """A consumer group."""

    id: str
    epoch: int = 0
    """The group epoch, bumped when subscriptions or topics change."""
    metadata_hash: int = 0
    target_epoch: int = 0
    """The epoch of the target assignment."""
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    """The evaluated regular expressions of the members."""
    regex_subscribers: dict[str, int] = field(default_factory=dict)
    """Regular expression -> the number of members that subscribe to it."""
    owners: dict[tuple[KafkaUuid, int], str] = field(default_factory=dict)
    """Partition -> the member to which it is assigned, or that has yet to revoke it."""

    @property
    def state(self) -> str:
        """The name of the state, as Kafka's tools print it."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        is_stable = all(
            member.state is MemberState.STABLE and member.epoch == self.target_epoch
            for member in self.members.values()
        )
        return "Stable" if is_stable else "Reconciling"

    def subscribed_topics(self) -> frozenset[str]:
        """Return the topics to which any member subscribes."""
        names = (topic for member in self.members.values() for topic in member.topics)
        matched = (topic for regex in self.regexes.values() for topic in regex.topics)
        return frozenset((*names, *matched))

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics to which a member subscribes, by name or by regular expression."""
        return member.topics | self.matched_topics(member.regex) if member.regex else member.topics

    def matched_topics(self, pattern: str) -> frozenset[str]:
        """Return the topics that a regular expression matches, none if it has not been evaluated."""
        regex = self.regexes.get(pattern)
        return frozenset() if regex is None else regex.topics

    def assignor(self, default: str) -> str:
        """Return the assignor that most members prefer, or the default if no member prefers one."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member.assignor is not None:
                votes[member.assignor] = votes.get(member.assignor, 0) + 1
        return max(sorted(votes), key=lambda name: votes[name], default=default)

    def put(self, member: ConsumerMember) -> None:
        """Add or replace a member."""
        self._release(member.id)
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.id
        if member.regex:
            self.regex_subscribers[member.regex] = self.regex_subscribers.get(member.regex, 0) + 1
        for each in member.assigned | member.revoking:
            self.owners[each] = member.id

    def remove(self, member_id: str) -> None:
        """Remove a member and its target assignment."""
        self._release(member_id)
        member = self.members.pop(member_id, None)
        self.targets.pop(member_id, None)
        instance_id = member.instance_id if member is not None else None
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def copy(self) -> ConsumerGroup:
        """Return a copy, which changes independently."""
        return replace(
            self,
            members=dict(self.members),
            static_members=dict(self.static_members),
            targets=dict(self.targets),
            regexes=dict(self.regexes),
            regex_subscribers=dict(self.regex_subscribers),
            owners=dict(self.owners),
        )

    def drop_unused_regexes(self) -> list[str]:
        """Remove the regular expressions without subscribers, and return them."""
        unused = sorted(self.regexes.keys() - self.regex_subscribers.keys())
        for pattern in unused:
            del self.regexes[pattern]
        return unused

    def _release(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None:
            if member.regex:
                self.regex_subscribers[member.regex] -= 1
                if not self.regex_subscribers[member.regex]:
                    del self.regex_subscribers[member.regex]
            for each in member.assigned | member.revoking:
                if self.owners.get(each) == member_id:
                    del self.owners[each]


def find_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, is_leaving: bool = False
) -> ConsumerMember:
    """Return a member. A static member may leave the group without its member id if `is_leaving`.

    Raises RequestError with UNKNOWN_MEMBER_ID, or with FENCED_INSTANCE_ID if another member has the instance id.
    """
    found = member_id
    if instance_id is not None:
        if instance_id not in group.static_members:
            text = f"static member {instance_id} is not in group {group.id}"
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        found = group.static_members[instance_id]
        if found != member_id and (member_id or not is_leaving):
            text = f"instance id {instance_id} is in use by member {found}"
            raise RequestError(ErrorCode.FENCED_INSTANCE_ID, text)
    member = group.members.get(found)
    if member is None:
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} is not in group {group.id}")
    return member


# Records


def member_record(group: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of a member's subscription."""
    classic = None
    if member.classic is not None:
        protocols = [ClassicProtocol(*each) for each in member.classic.protocols]
        classic = ClassicMemberMetadata(member.classic.session_timeout_ms, protocols)
    value = ConsumerGroupMemberMetadataValue(
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        sorted(member.topics),
        member.regex,
        member.rebalance_timeout_ms,
        member.assignor,
        classic,
    )
    return CoordinatorRecord(ConsumerGroupMemberMetadataKey(group, member.id), value)


def current_record(group: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of a member's epoch and current assignment."""
    value = current_value.ConsumerGroupCurrentMemberAssignmentValue(
        member.epoch,
        member.previous_epoch,
        member.state.value,
        [current_value.TopicPartitions(*each) for each in by_topic(member.assigned)],
        [current_value.TopicPartitions(*each) for each in by_topic(member.revoking)],
    )
    for topic in (*value.assigned_partitions, *value.partitions_pending_revocation):
        topic.assignment_epochs = None
    return CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group, member.id), value)


def target_record(group: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    """Return the record of a member's target assignment."""
    topics = [target_value.TopicPartition(*each) for each in by_topic(target)]
    value = target_value.ConsumerGroupTargetAssignmentMemberValue(topics)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group, member_id), value)


def target_epoch_record(group: str, epoch: int, wall_ms: int) -> CoordinatorRecord:
    """Return the record of the epoch of a target assignment, which is written after the records of its members."""
    value = ConsumerGroupTargetAssignmentMetadataValue(epoch, wall_ms)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group), value)


def epoch_record(group: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of a group epoch and the hash of its topics."""
    value = ConsumerGroupMetadataValue(epoch, metadata_hash)
    return CoordinatorRecord(ConsumerGroupMetadataKey(group), value)


def regex_record(group: str, pattern: str, regex: ResolvedRegex) -> CoordinatorRecord:
    """Return the record of the topics that a regular expression matches."""
    value = ConsumerGroupRegularExpressionValue(sorted(regex.topics), regex.version, regex.wall_ms)
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group, pattern), value)


def regex_tombstone(group: str, pattern: str) -> CoordinatorRecord:
    """Return the tombstone of a regular expression without subscribers."""
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group, pattern))


def member_tombstones(group: str, member_id: str) -> Iterator[CoordinatorRecord]:
    """Iterate over the tombstones of a member."""
    yield CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group, member_id))
    yield CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group, member_id))
    yield CoordinatorRecord(ConsumerGroupMemberMetadataKey(group, member_id))


def group_tombstones(group: ConsumerGroup) -> Iterator[CoordinatorRecord]:
    """Iterate over the tombstones of a group and its members."""
    for member_id in group.members:
        yield from member_tombstones(group.id, member_id)
    for pattern in group.regexes:
        yield regex_tombstone(group.id, pattern)
    yield CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group.id))
    yield CoordinatorRecord(ConsumerGroupMetadataKey(group.id))


def by_topic(assignment: Iterable[tuple[KafkaUuid, int]]) -> list[tuple[KafkaUuid, list[int]]]:
    """Group partitions by topic id, sorted."""
    topics: dict[KafkaUuid, list[int]] = {}
    for topic_id, partition in sorted(assignment):
        topics.setdefault(topic_id, []).append(partition)
    return list(topics.items())


def _partitions(topics: Iterable[tuple[KafkaUuid, Iterable[int]]]) -> Assignment:
    return frozenset((topic_id, number) for topic_id, numbers in topics for number in numbers)


def _classic_protocols(metadata: ClassicMemberMetadata | None) -> ClassicProtocols | None:
    if metadata is None:
        return None
    protocols = tuple((each.name, each.metadata) for each in metadata.supported_protocols)
    return ClassicProtocols(metadata.session_timeout_ms, protocols)


class ConsumerGroups:
    """The consumer groups of one partition of __consumer_offsets, replayed from their records."""

    def __init__(self) -> None:
        self.groups: dict[str, ConsumerGroup] = {}

    def apply(self, records: Iterable[CoordinatorRecord]) -> None:
        """Apply records that have been appended."""
        for record in records:
            self.replay(LoadedRecord(-1, record.key, record.value))

    def replay(self, record: LoadedRecord) -> bool:
        """Apply one record; return False if it is not a record of a consumer group."""
        key, value = record.key, record.value
        if isinstance(key, ConsumerGroupMetadataKey):
            self._replay_epoch(key.group_id, value)
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            self._replay_member(key, value)
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            self._replay_regex(key, value)
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            group = self._group(key.group_id, value is not None)
            if group is not None:
                group.target_epoch = -1
                if isinstance(value, ConsumerGroupTargetAssignmentMetadataValue):
                    group.target_epoch = value.assignment_epoch
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            self._replay_target(key, value)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            self._replay_current(key, value)
        else:
            return False
        return True

    def _group(self, group_id: str, creates: bool) -> ConsumerGroup | None:
        group = self.groups.get(group_id)
        if group is None and creates:
            group = self.groups[group_id] = ConsumerGroup(group_id)
        return group

    def _replay_epoch(self, group_id: str, value: object) -> None:
        if isinstance(value, ConsumerGroupMetadataValue):
            group = self._group(group_id, creates=True)
            assert group is not None
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        else:
            self.groups.pop(group_id, None)

    def _replay_member(self, key: ConsumerGroupMemberMetadataKey, value: object) -> None:
        group = self._group(key.group_id, value is not None)
        if group is None:
            return
        if not isinstance(value, ConsumerGroupMemberMetadataValue):
            group.remove(key.member_id)
            return
        known = group.members.get(key.member_id, ConsumerMember(key.member_id))
        group.put(
            replace(
                known,
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                topics=frozenset(value.subscribed_topic_names),
                regex=value.subscribed_topic_regex or "",
                assignor=value.server_assignor,
                classic=_classic_protocols(value.classic_member_metadata),
            )
        )

    def _replay_regex(self, key: ConsumerGroupRegularExpressionKey, value: object) -> None:
        group = self._group(key.group_id, value is not None)
        if group is None:
            return
        if isinstance(value, ConsumerGroupRegularExpressionValue):
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            group.regexes[key.regular_expression] = resolved
        else:
            group.regexes.pop(key.regular_expression, None)

    def _replay_target(self, key: ConsumerGroupTargetAssignmentMemberKey, value: object) -> None:
        group = self._group(key.group_id, value is not None)
        if group is None:
            return
        if isinstance(value, target_value.ConsumerGroupTargetAssignmentMemberValue):
            group.targets[key.member_id] = _partitions(
                (topic.topic_id, topic.partitions) for topic in value.topic_partitions
            )
        else:
            group.targets.pop(key.member_id, None)

    def _replay_current(self, key: ConsumerGroupCurrentMemberAssignmentKey, value: object) -> None:
        group = self._group(key.group_id, value is not None)
        if group is None:
            return
        known = group.members.get(key.member_id)
        if known is None and value is None:
            return
        known = known or ConsumerMember(key.member_id)
        epoch, previous, state = 0, -1, MemberState.STABLE
        assigned = revoking = EMPTY_ASSIGNMENT
        if isinstance(value, current_value.ConsumerGroupCurrentMemberAssignmentValue):
            epoch, previous, state = value.member_epoch, value.previous_member_epoch, MemberState(value.state)
            assigned = _partitions((topic.topic_id, topic.partitions) for topic in value.assigned_partitions)
            revoking = _partitions(
                (topic.topic_id, topic.partitions) for topic in value.partitions_pending_revocation
            )
        group.put(with_current_assignment(known, epoch, previous, state, assigned, revoking))


def with_current_assignment(
    member: ConsumerMember,
    epoch: int,
    previous_epoch: int,
    state: MemberState,
    assigned: Assignment,
    revoking: Assignment,
) -> ConsumerMember:
    """Return the member with this epoch, state and current assignment."""
    return replace(
        member,
        epoch=epoch,
        previous_epoch=previous_epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
    )


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Assignment,
    owners: Mapping[tuple[KafkaUuid, int], str],
    owned: Assignment | None,
) -> ConsumerMember:
    """Return the member after one step towards its target assignment.

    The member first revokes partitions that are not in the target; the client confirms that with the partitions that
    it owns (`owned`, None if not reported). A partition is assigned to a member only once no other member owns it.
    """
    if member.state is MemberState.STABLE and member.epoch == target_epoch:
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS and (owned is None or owned & member.revoking):
        return member
    kept = member.assigned & target
    lost = member.assigned - target
    wanted = target - kept
    free = frozenset(each for each in wanted if owners.get(each, member.id) == member.id)
    if lost and (owned is None or owned & lost):
        return with_current_assignment(
            member, member.epoch, member.previous_epoch, MemberState.UNREVOKED_PARTITIONS, kept, lost
        )
    state = MemberState.UNRELEASED_PARTITIONS if free != wanted else MemberState.STABLE
    previous = member.epoch if member.epoch != target_epoch else member.previous_epoch
    return with_current_assignment(member, target_epoch, previous, state, kept | free, EMPTY_ASSIGNMENT)
