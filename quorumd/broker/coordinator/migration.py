"""Online migration of groups between the classic and the consumer protocol (KIP-848).

A group that has members of both protocols is a consumer group: its classic members are `ConsumerMember`s with
`ClassicProtocols`. A classic group becomes a consumer group when the first member joins with the consumer protocol,
and a consumer group becomes a classic group when its last member that uses the consumer protocol leaves. The members
keep their ids, their assignments and the offsets of the group.

Groups without members migrate whatever the policy.
"""

from __future__ import annotations

from dataclasses import replace

from quorumd.broker.coordinator.classic_group import (
    CONSUMER_PROTOCOL,
    ClassicGroup,
    ClassicMember,
    GroupState,
    tombstone,
)
from quorumd.broker.coordinator.consumer_group import (
    EMPTY_ASSIGNMENT,
    Assignment,
    ClassicProtocols,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    target_epoch_record,
    target_record,
)
from quorumd.broker.coordinator.embedded_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    partitions_of,
)
from quorumd.broker.coordinator.records import CoordinatorRecord
from quorumd.broker.coordinator.topics import Topics
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode, QuorumdError, RequestError

# Upgrade


def upgrade(group: ClassicGroup, settings: GroupSettings, topics: Topics) -> ConsumerGroup:
    """Return the consumer group with the members of a classic group, at its generation.

    Every member owns the partitions of its last assignment until it joins again. A cooperative member (KIP-429) that
    owned others when it last joined may not have revoked them yet, so they stay its own until then too. Members that
    have not been in a generation are left out: they own nothing, their clients may not know their ids, and will join
    again. Raises RequestError with GROUP_ID_NOT_FOUND if the group cannot be upgraded.
    """
    upgraded = ConsumerGroup(group.id)
    if not group.members:
        return upgraded
    reason = ""
    if not settings.consumer_migration_policy.allows_upgrade:
        reason = f"group.consumer.migration.policy is {settings.consumer_migration_policy.value}"
    elif group.protocol_type != CONSUMER_PROTOCOL:
        reason = f"its members are not consumers but use protocol type {group.protocol_type}"
    elif len(group.members) > settings.consumer_max_size:
        reason = f"it has more than group.consumer.max.size={settings.consumer_max_size} members"
    if reason:
        raise _refusal(group, reason)
    upgraded.epoch = upgraded.target_epoch = group.generation
    for member in group.members.values():
        if member.is_new:
            continue
        try:
            upgraded.put(_consumer_member(group, member, topics))
        except QuorumdError as fault:
            raise _refusal(group, f"member {member.id}: {fault}") from None
        upgraded.targets[member.id] = upgraded.members[member.id].assigned
    for known in list(upgraded.members.values()):
        metadata = group.members[known.id].metadata(group.protocol)
        owned = partitions_of(decode_subscription(metadata).owned_partitions, topics)
        kept = frozenset(each for each in owned if each not in upgraded.owners)
        if kept:
            upgraded.put(replace(known, state=MemberState.UNREVOKED_PARTITIONS, revoking=kept))
    return upgraded


def _refusal(group: ClassicGroup, reason: str) -> RequestError:
    text = f"classic group {group.id} cannot become a consumer group: {reason}"
    return RequestError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _consumer_member(group: ClassicGroup, member: ClassicMember, topics: Topics) -> ConsumerMember:
    subscription = decode_subscription(member.metadata(group.protocol))
    return ConsumerMember(
        member.id,
        member.instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        frozenset(subscription.topics),
        classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned=_assigned(member, topics),
    )


def _assigned(member: ClassicMember, topics: Topics) -> Assignment:
    if not member.assignment:
        return EMPTY_ASSIGNMENT
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, "the user data of its assignor would be lost")
    return partitions_of(assignment.assigned_partitions, topics)


def upgrade_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return the records that replace a classic group by the consumer group that `upgrade` returned."""
    records = [tombstone(group.id)]
    if group.members:
        members = group.members.values()
        records += [member_record(group.id, member) for member in members]
        records.append(epoch_record(group.id, group.epoch, group.metadata_hash))
        records += [target_record(group.id, each, target) for each, target in group.targets.items()]
        records.append(target_epoch_record(group.id, group.target_epoch, 0))
        records += [current_record(group.id, member) for member in members]
    return records


# Downgrade


def is_downgraded(group: ConsumerGroup, settings: GroupSettings) -> bool:
    """Whether a consumer group becomes a classic group: all its members use the classic protocol."""
    return (
        0 < len(group.members) <= settings.max_size
        and settings.consumer_migration_policy.allows_downgrade
        and all(member.classic is not None for member in group.members.values())
    )


def downgrade(group: ConsumerGroup, generation: int, topics: Topics, wall_ms: int) -> ClassicGroup:
    """Return the stable classic group with the members of a consumer group; each member is assigned what it owns,
    which it keeps if the group is upgraded before it has joined again."""
    classic = ClassicGroup(group.id, wall_ms)
    classic.generation = generation
    classic.is_persisted = True
    for member in group.members.values():
        assert member.classic is not None
        known = ClassicMember(
            member.id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.classic.session_timeout_ms,
            member.classic.protocols,
        )
        known.has_synced = True
        classic.add(known, CONSUMER_PROTOCOL)
    classic.protocol = classic.select_protocol()
    for known in classic.members.values():
        member = group.members[known.id]
        owned = member.assigned | member.revoking
        known.assignment = encode_assignment(owned, known.metadata(classic.protocol), topics)
    classic.change_state(GroupState.STABLE, wall_ms)
    return classic


def downgrade_records(
    group: ConsumerGroup, downgraded: ClassicGroup, must_rebalance: bool, wall_ms: int
) -> list[CoordinatorRecord]:
    """Return the records that replace a consumer group by a classic group.

    A group that has to rebalance is recorded without members, until its next generation is: if another coordinator
    loaded it as a stable group, the partitions of members that have left would stay unassigned.
    """
    recorded = downgraded
    if must_rebalance:
        recorded = ClassicGroup(group.id, wall_ms)
        recorded.generation = downgraded.generation
        recorded.protocol_type = CONSUMER_PROTOCOL
    return [*group_tombstones(group), recorded.record(recorded.current_assignments(), wall_ms)]
