"""Handles JoinGroup, SyncGroup, Heartbeat and LeaveGroup for classic members of consumer groups.

Such a member does not wait for other members: JoinGroup moves it towards its target assignment, as a heartbeat does
for other members. The generation in its responses is its member epoch, SyncGroup returns its current assignment, and
Heartbeat returns REBALANCE_IN_PROGRESS when it can move further by joining again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from quorumd.broker.coordinator.classic_group import (
    CONSUMER_PROTOCOL,
    JoinResponder,
    JoinResult,
    SyncResponder,
    SyncResult,
)
from quorumd.broker.coordinator.classic_membership import Join, LeaveResponder, Sync
from quorumd.broker.coordinator.consumer_group import (
    EMPTY_ASSIGNMENT,
    ClassicProtocols,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    find_member,
)
from quorumd.broker.coordinator.consumer_rebalance import ConsumerRebalances, MemberChange
from quorumd.broker.coordinator.effects import Times
from quorumd.broker.coordinator.embedded_protocol import (
    decode_subscription,
    encode_assignment,
    partitions_of,
)
from quorumd.broker.coordinator.large_members import MAX_MEMBERS
from quorumd.broker.coordinator.topics import Topics
from quorumd.broker.settings.coordinator_settings import GroupSettings, MigrationPolicy
from quorumd.errors import ErrorCode, QuorumdError, RequestError


class MixedMembership:
    """Handles the requests of classic members of consumer groups."""

    def __init__(
        self,
        rebalances: ConsumerRebalances,
        settings: GroupSettings,
        topics: Topics,
        new_member_id: Callable[[str], str],
    ) -> None:
        self._rebalances = rebalances
        self._settings = settings
        self._topics = topics
        self._new_member_id = new_member_id

    # JoinGroup

    def join(self, group: ConsumerGroup, join: Join, times: Times, respond: JoinResponder) -> None:
        """Handle JoinGroup: respond once the member is committed."""
        member_id = join.member_id

        def completed(error: ErrorCode, member: ConsumerMember) -> None:
            if error is not ErrorCode.NONE:
                respond(JoinResult(error, join.member_id))
                return
            assert member.classic is not None
            protocol = member.classic.protocols[0][0]
            respond(JoinResult(error, member.id, member.epoch, CONSUMER_PROTOCOL, protocol))

        try:
            self._check(group, join)
            if not member_id:
                member_id = self._new_member_id(join.instance_id or join.client_id)
                if join.instance_id is None and join.needs_member_id:
                    raise RequestError(ErrorCode.MEMBER_ID_REQUIRED, "the member must join with its new id")
            self._rebalances.update(group, self._change(group, join, member_id), times, completed)
        except RequestError as refused:
            respond(JoinResult(refused.error, member_id))

    def _check(self, group: ConsumerGroup, join: Join) -> None:
        error = ErrorCode.NONE
        is_known = join.member_id in group.members or join.instance_id in group.static_members
        if self._settings.consumer_migration_policy is MigrationPolicy.DISABLED:
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif not is_known and len(group.members) >= min(self._settings.consumer_max_size, MAX_MEMBERS):
            error = ErrorCode.GROUP_MAX_SIZE_REACHED
        elif join.protocol_type != CONSUMER_PROTOCOL or not _supports(group, join):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is not ErrorCode.NONE:
            raise RequestError(error, f"member {join.member_id} cannot join consumer group {group.id}")

    def _change(self, group: ConsumerGroup, join: Join, member_id: str) -> MemberChange:
        known = group.members.get(member_id)
        replaced = None
        if join.instance_id is not None:
            holder = group.static_members.get(join.instance_id)
            if join.member_id:
                known = find_member(group, member_id, join.instance_id)
            elif holder is not None:
                replaced = group.members[holder]
        try:
            subscription = decode_subscription(join.protocols[0][1])
        except QuorumdError as fault:
            raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(fault)) from None
        source = known or replaced or ConsumerMember(member_id)
        member = replace(
            source,
            id=member_id,
            instance_id=source.instance_id if join.instance_id is None else join.instance_id,
            rack_id=source.rack_id if subscription.rack_id is None else subscription.rack_id,
            client_id=join.client_id,
            client_host=join.client_host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            topics=frozenset(subscription.topics),
            regex="",
            classic=ClassicProtocols(join.session_timeout_ms, join.protocols),
        )
        owned = partitions_of(subscription.owned_partitions, self._topics)
        return MemberChange(member, known, replaced, owned)

    # SyncGroup and Heartbeat

    def sync(self, group: ConsumerGroup, sync: Sync, times: Times, respond: SyncResponder) -> None:
        """Handle SyncGroup: respond with the current assignment once it is committed."""
        try:
            member, classic = _find_classic(group, sync.member_id, sync.instance_id, sync.generation)
        except RequestError as refused:
            respond(SyncResult(refused.error))
            return
        protocol, metadata = classic.protocols[0]
        if sync.protocol_type not in (None, CONSUMER_PROTOCOL) or sync.protocol not in (None, protocol):
            respond(SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif member.epoch < group.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._rebalances.await_rejoin(group.id, member, times)
            respond(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        else:
            assignment = encode_assignment(member.assigned, metadata, self._topics)
            result = SyncResult(ErrorCode.NONE, CONSUMER_PROTOCOL, protocol, assignment)
            self._rebalances.synced(
                group.id, member, times, lambda error: respond(result if not error else SyncResult(error))
            )

    def heartbeat(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str | None,
        generation: int,
        times: Times,
    ) -> ErrorCode:
        """Handle Heartbeat; return the error of the response."""
        try:
            member, _ = _find_classic(group, member_id, instance_id, generation)
        except RequestError as refused:
            return refused.error
        self._rebalances.extend_session(group.id, member, times)
        if not must_rejoin(group, member):
            return ErrorCode.NONE
        self._rebalances.await_rejoin(group.id, member, times)
        return ErrorCode.REBALANCE_IN_PROGRESS

    # LeaveGroup

    def leave(
        self,
        group: ConsumerGroup,
        leaving: Sequence[tuple[str, str | None]],
        times: Times,
        respond: LeaveResponder,
    ) -> None:
        """Handle LeaveGroup, for members of either protocol: respond once their removal is committed."""
        results: list[tuple[str, ErrorCode]] = []
        removed: dict[str, None] = {}
        for member_id, instance_id in leaving:
            try:
                member = find_member(group, member_id, instance_id, is_leaving=True)
            except RequestError as refused:
                results.append((member_id, refused.error))
            else:
                removed[member.id] = None
                results.append((member.id, ErrorCode.NONE))
        if removed:
            self._rebalances.remove(group, list(removed), times, lambda error: respond(error, results))
        else:
            respond(ErrorCode.NONE, results)


def must_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a classic member can move towards its target assignment by joining again.

    The group epoch is ahead of the member, or the member has to revoke partitions, or the partitions for which it has
    waited are free.
    """
    if member.state is MemberState.UNRELEASED_PARTITIONS and member.epoch == group.epoch:
        awaited = group.targets.get(member.id, EMPTY_ASSIGNMENT) - member.assigned
        return all(group.owners.get(each, member.id) == member.id for each in awaited)
    return member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS


def _find_classic(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicProtocols]:
    member = find_member(group, member_id, instance_id)
    if member.classic is None:
        text = f"member {member.id} uses the consumer protocol"
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, text)
    if generation != member.epoch:
        text = f"generation {generation} of member {member.id} is not its epoch {member.epoch}"
        raise RequestError(ErrorCode.ILLEGAL_GENERATION, text)
    return member, member.classic


def _supports(group: ConsumerGroup, join: Join) -> bool:
    """Whether every classic member supports one of the protocols of a joining member."""
    members = [member.classic for member in group.members.values() if member.classic is not None]
    known = [{name for name, _ in classic.protocols} for classic in members]
    return any(all(name in names for names in known) for name, _ in join.protocols)
