"""Rebalances of classic groups: the transitions between generations, and the sessions of members."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from quorumd.broker.coordinator.classic_group import (
    ClassicGroup,
    ClassicMember,
    GroupState,
    JoinResult,
    SyncResult,
)
from quorumd.broker.coordinator.effects import Deadlines, Outbox, Times, Write
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode

logger = logging.getLogger("quorumd.broker")

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""A new member is removed after this time even if the rebalance takes longer, because its client may be gone."""

MAX_PENDING: Final = 1_000
"""Assigned member ids of a partition with which no client has joined yet. Their session timeouts, chosen by clients,
may be half an hour, and each new group that is made for one takes 4 kB."""

SESSION: Final = "session"
PENDING: Final = "pending"
JOIN: Final = "join"
SYNC: Final = "sync"


class DeadlineKey(NamedTuple):
    """Identifies a deadline of a group or of a member."""

    kind: str
    group: str
    member: str = ""


class ClassicRebalances:
    """Manages the generations and sessions of the classic groups in `groups`."""

    def __init__(
        self,
        groups: dict[str, ClassicGroup],
        settings: GroupSettings,
        deadlines: Deadlines[DeadlineKey],
        outbox: Outbox,
    ) -> None:
        self.groups = groups
        self._settings = settings
        self._deadlines = deadlines
        self._outbox = outbox
        self._pending: dict[DeadlineKey, None] = {}
        """The assigned member ids of all groups, the oldest first."""

    # Sessions

    def extend_session(self, group: ClassicGroup, member: ClassicMember, times: Times) -> None:
        """Restart the session timeout of a member."""
        key = DeadlineKey(SESSION, group.id, member.id)
        self._deadlines.set(key, times.now_ms + member.session_timeout_ms)

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        """Cancel the session timeout of a member that leaves or that waits for other members."""
        self._deadlines.cancel(DeadlineKey(SESSION, group.id, member_id))

    def add_pending(self, group: ClassicGroup, member_id: str, session_timeout_ms: int, times: Times) -> None:
        """Record an assigned member id, with which the client must join within its session timeout (KIP-394),
        unless MAX_PENDING later ones replace it."""
        key = DeadlineKey(PENDING, group.id, member_id)
        group.pending.add(member_id)
        self._deadlines.set(key, times.now_ms + session_timeout_ms)
        self._pending[key] = None
        if len(self._pending) > MAX_PENDING:
            oldest = next(iter(self._pending))
            self.end_pending(oldest.group, oldest.member)
            self.expire(oldest, times)

    def end_pending(self, group_id: str, member_id: str) -> None:
        """Cancel the deadline of an assigned member id."""
        key = DeadlineKey(PENDING, group_id, member_id)
        self._deadlines.cancel(key)
        self._pending.pop(key, None)

    def remove_pending(self, group: ClassicGroup, member_id: str, times: Times) -> None:
        """Remove an assigned member id whose client has left or did not join in time."""
        group.pending.discard(member_id)
        self.end_pending(group.id, member_id)
        self.maybe_complete_join(group, times)
        self.forget_if_unused(group)

    def forget_if_unused(self, group: ClassicGroup) -> None:
        """Remove a group that has neither members nor a record."""
        if group.state is GroupState.EMPTY and not group.size and not group.is_persisted:
            group.state = GroupState.DEAD
            self.groups.pop(group.id, None)

    def expire(self, key: DeadlineKey, times: Times) -> None:
        """Handle a deadline that has passed."""
        group = self.groups.get(key.group)
        if group is None:
            return
        if key.kind == PENDING:
            self.remove_pending(group, key.member, times)
        elif key.kind == SESSION and key.member in group.members:
            self.remove_member(group, key.member, "its session timed out", times)
        elif key.kind == JOIN:
            self._on_join_deadline(group, times)
        elif key.kind == SYNC and group.state is GroupState.COMPLETING_REBALANCE:
            late = [member.id for member in group.members.values() if not member.has_synced]
            for member_id in late:
                self._drop(group, member_id)
            self.prepare(group, f"{len(late)} members did not send SyncGroup in time", times)

    # Members

    def remove_member(self, group: ClassicGroup, member_id: str, reason: str, times: Times) -> None:
        """Remove a member, and rebalance the group."""
        self._drop(group, member_id)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group, f"member {member_id} was removed: {reason}", times)
        else:
            self.maybe_complete_join(group, times)

    def _drop(self, group: ClassicGroup, member_id: str) -> None:
        member = group.remove(member_id)
        self.end_session(group, member_id)
        member.respond_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
        member.respond_sync(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))

    def await_join(
        self, group: ClassicGroup, member: ClassicMember, respond: Callable[[JoinResult], None], times: Times
    ) -> None:
        """Respond to JoinGroup in the next generation; until then the member has no session timeout."""
        member.respond_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member.id))
        member.awaiting_join = respond
        self.end_session(group, member.id)
        if member.is_new:
            key = DeadlineKey(SESSION, group.id, member.id)
            self._deadlines.set(key, times.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)

    # Generations

    def prepare(self, group: ClassicGroup, reason: str, times: Times) -> None:
        """Begin a rebalance, unless one is in progress: every member must rejoin."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, times)
        self._deadlines.cancel(DeadlineKey(SYNC, group.id))
        if group.state is GroupState.PREPARING_REBALANCE:
            self.maybe_complete_join(group, times)
            return
        logger.info(
            "group %s: preparing to rebalance after generation %d: %s", group.id, group.generation, reason
        )
        was_empty = group.state is GroupState.EMPTY
        group.change_state(GroupState.PREPARING_REBALANCE, times.wall_ms)
        delay_ms = float(self._settings.initial_rebalance_delay_ms)
        timeout_ms = float(group.rebalance_timeout_ms)
        if was_empty and delay_ms > 0:
            first_ms = min(delay_ms, timeout_ms)
            group.is_delaying = True
            group.remaining_delay_ms = max(timeout_ms - first_ms, 0.0)
            group.new_member_added = False
            self._deadlines.set(DeadlineKey(JOIN, group.id), times.now_ms + first_ms)
            return
        group.is_delaying = False
        self._deadlines.set(DeadlineKey(JOIN, group.id), times.now_ms + timeout_ms)
        self.maybe_complete_join(group, times)

    def _on_join_deadline(self, group: ClassicGroup, times: Times) -> None:
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        if group.is_delaying and group.new_member_added and group.remaining_delay_ms > 0:
            delay_ms = min(float(self._settings.initial_rebalance_delay_ms), group.remaining_delay_ms)
            group.new_member_added = False
            group.remaining_delay_ms -= delay_ms
            self._deadlines.set(DeadlineKey(JOIN, group.id), times.now_ms + delay_ms)
            return
        group.is_delaying = False
        self._complete_join(group, times)

    def maybe_complete_join(self, group: ClassicGroup, times: Times) -> None:
        """Begin the next generation if every member has joined."""
        if group.state is GroupState.PREPARING_REBALANCE and not group.is_delaying and group.all_joined:
            self._complete_join(group, times)

    def _complete_join(self, group: ClassicGroup, times: Times) -> None:
        late = [member for member in group.members.values() if member.awaiting_join is None]
        for member in late:
            if member.instance_id is None:
                self._drop(group, member.id)
        if group.members and not group.elect_joined_leader():
            # Only static members are left; they may rejoin until their sessions time out.
            deadline_ms = times.now_ms + group.rebalance_timeout_ms
            self._deadlines.set(DeadlineKey(JOIN, group.id), deadline_ms)
            return
        self._deadlines.cancel(DeadlineKey(JOIN, group.id))
        group.generation += 1
        if not group.members:
            self._become_empty(group, times)
            return
        group.protocol = group.select_protocol()
        group.change_state(GroupState.COMPLETING_REBALANCE, times.wall_ms)
        self._deadlines.set(DeadlineKey(SYNC, group.id), times.now_ms + group.rebalance_timeout_ms)
        logger.info("group %s: generation %d has %d members", group.id, group.generation, len(group.members))
        for member in group.members.values():
            member.has_synced = False
            if member.awaiting_join is not None:
                member.is_new = False
                self.extend_session(group, member, times)
                member.respond_join(current_generation(group, member), self._outbox)

    def _become_empty(self, group: ClassicGroup, times: Times) -> None:
        group.protocol = None
        group.leader = None
        group.change_state(GroupState.EMPTY, times.wall_ms)
        if group.pending or group.is_persisted:

            def appended(end_offset: int) -> None:
                del end_offset
                group.is_persisted = True

            self._outbox.add(Write([group.record({}, times.wall_ms)], appended))
        else:
            self.forget_if_unused(group)

    def reset_assignments(self, group: ClassicGroup, error: ErrorCode, times: Times) -> None:
        """Clear the assignments of a generation that ends, and respond to pending SyncGroup requests with `error`."""
        for member in group.members.values():
            member.assignment = b""
            if member.awaiting_sync is not None:
                self.extend_session(group, member, times)
                member.respond_sync(SyncResult(error), self._outbox)

    # Migration

    def adopt(self, group: ClassicGroup, times: Times) -> None:
        """Manage a stable group whose members were in a consumer group."""
        self.groups[group.id] = group
        for member in group.members.values():
            self.extend_session(group, member, times)

    def hand_over(self, group_id: str) -> None:
        """Stop managing a group, if there is one, whose members are now in a consumer group: they must join again."""
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        group.state = GroupState.DEAD
        for kind in (JOIN, SYNC):
            self._deadlines.cancel(DeadlineKey(kind, group_id))
        for member_id in group.pending:
            self.end_pending(group_id, member_id)
        for member in group.members.values():
            self.end_session(group, member.id)
            member.respond_join(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.id), self._outbox)
            member.respond_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS), self._outbox)

    # Unloading

    def unload(self) -> None:
        """Respond to every pending request with NOT_COORDINATOR."""
        for group in self.groups.values():
            group.state = GroupState.DEAD
            for member in group.members.values():
                member.respond_join(JoinResult(ErrorCode.NOT_COORDINATOR, member.id))
                member.respond_sync(SyncResult(ErrorCode.NOT_COORDINATOR))


def current_generation(group: ClassicGroup, member: ClassicMember) -> JoinResult:
    """Return the JoinGroup result of a member of the current generation."""
    is_leader = group.leader == member.id
    return JoinResult(
        ErrorCode.NONE,
        member.id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        group.joined_members() if is_leader else (),
    )
