"""A group of the classic protocol: its members, its generation, and the selection of a protocol (assignor)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final, NamedTuple, TypeVar

from quorumd.broker.coordinator.effects import Outbox
from quorumd.broker.coordinator.embedded_protocol import decode_subscription
from quorumd.broker.coordinator.records import CoordinatorRecord
from quorumd.errors import ErrorCode, QuorumdError
from quorumd.protocol.messages.group_metadata_key import GroupMetadataKey
from quorumd.protocol.messages.group_metadata_value import GroupMetadataValue, MemberMetadata

CONSUMER_PROTOCOL: Final = "consumer"
NO_GENERATION: Final = -1
RECORD_VERSION: Final = 3


class GroupState(Enum):
    """The states of a classic group, with the names that Kafka's tools print."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class JoinResult(NamedTuple):
    """The result of JoinGroup."""

    error: ErrorCode
    member_id: str = ""
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    """The (member id, instance id, metadata) of every member; only the leader gets them."""
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    """The result of SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


JoinResponder = Callable[[JoinResult], None]
SyncResponder = Callable[[SyncResult], None]
Protocols = tuple[tuple[str, bytes], ...]
R = TypeVar("R", JoinResult, SyncResult)


def _respond(respond: Callable[[R], None], result: R, outbox: Outbox | None) -> None:
    if outbox is None:
        respond(result)
    else:
        outbox.respond(partial(respond, result))


class ClassicMember:
    """A member of a classic group."""

    __slots__ = (
        "assignment", "awaiting_join", "awaiting_sync", "client_host", "client_id", "has_synced", "id", "instance_id",
        "is_new", "protocols", "rebalance_timeout_ms", "session_timeout_ms",
    )  # fmt: skip

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        self.id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.awaiting_join: JoinResponder | None = None
        """The responder of the pending JoinGroup request."""
        self.awaiting_sync: SyncResponder | None = None
        """The responder of the pending SyncGroup request."""
        self.has_synced = False
        """Whether the member has sent SyncGroup in this generation."""
        self.is_new = False
        """Whether the member has not been in a generation yet."""

    def metadata(self, protocol: str | None) -> bytes:
        """Return the metadata for a protocol, empty if the member does not support it."""
        return dict(self.protocols).get(protocol or "", b"")

    def respond_join(self, result: JoinResult, outbox: Outbox | None = None) -> None:
        """Respond to the pending JoinGroup request, if there is one; by the outbox if many members get responses."""
        if self.awaiting_join is not None:
            respond, self.awaiting_join = self.awaiting_join, None
            _respond(respond, result, outbox)

    def respond_sync(self, result: SyncResult, outbox: Outbox | None = None) -> None:
        """Respond to the pending SyncGroup request, as `respond_join` does."""
        if self.awaiting_sync is not None:
            respond, self.awaiting_sync = self.awaiting_sync, None
            _respond(respond, result, outbox)


class ClassicGroup:
    """A classic group."""

    __slots__ = (
        "_supporters", "generation", "id", "is_delaying", "is_persisted", "leader", "members", "new_member_added",
        "pending", "protocol", "protocol_type", "remaining_delay_ms", "state", "state_timestamp_ms", "static_members",
    )  # fmt: skip

    def __init__(self, group_id: str, wall_ms: int) -> None:
        self.id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = wall_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        """The members by id, in the order of joining."""
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.pending: set[str] = set()
        """Assigned member ids that have not joined yet (KIP-394)."""
        self.new_member_added = False
        self.is_delaying = False
        """Whether the initial rebalance is delayed, so that more members can join."""
        self.remaining_delay_ms = 0.0
        self.is_persisted = False
        """Whether the log contains a record of the group."""
        self._supporters: dict[str, int] = {}
        """The number of members that support each protocol."""

    def change_state(self, state: GroupState, wall_ms: int) -> None:
        """Enter a state, and record the time."""
        self.state = state
        self.state_timestamp_ms = wall_ms

    @property
    def size(self) -> int:
        """The number of members, including pending member ids."""
        return len(self.members) + len(self.pending)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        """Whether every member has joined and no member id is pending."""
        return not self.pending and all(member.awaiting_join for member in self.members.values())

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member; the first one becomes the leader."""
        if not self.members:
            self.protocol_type = protocol_type
        replaced = self.members.get(member.id)
        if replaced is not None:
            self._count_support(replaced, -1)
        self.members[member.id] = member
        self._count_support(member, 1)
        self.pending.discard(member.id)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id

    def remove(self, member_id: str) -> ClassicMember:
        """Remove a member; if it was the leader, the first remaining member becomes the leader."""
        member = self.members.pop(member_id)
        self._count_support(member, -1)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        """Replace the protocols of a member of this group."""
        self._count_support(member, -1)
        member.protocols = protocols
        self._count_support(member, 1)

    def _count_support(self, member: ClassicMember, change: int) -> None:
        for name in dict(member.protocols):
            count = self._supporters.get(name, 0) + change
            if count:
                self._supporters[name] = count
            else:
                del self._supporters[name]

    def replace_static(self, old_id: str, new_id: str) -> ClassicMember:
        """Replace the member id of a static member, which keeps its position."""
        member = self.members[old_id]
        member.id = new_id
        self.members = {new_id if key == old_id else key: value for key, value in self.members.items()}
        assert member.instance_id is not None
        self.static_members[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return member

    def elect_joined_leader(self) -> bool:
        """Replace a leader that has not joined by a member that has; return False if there is none."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.awaiting_join:
            return True
        joined = next((member.id for member in self.members.values() if member.awaiting_join), None)
        if joined is not None:
            self.leader = joined
        return joined is not None

    def candidates(self) -> list[str]:
        """Return the protocols that every member supports, in the order of the first member."""
        first = next(iter(self.members.values()), None)
        return [name for name, _ in first.protocols if self._is_common(name)] if first is not None else []

    def _is_common(self, protocol: str) -> bool:
        return self._supporters.get(protocol) == len(self.members)

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with this protocol type and these protocols can join."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(self._is_common(name) for name, _ in protocols)

    def select_protocol(self) -> str:
        """Return the protocol with the most votes, among those that every member supports."""
        candidates = self.candidates()
        votes = dict.fromkeys(candidates, 0)
        for member in self.members.values():
            choice = next(name for name, _ in member.protocols if name in votes)
            votes[choice] += 1
        return max(candidates, key=lambda name: votes[name])

    def joined_members(self) -> tuple[tuple[str, str | None, bytes], ...]:
        """Return the (member id, instance id, metadata) of every member, for the leader."""
        return tuple(
            (member.id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        )

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics to which the members subscribe; None if unknown or if they are not consumers."""
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        if not self.members:
            return frozenset()
        topics: set[str] = set()
        for member in self.members.values():
            try:
                topics.update(decode_subscription(member.metadata(self.protocol)).topics)
            except QuorumdError:
                return None
        return frozenset(topics)

    # Records

    def record(self, assignments: dict[str, bytes], wall_ms: int) -> CoordinatorRecord:
        """Return the GroupMetadata record of this generation with these assignments."""
        members = [
            MemberMetadata(
                member.id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(self.protocol),
                assignments.get(member.id, b""),
            )
            for member in self.members.values()
        ]
        value = GroupMetadataValue(
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.leader,
            self.state_timestamp_ms,
            members,
        )
        value.current_state_timestamp = wall_ms
        return CoordinatorRecord(GroupMetadataKey(self.id), value, RECORD_VERSION)

    def current_assignments(self) -> dict[str, bytes]:
        """Return the assignment of every member."""
        return {member.id: member.assignment for member in self.members.values()}


def tombstone(group_id: str) -> CoordinatorRecord:
    """Return the tombstone of a classic group."""
    return CoordinatorRecord(GroupMetadataKey(group_id))


def group_from_record(key: GroupMetadataKey, value: GroupMetadataValue, wall_ms: int) -> ClassicGroup:
    """Return the group of a GroupMetadata record, in state Empty or Stable."""
    group = ClassicGroup(key.group, wall_ms)
    group.is_persisted = True
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol = value.protocol
    for stored in value.members:
        rebalance_timeout_ms = stored.rebalance_timeout
        member = ClassicMember(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            stored.session_timeout if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
            stored.session_timeout,
            ((value.protocol or "", stored.subscription),),
        )
        member.assignment = stored.assignment
        member.has_synced = True
        group.add(member, value.protocol_type)
    group.leader = value.leader
    group.state = GroupState.STABLE if group.members else GroupState.EMPTY
    if value.current_state_timestamp >= 0:
        group.state_timestamp_ms = value.current_state_timestamp
    return group
