"""Rebalances of classic groups: when a generation ends, when the next begins, and the sessions of members."""

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
"""A new member whose client has disconnected is removed after this time, even during a longer rebalance."""

SESSION: Final = "session"
PENDING: Final = "pending"
JOIN: Final = "join"
SYNC: Final = "sync"


class DeadlineKey(NamedTuple):
    """The deadline of a group, or of one member."""

    kind: str
    group: str
    member: str = ""


class ClassicRebalances:
    """Generations and sessions of the classic groups in `groups`."""

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

    # Sessions

    def extend_session(self, group: ClassicGroup, member: ClassicMember, times: Times) -> None:
        """Restart the session of a live member."""
        key = DeadlineKey(SESSION, group.id, member.id)
        self._deadlines.set(key, times.now_ms + member.session_timeout_ms)

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        """Suspend a session: the member leaves, or waits for others."""
        self._deadlines.cancel(DeadlineKey(SESSION, group.id, member_id))

    def add_pending(self, group: ClassicGroup, member_id: str, session_timeout_ms: int, times: Times) -> None:
        """A client has been given a member id, and has a session timeout to join with it."""
        group.pending.add(member_id)
        self._deadlines.set(DeadlineKey(PENDING, group.id, member_id), times.now_ms + session_timeout_ms)

    def remove_pending(self, group: ClassicGroup, member_id: str, times: Times) -> None:
        """The client does not join, or has left."""
        group.pending.discard(member_id)
        self._deadlines.cancel(DeadlineKey(PENDING, group.id, member_id))
        self.maybe_complete_join(group, times)
        self.forget_if_unused(group)

    def forget_if_unused(self, group: ClassicGroup) -> None:
        """Drop a group that has no members and no record."""
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
            self.remove_member(group, key.member, "its session has expired", times)
        elif key.kind == JOIN:
            self._on_join_deadline(group, times)
        elif key.kind == SYNC and group.state is GroupState.COMPLETING_REBALANCE:
            late = [member.id for member in group.members.values() if not member.has_synced]
            for member_id in late:
                self._drop(group, member_id)
            self.prepare(group, f"{len(late)} members have not synced in time", times)

    # Members

    def remove_member(self, group: ClassicGroup, member_id: str, reason: str, times: Times) -> None:
        """Remove a member and rebalance the others."""
        self._drop(group, member_id)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group, f"member {member_id} left: {reason}", times)
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
        """The member waits for the next generation; its session is suspended."""
        member.respond_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member.id))
        member.awaiting_join = respond
        self.end_session(group, member.id)
        if member.is_new:
            key = DeadlineKey(SESSION, group.id, member.id)
            self._deadlines.set(key, times.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)

    # Generations

    def prepare(self, group: ClassicGroup, reason: str, times: Times) -> None:
        """Begin a rebalance, unless one has begun: every member must join again."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, times)
        self._deadlines.cancel(DeadlineKey(SYNC, group.id))
        if group.state is GroupState.PREPARING_REBALANCE:
            self.maybe_complete_join(group, times)
            return
        logger.info("group %s rebalances after generation %d: %s", group.id, group.generation, reason)
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
            # Only static members are left, which may still join: the end of their sessions removes them.
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
        logger.info("group %s: generation %d with %d members", group.id, group.generation, len(group.members))
        for member in group.members.values():
            member.has_synced = False
            if member.awaiting_join is not None:
                member.is_new = False
                self.extend_session(group, member, times)
                member.respond_join(current_generation(group, member))

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
        """The generation ends before its assignment: respond to the members that wait for it."""
        for member in group.members.values():
            member.assignment = b""
            if member.awaiting_sync is not None:
                self.extend_session(group, member, times)
                member.respond_sync(SyncResult(error))

    def unload(self) -> None:
        """Respond to every waiting request that another broker is the coordinator."""
        for group in self.groups.values():
            group.state = GroupState.DEAD
            for member in group.members.values():
                member.respond_join(JoinResult(ErrorCode.NOT_COORDINATOR, member.id))
                member.respond_sync(SyncResult(ErrorCode.NOT_COORDINATOR))


def current_generation(group: ClassicGroup, member: ClassicMember) -> JoinResult:
    """Return the join result of a member of this generation."""
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
