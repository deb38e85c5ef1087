"""Handles JoinGroup, SyncGroup, Heartbeat and LeaveGroup for classic groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from quorumd.broker.coordinator.classic_group import (
    ClassicGroup,
    ClassicMember,
    GroupState,
    JoinResponder,
    JoinResult,
    Protocols,
    SyncResponder,
    SyncResult,
)
from quorumd.broker.coordinator.classic_rebalance import (
    ClassicRebalances,
    current_generation,
)
from quorumd.broker.coordinator.effects import Outbox, Times, Write
from quorumd.broker.coordinator.large_members import MAX_MEMBERS, MemberSizes
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode


class Join(NamedTuple):
    """A JoinGroup request."""

    group: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    needs_member_id: bool = True
    """Whether a dynamic member must join with an assigned member id (KIP-394)."""
    can_skip_assignment: bool = True
    """Whether the client supports a static leader that rejoins without computing an assignment (KIP-814)."""

    @property
    def size(self) -> int:
        """The bytes of its protocols, approximately."""
        return sum(len(name) + len(metadata) for name, metadata in self.protocols)


LeaveResponder = Callable[[ErrorCode, Sequence[tuple[str, ErrorCode]]], None]
"""Responds to LeaveGroup with an error of the request, and the (member id, error) of each member."""


class Sync(NamedTuple):
    """A SyncGroup request. `protocol_type` and `protocol` are None in versions without them."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]


APPEND_ERRORS = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_RECORD: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Append error -> response error, as in Kafka."""


def append_error(error: ErrorCode) -> ErrorCode:
    """Return the response error for an append error."""
    return APPEND_ERRORS.get(error, error)


class ClassicMembership:
    """Handles the requests of members. Each gets one response: immediately, or at a later step of a rebalance."""

    def __init__(
        self,
        rebalances: ClassicRebalances,
        settings: GroupSettings,
        outbox: Outbox,
        new_member_id: Callable[[str], str],
        sizes: MemberSizes,
    ) -> None:
        self._rebalances = rebalances
        self._settings = settings
        self._outbox = outbox
        self._new_member_id = new_member_id
        self._sizes = sizes

    # JoinGroup

    def join(self, join: Join, times: Times, respond: JoinResponder) -> None:
        """Handle JoinGroup for a classic or a new group."""
        group = self._rebalances.groups.get(join.group)
        if group is None:
            if join.member_id:
                respond(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, join.member_id))
                return
            group = ClassicGroup(join.group, times.wall_ms)
            self._rebalances.groups[join.group] = group
        is_known = join.member_id in group.members or join.member_id in group.pending
        is_known = is_known or (join.instance_id is not None and join.instance_id in group.static_members)
        error = self._sizes.check(join.size)
        if not is_known and group.size >= min(self._settings.max_size, MAX_MEMBERS):
            error = ErrorCode.GROUP_MAX_SIZE_REACHED
        elif error is ErrorCode.NONE and not group.supports(join.protocol_type, join.protocols):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is not ErrorCode.NONE:
            respond(JoinResult(error, join.member_id))
            self._rebalances.forget_if_unused(group)
        elif not join.member_id:
            self._join_as_new(group, join, times, respond)
        else:
            self._join_as_known(group, join, times, respond)

    def _join_as_new(self, group: ClassicGroup, join: Join, times: Times, respond: JoinResponder) -> None:
        if join.instance_id is not None:
            member_id = self._new_member_id(join.instance_id)
            if join.instance_id in group.static_members:
                self._replace_static(group, join, member_id, times, respond)
                return
        else:
            member_id = self._new_member_id(join.client_id)
            if join.needs_member_id:
                self._rebalances.add_pending(group, member_id, join.session_timeout_ms, times)
                respond(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
                return
        self._add(group, join, member_id, times, respond)

    def _add(
        self, group: ClassicGroup, join: Join, member_id: str, times: Times, respond: JoinResponder
    ) -> None:
        member = ClassicMember(
            member_id,
            join.instance_id,
            join.client_id,
            join.client_host,
            join.rebalance_timeout_ms,
            join.session_timeout_ms,
            join.protocols,
        )
        member.is_new = True
        group.add(member, join.protocol_type)
        self._sizes.record(group.id, member.id, join.size)
        self._rebalances.end_pending(group.id, member_id)
        self._rebalances.await_join(group, member, respond, times)
        if group.state is GroupState.PREPARING_REBALANCE and group.is_delaying:
            group.new_member_added = True
        self._rebalances.prepare(group, f"member {member_id} joined", times)

    def _join_as_known(self, group: ClassicGroup, join: Join, times: Times, respond: JoinResponder) -> None:
        member_id = join.member_id
        if member_id in group.pending and join.instance_id is None:
            self._add(group, join, member_id, times, respond)
            return
        error = _check_member(group, member_id, join.instance_id)
        if error is not ErrorCode.NONE or group.state is GroupState.EMPTY:
            respond(JoinResult(error or ErrorCode.UNKNOWN_MEMBER_ID, member_id))
            return
        member = group.members[member_id]
        is_unchanged = member.protocols == join.protocols
        # A member that retries after a lost response keeps the generation; a leader that rejoins starts a rebalance.
        keeps_generation = group.state is GroupState.COMPLETING_REBALANCE or (
            group.state is GroupState.STABLE and member_id != group.leader
        )
        if keeps_generation and is_unchanged:
            self._rebalances.extend_session(group, member, times)
            respond(current_generation(group, member))
            return
        self._update(group, member, join)
        self._rebalances.await_join(group, member, respond, times)
        self._rebalances.prepare(group, f"member {member_id} rejoined", times)

    def _update(self, group: ClassicGroup, member: ClassicMember, join: Join) -> None:
        group.replace_protocols(member, join.protocols)
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.session_timeout_ms = join.session_timeout_ms
        member.client_id = join.client_id
        member.client_host = join.client_host
        self._sizes.record(group.id, member.id, join.size)

    def _replace_static(
        self, group: ClassicGroup, join: Join, member_id: str, times: Times, respond: JoinResponder
    ) -> None:
        """Replace a static member that restarted: its previous incarnation is fenced (KIP-345)."""
        assert join.instance_id is not None
        old_id = group.static_members[join.instance_id]
        member = group.members[old_id]
        member.respond_join(JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_id))
        member.respond_sync(SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        self._rebalances.end_session(group, old_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        group.replace_static(old_id, member_id)
        self._update(group, member, join)
        is_same = before[0] == join.protocols or (
            group.protocol == group.select_protocol()
            and dict(before[0]).get(group.protocol or "") == member.metadata(group.protocol)
        )
        if group.state is not GroupState.STABLE or not is_same:
            self._rebalances.await_join(group, member, respond, times)
            self._rebalances.prepare(group, f"static member {join.instance_id} restarted", times)
            return
        self._rebalances.extend_session(group, member, times)
        skips = group.leader == member_id and join.can_skip_assignment
        result = current_generation(group, member)
        # A client without KIP-814 must not see itself as the leader: it would compute an assignment.
        result = result._replace(
            leader=member_id if skips else old_id if group.leader == member_id else result.leader,
            members=result.members if skips else (),
            skip_assignment=skips,
        )

        def completed(error: ErrorCode, times: Times) -> None:
            if error is ErrorCode.NONE:
                respond(result)
                return
            current = group.members.get(member_id)
            if current is member:
                self._rebalances.end_session(group, member_id)
                group.replace_static(member_id, old_id)
                group.replace_protocols(member, before[0])
                _, member.rebalance_timeout_ms, member.session_timeout_ms = before
                self._rebalances.extend_session(group, member, times)
            respond(JoinResult(append_error(error), member_id))

        record = group.record(group.current_assignments(), times.wall_ms)
        self._outbox.add(Write([record], completed=completed))

    # SyncGroup

    def sync(self, sync: Sync, times: Times, respond: SyncResponder) -> None:
        """Handle SyncGroup: respond once the leader's assignment is committed."""
        group = self._rebalances.groups.get(sync.group)
        if group is None:
            respond(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
            return
        error = _check_generation(group, sync.member_id, sync.instance_id, sync.generation)
        if error is ErrorCode.NONE and (
            sync.protocol_type not in (None, group.protocol_type)
            or sync.protocol not in (None, group.protocol)
        ):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is ErrorCode.NONE and group.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE:
            respond(SyncResult(error))
            return
        member = group.members[sync.member_id]
        member.has_synced = True
        self._rebalances.extend_session(group, member, times)
        if group.state is GroupState.STABLE:
            respond(_assigned(group, member))
            return
        member.respond_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = respond
        # The leader may be slow: the session resumes with its assignment, and the sync deadline limits the wait.
        self._rebalances.end_session(group, member.id)
        if member.id == group.leader:
            self._store_assignment(group, sync.assignments, times)

    def _store_assignment(self, group: ClassicGroup, assignments: dict[str, bytes], times: Times) -> None:
        generation = group.generation
        known = {member_id: assignments.get(member_id, b"") for member_id in group.members}
        record = group.record(known, times.wall_ms)

        def appended(end_offset: int) -> None:
            del end_offset
            group.is_persisted = True

        def completed(error: ErrorCode, times: Times) -> None:
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
                return
            if error is not ErrorCode.NONE:
                self._rebalances.reset_assignments(group, append_error(error), times)
                self._rebalances.prepare(group, f"the assignment was not committed: {error.name}", times)
                return
            group.change_state(GroupState.STABLE, times.wall_ms)
            for member in group.members.values():
                member.assignment = known.get(member.id, b"")
                if member.awaiting_sync is not None:
                    self._rebalances.extend_session(group, member, times)
                    member.respond_sync(_assigned(group, member), self._outbox)

        self._outbox.add(Write([record], appended, completed))

    # Heartbeat and LeaveGroup

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, times: Times
    ) -> ErrorCode:
        """Handle Heartbeat; return the error of the response."""
        group = self._rebalances.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = _check_generation(group, member_id, instance_id, generation)
        if error is not ErrorCode.NONE:
            return error
        member = group.members[member_id]
        if member.awaiting_join is None and member.awaiting_sync is None:
            self._rebalances.extend_session(group, member, times)
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(
        self, group_id: str, leaving: Sequence[tuple[str, str | None]], times: Times
    ) -> list[tuple[str, ErrorCode]]:
        """Handle LeaveGroup of (member id, instance id) pairs; a static member may leave by its instance id alone.
        Returns the (member id, error) of each pair."""
        group = self._rebalances.groups.get(group_id)
        results = []
        for member_id, instance_id in leaving:
            found, error = (
                (member_id, ErrorCode.UNKNOWN_MEMBER_ID)
                if group is None
                else _find_leaving(group, member_id, instance_id)
            )
            results.append((found, error))
            if group is None or error is not ErrorCode.NONE:
                continue
            if found in group.pending:
                self._rebalances.remove_pending(group, found, times)
            else:
                self._rebalances.remove_member(group, found, "it sent LeaveGroup", times)
        return results

    def check_commit(
        self,
        group: ClassicGroup,
        member_id: str,
        instance_id: str | None,
        generation: int,
        is_transactional: bool,
    ) -> ErrorCode:
        """Return the error of an offset commit by the member, NONE if it is allowed."""
        if generation < 0 and not member_id and instance_id is None:
            if is_transactional or group.state is GroupState.EMPTY:
                return ErrorCode.NONE
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = _check_member(group, member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation != group.generation and not (is_transactional and generation < 0):
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING_REBALANCE and not is_transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE


def _assigned(group: ClassicGroup, member: ClassicMember) -> SyncResult:
    return SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol, member.assignment)


def _check_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    if instance_id is not None:
        known = group.static_members.get(instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if known != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def _check_generation(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    error = _check_member(group, member_id, instance_id)
    if error is ErrorCode.NONE and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _find_leaving(group: ClassicGroup, member_id: str, instance_id: str | None) -> tuple[str, ErrorCode]:
    """Return the id of a leaving member and an error; a static member may be named by its instance id alone."""
    if instance_id is not None:
        known = group.static_members.get(instance_id)
        if known is None:
            return member_id, ErrorCode.UNKNOWN_MEMBER_ID
        if member_id and known != member_id:
            return member_id, ErrorCode.FENCED_INSTANCE_ID
        return known, ErrorCode.NONE
    if member_id in group.members or member_id in group.pending:
        return member_id, ErrorCode.NONE
    return member_id, ErrorCode.UNKNOWN_MEMBER_ID
