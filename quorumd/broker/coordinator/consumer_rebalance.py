"""Rebalances of consumer groups (KIP-848): group epochs, target assignments, and the sessions of members."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from quorumd.broker.coordinator.assignors import ASSIGNORS
from quorumd.broker.coordinator.classic_membership import append_error
from quorumd.broker.coordinator.classic_rebalance import ClassicRebalances, DeadlineKey
from quorumd.broker.coordinator.consumer_group import (
    EMPTY_ASSIGNMENT,
    JOINING,
    LEAVING_STATIC,
    Assignment,
    ConsumerGroup,
    ConsumerGroups,
    ConsumerMember,
    MemberState,
    ResolvedRegex,
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    reconcile,
    regex_record,
    regex_tombstone,
    target_epoch_record,
    target_record,
)
from quorumd.broker.coordinator.effects import Deadlines, Outbox, Times, Write
from quorumd.broker.coordinator.large_members import MemberSizes, subscription_bytes
from quorumd.broker.coordinator.metadata_hash import group_hash
from quorumd.broker.coordinator.migration import (
    downgrade,
    downgrade_records,
    is_downgraded,
    upgrade,
    upgrade_records,
)
from quorumd.broker.coordinator.records import CoordinatorRecord
from quorumd.broker.coordinator.topic_regexes import (
    EvaluatedRegexes,
    RegexCompiler,
    RegexEvaluation,
    RegexSchedule,
)
from quorumd.broker.coordinator.topics import Topics
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode, RequestError

CONSUMER_SESSION: Final = "consumer session"
REVOCATION: Final = "revocation"
REJOIN: Final = "rejoin"
"""A classic member that must join again has not done so."""
MEMBER_SYNC: Final = "member sync"
"""A classic member that has joined has not sent SyncGroup."""
CONSUMER_DEADLINES: Final = (CONSUMER_SESSION, REVOCATION, REJOIN, MEMBER_SYNC)


class Regexes(NamedTuple):
    """Compiles regular expressions, and begins evaluations, after which `regexes_evaluated` is called."""

    compile: RegexCompiler
    evaluate: Callable[[RegexEvaluation], None]


class MemberChange(NamedTuple):
    """A member as its request describes it, and as the group knows it: None if it is new."""

    member: ConsumerMember
    known: ConsumerMember | None
    replaced: ConsumerMember | None
    """The previous static member with the same instance id."""
    owned: Assignment | None
    """The partitions that the client owns, None if it did not report them."""


class ConsumerRebalances:
    """Manages the epochs, assignments and sessions of the consumer groups in `state`. A response is sent once the
    records of its request are committed."""

    def __init__(
        self,
        state: ConsumerGroups,
        classic: ClassicRebalances,
        settings: GroupSettings,
        deadlines: Deadlines[DeadlineKey],
        outbox: Outbox,
        topics: Topics,
        regexes: Regexes,
        sizes: MemberSizes,
    ) -> None:
        self.state = state
        self._sizes = sizes
        self._classic = classic
        self._settings = settings
        self._deadlines = deadlines
        self._outbox = outbox
        self._topics = topics
        self._checked: dict[str, int] = {}
        """Group -> the offset of the metadata at which its topics were last hashed."""
        self._regexes = regexes
        self._schedule = RegexSchedule(settings)

    # Members

    def find(self, group_id: str, creates: bool) -> ConsumerGroup:
        """Return a consumer group or, if `creates`, a new one or the upgrade of a classic group, for `update`.

        Raises RequestError with GROUP_ID_NOT_FOUND.
        """
        group = self.state.groups.get(group_id)
        classic = self._classic.groups.get(group_id)
        if group is None and creates:
            if classic is None:
                return ConsumerGroup(group_id)
            return upgrade(classic, self._settings, self._topics)
        if group is None:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"{group_id} is not a consumer group")
        return group

    def update(
        self,
        group: ConsumerGroup,
        change: MemberChange,
        times: Times,
        respond: Callable[[ErrorCode, ConsumerMember], None],
    ) -> ConsumerGroup:
        """Add or change a member: bump the group epoch and compute the target assignment if they are out of date, and
        move the member towards its target. Respond with it; return the group as it will be. Raises RequestError."""
        known, replaced, member = change.known, change.replaced, change.member
        self._check_size(group.id, known, member)
        source = known or replaced or ConsumerMember(member.id)
        is_new = group.id not in self.state.groups
        records = upgrade_records(group) if group.id in self._classic.groups else []
        if replaced is not None:
            target = group.targets.get(replaced.id, EMPTY_ASSIGNMENT)
            records += [*member_tombstones(group.id, replaced.id), target_record(group.id, member.id, target)]
            member = replace(member, epoch=JOINING, previous_epoch=-1)
        if known is None or _subscription(known) != _subscription(member):
            records.append(member_record(group.id, member))
        is_same = known is not None and not records and self._checked.get(group.id) == self._topics.offset
        after = group if is_same else _with_member(group, member, None if replaced is None else replaced.id)
        if after is not group:
            records += [regex_tombstone(group.id, unused) for unused in after.drop_unused_regexes()]
        changed = is_new or after.topics_of(member) != group.topics_of(source)
        changed = changed or (known or member).assignor != member.assignor
        self._maybe_bump_epoch(after, changed, records)
        if group.epoch > group.target_epoch and after is group:
            after = _with_member(group, member, None)
        self._maybe_assign(after, times, records)
        target = after.targets.get(member.id, EMPTY_ASSIGNMENT)
        member = reconcile(member, after.target_epoch, target, after.owners, change.owned)
        if known is None or _current_assignment(known) != _current_assignment(member):
            records.append(current_record(group.id, member))
        if member.classic is not None:
            joined = _with_member(after, member, None)
            if is_downgraded(joined, self._settings):
                must_rebalance = joined.epoch > group.epoch or joined.state != "Stable"
                self._downgrade(group, joined, must_rebalance, times, lambda error: respond(error, member))
                return joined
        self._write(group.id, records, lambda error: respond(error, member))
        for each in group.members.values() if is_new else ():
            self.extend_session(group.id, each, times)
        if replaced is not None:
            self._cancel_deadlines(group.id, replaced.id)
        self._set_deadlines(group.id, known, member, times)
        if member.classic is not None:
            self._await_sync(group.id, member, times)
        return after

    def _check_size(self, group_id: str, known: ConsumerMember | None, member: ConsumerMember) -> None:
        if known is not None and _subscription(known) == _subscription(member):
            return
        size = subscription_bytes(member)
        error = self._sizes.check(size)
        if error is not ErrorCode.NONE:
            raise RequestError(error, f"the subscription of member {member.id} has {size} bytes")
        self._sizes.record(group_id, member.id, size)

    def leave_temporarily(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        times: Times,
        respond: Callable[[ErrorCode], None],
    ) -> None:
        """Record that a static member has left, and keep its assignment until its session times out."""
        left = replace(
            member,
            epoch=LEAVING_STATIC,
            previous_epoch=member.epoch,
            state=MemberState.STABLE,
            revoking=EMPTY_ASSIGNMENT,
        )
        self._write(group.id, [current_record(group.id, left)], respond)
        self._deadlines.cancel(DeadlineKey(REVOCATION, group.id, member.id))
        self.extend_session(group.id, member, times)

    def remove(
        self,
        group: ConsumerGroup,
        member_ids: Collection[str],
        times: Times,
        respond: Callable[[ErrorCode], None] = lambda error: None,
    ) -> None:
        """Remove members, which releases their partitions, and bump the group epoch. If only classic members are
        left, the group is downgraded."""
        after = group.copy()
        for member_id in member_ids:
            after.remove(member_id)
        if is_downgraded(after, self._settings):
            self._downgrade(group, after, True, times, respond)
            return
        records = [record for each in member_ids for record in member_tombstones(group.id, each)]
        records += [regex_tombstone(group.id, unused) for unused in after.drop_unused_regexes()]
        records.append(epoch_record(group.id, group.epoch + 1, group.metadata_hash))
        if not after.regex_subscribers:
            self._schedule.forget(group.id)
        self._write(group.id, records, respond)
        for member_id in member_ids:
            self._cancel_deadlines(group.id, member_id)

    def _downgrade(
        self,
        group: ConsumerGroup,
        after: ConsumerGroup,
        must_rebalance: bool,
        times: Times,
        respond: Callable[[ErrorCode], None],
    ) -> None:
        """Replace a group by the classic group with the members of `after`, at the generation that they know."""
        downgraded = downgrade(after, group.epoch, self._topics, times.wall_ms)
        records = downgrade_records(group, downgraded, must_rebalance, times.wall_ms)

        def appended(end_offset: int) -> None:
            del end_offset
            for member_id in group.members:
                self._cancel_deadlines(group.id, member_id)
            self.state.apply(records)
            self._schedule.forget(group.id)
            self._classic.adopt(downgraded, times)
            if must_rebalance:
                self._classic.prepare(downgraded, "the group was downgraded", times)

        self._outbox.add(Write(records, appended, lambda error, times: respond(append_error(error))))

    # Classic members

    def await_rejoin(self, group_id: str, member: ConsumerMember, times: Times) -> None:
        """Give a classic member that has to join again its rebalance timeout to do so."""
        key = DeadlineKey(REJOIN, group_id, member.id)
        if key not in self._deadlines:
            self._deadlines.set(key, times.now_ms + member.rebalance_timeout_ms)

    def _await_sync(self, group_id: str, member: ConsumerMember, times: Times) -> None:
        self._deadlines.cancel(DeadlineKey(REJOIN, group_id, member.id))
        sync_ms = times.now_ms + member.rebalance_timeout_ms
        self._deadlines.set(DeadlineKey(MEMBER_SYNC, group_id, member.id), sync_ms)

    def synced(
        self, group_id: str, member: ConsumerMember, times: Times, respond: Callable[[ErrorCode], None]
    ) -> None:
        """Record that a classic member has sent SyncGroup; respond once its assignment is committed."""
        self._deadlines.cancel(DeadlineKey(MEMBER_SYNC, group_id, member.id))
        self.extend_session(group_id, member, times)
        self._outbox.add(Write([], completed=lambda error, times: respond(append_error(error))))

    # Group epoch and target assignment

    def _maybe_bump_epoch(
        self, group: ConsumerGroup, changed: bool, records: list[CoordinatorRecord]
    ) -> None:
        if not changed and self._checked.get(group.id) == self._topics.offset:
            return
        self._checked[group.id] = self._topics.offset
        metadata_hash = self._hash(group.subscribed_topics())
        if changed or metadata_hash != group.metadata_hash:
            group.epoch += 1
            group.metadata_hash = metadata_hash
            records.append(epoch_record(group.id, group.epoch, metadata_hash))

    def _hash(self, topics: Iterable[str]) -> int:
        return group_hash({name: found for name in topics if (found := self._topics.hash(name)) is not None})

    def _maybe_assign(self, group: ConsumerGroup, times: Times, records: list[CoordinatorRecord]) -> None:
        if group.epoch <= group.target_epoch:
            return
        known = {
            name: found for name in group.subscribed_topics() if (found := self._topics.partitions(name))
        }
        members = sorted(group.members.values(), key=lambda each: (each.instance_id or each.id, each.id))
        subscriptions = {
            member.id: frozenset(known[name][0] for name in group.topics_of(member) if name in known)
            for member in members
        }
        assign = ASSIGNORS[group.assignor(self._settings.consumer_assignors[0])]
        targets = assign(subscriptions, dict(known.values()), group.targets)
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                records.append(target_record(group.id, member_id, target))
        group.targets = targets
        group.target_epoch = group.epoch
        records.append(target_epoch_record(group.id, group.epoch, times.wall_ms))

    # Regular expressions

    def evaluate_regexes(
        self, group: ConsumerGroup, may_describe: Callable[[str], bool], times: Times
    ) -> None:
        """Begin to evaluate the regular expressions of a group, if an evaluation is due."""
        patterns = self._schedule.begin(group, self._topics.created_offset, times)
        if patterns:
            self._regexes.evaluate(RegexEvaluation(group.id, patterns, may_describe))

    def regexes_evaluated(self, evaluated: EvaluatedRegexes, times: Times) -> None:
        """Record the topics that the expressions of a group match; if they have changed, bump the group epoch."""
        group = self.state.groups.get(evaluated.group)
        if not self._schedule.end(evaluated.group, evaluated.version, times) or group is None:
            return
        after = group.copy()
        records: list[CoordinatorRecord] = []
        changed = False
        for pattern, topics in evaluated.topics.items():
            if pattern in group.regex_subscribers:
                after.regexes[pattern] = ResolvedRegex(topics, evaluated.version, times.wall_ms)
                records.append(regex_record(group.id, pattern, after.regexes[pattern]))
                changed = changed or topics != group.matched_topics(pattern)
        self._maybe_bump_epoch(after, changed, records)
        self._write(group.id, records, lambda error: None)

    # Writes and deadlines

    def _write(
        self, group_id: str, records: Sequence[CoordinatorRecord], respond: Callable[[ErrorCode], None]
    ) -> None:
        def appended(end_offset: int) -> None:
            del end_offset
            self.state.apply(records)
            self._classic.hand_over(group_id)

        def completed(error: ErrorCode, times: Times) -> None:
            del times
            if error is not ErrorCode.NONE:
                self._checked.pop(group_id, None)
                self._schedule.forget(group_id)
            respond(append_error(error))

        self._outbox.add(Write(records, appended, completed))

    def extend_session(self, group_id: str, member: ConsumerMember, times: Times) -> None:
        """Restart the session timeout of a member."""
        timeout_ms = self._settings.consumer_session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self._deadlines.set(DeadlineKey(CONSUMER_SESSION, group_id, member.id), times.now_ms + timeout_ms)

    def _set_deadlines(
        self, group_id: str, known: ConsumerMember | None, member: ConsumerMember, times: Times
    ) -> None:
        self.extend_session(group_id, member, times)
        key = DeadlineKey(REVOCATION, group_id, member.id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._deadlines.cancel(key)
        elif key not in self._deadlines or known is None or known.revoking != member.revoking:
            self._deadlines.set(key, times.now_ms + member.rebalance_timeout_ms)

    def _cancel_deadlines(self, group_id: str, member_id: str) -> None:
        for kind in CONSUMER_DEADLINES:
            self._deadlines.cancel(DeadlineKey(kind, group_id, member_id))

    def loaded(self, times: Times) -> None:
        """Start the session and revocation timeouts of all members."""
        for group in self.state.groups.values():
            for member in group.members.values():
                self._set_deadlines(group.id, None, member, times)

    def expire(self, key: DeadlineKey, times: Times) -> None:
        """Remove a member that missed a deadline."""
        group = self.state.groups.get(key.group)
        if group is not None and key.member in group.members:
            self.remove(group, [key.member], times)


def _subscription(member: ConsumerMember) -> tuple[object, ...]:
    return (member.instance_id, member.rack_id, member.client_id, member.client_host,
            member.rebalance_timeout_ms, member.topics, member.regex, member.assignor, member.classic)  # fmt: skip


def _current_assignment(member: ConsumerMember) -> tuple[object, ...]:
    return member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking


def _with_member(group: ConsumerGroup, member: ConsumerMember, replaced: str | None) -> ConsumerGroup:
    """Return a copy of the group with this member, and without the member `replaced` by it."""
    after = group.copy()
    if replaced is not None:
        target = after.targets.pop(replaced, EMPTY_ASSIGNMENT)
        after.remove(replaced)
        after.targets[member.id] = target
    after.put(member)
    return after
