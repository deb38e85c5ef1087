"""Handles ConsumerGroupHeartbeat for consumer groups (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from quorumd.broker.coordinator.assignors import ASSIGNORS
from quorumd.broker.coordinator.classic_membership import append_error
from quorumd.broker.coordinator.classic_rebalance import DeadlineKey
from quorumd.broker.coordinator.consumer_group import (
    EMPTY_ASSIGNMENT,
    JOINING,
    LEAVING,
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
from quorumd.broker.coordinator.records import CoordinatorRecord
from quorumd.broker.coordinator.topic_regexes import (
    EvaluatedRegexes,
    RegexCompiler,
    RegexEvaluation,
    RegexSchedule,
)
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode, RequestError
from quorumd.ids import KafkaUuid

CONSUMER_SESSION: Final = "consumer session"
REVOCATION: Final = "revocation"


class Topics(Protocol):
    """The topics in the metadata of the broker."""

    @property
    def offset(self) -> int:
        """The offset of the metadata, which increases with every change."""

    def partitions(self, name: str) -> tuple[KafkaUuid, int] | None:
        """Return the id and the number of partitions of a topic, None if it does not exist."""

    @property
    def created_offset(self) -> int:
        """The offset of the metadata at which a topic was last created."""


def _may_describe_all(topic: str) -> bool:
    del topic
    return True


class Heartbeat(NamedTuple):
    """A ConsumerGroupHeartbeat request; None or -1 means unchanged."""

    group: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: Sequence[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Assignment | None = None
    client_id: str = ""
    client_host: str = ""
    may_describe: Callable[[str], bool] = _may_describe_all
    """Whether the client may describe a topic; its regular expression does not match other topics."""


class HeartbeatResult(NamedTuple):
    """The result of a heartbeat; `assignment` is None if it is unchanged."""

    error: ErrorCode
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    assignment: Assignment | None = None


HeartbeatResponder = Callable[[HeartbeatResult], None]


class Regexes(NamedTuple):
    """Compiles regular expressions, and begins evaluations, after which `regexes_evaluated` is called."""

    compile: RegexCompiler
    evaluate: Callable[[RegexEvaluation], None]


class ConsumerMembership:
    """Handles the heartbeats of the consumer groups in `state`. A response is sent once its records are committed."""

    def __init__(
        self,
        state: ConsumerGroups,
        settings: GroupSettings,
        deadlines: Deadlines[DeadlineKey],
        outbox: Outbox,
        topics: Topics,
        regexes: Regexes,
    ) -> None:
        self._state = state
        self._settings = settings
        self._deadlines = deadlines
        self._outbox = outbox
        self._topics = topics
        self._checked: dict[str, int] = {}
        """Group -> the offset of the metadata at which its topics were last hashed."""
        self._regexes = regexes
        self._schedule = RegexSchedule(settings)

    def heartbeat(
        self,
        heartbeat: Heartbeat,
        times: Times,
        respond: HeartbeatResponder,
        tombstones: Sequence[CoordinatorRecord] = (),
    ) -> None:
        """Handle a heartbeat. `tombstones` delete a classic group with the same id in the same write."""
        try:
            self._check(heartbeat)
            group = self._state.groups.get(heartbeat.group)
            if group is None and heartbeat.epoch != JOINING:
                raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {heartbeat.group} does not exist")
            if heartbeat.epoch in (LEAVING, LEAVING_STATIC):
                assert group is not None
                self._leave(group, heartbeat, times, respond)
            else:
                self._update(group or ConsumerGroup(heartbeat.group), heartbeat, times, respond, tombstones)
        except RequestError as refused:
            respond(HeartbeatResult(refused.error, str(refused)))

    def _check(self, heartbeat: Heartbeat) -> None:
        problem = ""
        if not heartbeat.group:
            problem = "the group id is empty"
        elif not heartbeat.member_id:
            problem = "the member id is empty"
        elif heartbeat.epoch < LEAVING_STATIC:
            problem = f"member epoch {heartbeat.epoch} is invalid"
        elif heartbeat.epoch == LEAVING_STATIC and heartbeat.instance_id is None:
            problem = f"member epoch {LEAVING_STATIC} requires an instance id"
        elif heartbeat.epoch == JOINING:
            if heartbeat.rebalance_timeout_ms < 0:
                problem = "a joining member must set a rebalance timeout"
            elif heartbeat.owned is None or heartbeat.owned:
                problem = "a joining member must send an empty list of owned partitions"
            elif heartbeat.topics is None and heartbeat.regex is None:
                problem = "a joining member must subscribe to topics"
        if problem:
            raise RequestError(ErrorCode.INVALID_REQUEST, problem)
        if heartbeat.assignor is not None and heartbeat.assignor not in self._settings.consumer_assignors:
            supported = ", ".join(self._settings.consumer_assignors)
            text = f"assignor {heartbeat.assignor} is not supported; use one of {supported}"
            raise RequestError(ErrorCode.UNSUPPORTED_ASSIGNOR, text)

    # Joining and heartbeats

    def _update(
        self,
        group: ConsumerGroup,
        heartbeat: Heartbeat,
        times: Times,
        respond: HeartbeatResponder,
        tombstones: Sequence[CoordinatorRecord],
    ) -> None:
        known, replaced = self._find_member(group, heartbeat)
        records = list(tombstones)
        source = known or replaced or ConsumerMember(heartbeat.member_id)
        member = self._updated(source, heartbeat)
        if member.regex and member.regex not in group.regex_subscribers:
            self._regexes.compile(member.regex)
        if replaced is not None:
            records += member_tombstones(group.id, replaced.id)
            member = replace(member, epoch=JOINING, previous_epoch=-1)
        if known is None or _subscription(known) != _subscription(member):
            records.append(member_record(group.id, member))
        is_same = known is not None and not records and self._checked.get(group.id) == self._topics.offset
        after = group if is_same else _with_member(group, member, None if replaced is None else replaced.id)
        if after is not group:
            records += [regex_tombstone(group.id, unused) for unused in after.drop_unused_regexes()]
        changed = not group.epoch or after.topics_of(member) != group.topics_of(source)
        changed = changed or (known or member).assignor != member.assignor
        self._maybe_bump_epoch(after, changed, records)
        if group.epoch > group.target_epoch and after is group:
            after = _with_member(group, member, None)
        self._maybe_assign(after, times, records)
        target = after.targets.get(member.id, EMPTY_ASSIGNMENT)
        member = reconcile(member, after.target_epoch, target, after.owners, heartbeat.owned)
        if known is None or _current_assignment(known) != _current_assignment(member):
            records.append(current_record(group.id, member))
        is_full = heartbeat.epoch == JOINING or (
            heartbeat.rebalance_timeout_ms >= 0
            and (heartbeat.topics is not None or heartbeat.regex is not None)
            and heartbeat.owned is not None
        )
        is_assignment_changed = known is None or known.assigned != member.assigned
        assignment = member.assigned if is_full or is_assignment_changed else None
        result = HeartbeatResult(ErrorCode.NONE, None, member.id, member.epoch, assignment)
        self._write(group.id, records, result, respond)
        self._set_deadlines(group.id, known, member, times)
        if replaced is not None:
            self._cancel_deadlines(group.id, replaced.id)
        self._evaluate_regexes(after, heartbeat.may_describe, times)

    def _find_member(
        self, group: ConsumerGroup, heartbeat: Heartbeat
    ) -> tuple[ConsumerMember | None, ConsumerMember | None]:
        """Return the existing member, and the previous static member that a joining static member replaces."""
        known = group.members.get(heartbeat.member_id)
        instance_id = heartbeat.instance_id
        holder = group.static_members.get(instance_id) if instance_id is not None else None
        if heartbeat.epoch == JOINING:
            if known is None and holder is not None:
                replaced = group.members[holder]
                if replaced.epoch != LEAVING_STATIC:
                    text = f"instance id {instance_id} is in use by member {holder}"
                    raise RequestError(ErrorCode.UNRELEASED_INSTANCE_ID, text)
                return None, replaced
            if known is None and len(group.members) >= self._settings.consumer_max_size:
                text = f"group {group.id} is full: it has {len(group.members)} members"
                raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
            return known, None
        if known is None:
            text = f"member {heartbeat.member_id} is not in group {group.id}"
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        if instance_id is not None and holder != known.id:
            error = ErrorCode.UNKNOWN_MEMBER_ID if holder is None else ErrorCode.FENCED_INSTANCE_ID
            raise RequestError(error, f"instance id {instance_id} does not belong to member {known.id}")
        is_current = heartbeat.epoch == known.epoch
        # The response with the current epoch may have been lost.
        lost_response = (
            heartbeat.epoch == known.previous_epoch
            and heartbeat.owned is not None
            and heartbeat.owned <= known.assigned
        )
        if not is_current and not lost_response:
            text = f"epoch {heartbeat.epoch} of member {known.id} is fenced; its epoch is {known.epoch}"
            raise RequestError(ErrorCode.FENCED_MEMBER_EPOCH, text)
        return known, None

    @staticmethod
    def _updated(source: ConsumerMember, heartbeat: Heartbeat) -> ConsumerMember:
        topics = source.topics if heartbeat.topics is None else frozenset(heartbeat.topics)
        timeout_ms = heartbeat.rebalance_timeout_ms
        return replace(
            source,
            id=heartbeat.member_id,
            instance_id=source.instance_id if heartbeat.instance_id is None else heartbeat.instance_id,
            rack_id=source.rack_id if heartbeat.rack_id is None else heartbeat.rack_id,
            client_id=heartbeat.client_id,
            client_host=heartbeat.client_host,
            rebalance_timeout_ms=source.rebalance_timeout_ms if timeout_ms < 0 else timeout_ms,
            topics=topics,
            regex=source.regex if heartbeat.regex is None else heartbeat.regex,
            assignor=source.assignor if heartbeat.assignor is None else heartbeat.assignor,
        )

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
        """Return a hash of the existing topics and their partition counts, 0 if none exists."""
        found = [
            f"{name} {self._topics.partitions(name)}\n"
            for name in sorted(topics)
            if self._topics.partitions(name)
        ]
        digest = blake2b("".join(found).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True) if found else 0

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

    def _evaluate_regexes(
        self, group: ConsumerGroup, may_describe: Callable[[str], bool], times: Times
    ) -> None:
        patterns = self._schedule.begin(group, self._topics.created_offset, times)
        if patterns:
            self._regexes.evaluate(RegexEvaluation(group.id, patterns, may_describe))

    def regexes_evaluated(self, evaluated: EvaluatedRegexes, times: Times) -> None:
        """Record the topics that the expressions of a group match; if they have changed, bump the group epoch."""
        group = self._state.groups.get(evaluated.group)
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
        self._write(group.id, records, HeartbeatResult(ErrorCode.NONE), lambda result: None)

    # Leaving

    def _leave(
        self, group: ConsumerGroup, heartbeat: Heartbeat, times: Times, respond: HeartbeatResponder
    ) -> None:
        member_id = heartbeat.member_id
        if heartbeat.instance_id is not None:
            holder = group.static_members.get(heartbeat.instance_id)
            if holder is None:
                text = f"static member {heartbeat.instance_id} is not in group {group.id}"
                raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, text)
            if holder != member_id:
                text = f"instance id {heartbeat.instance_id} is in use by member {holder}"
                raise RequestError(ErrorCode.FENCED_INSTANCE_ID, text)
        member = group.members.get(member_id)
        if member is None:
            raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} is not in group {group.id}")
        result = HeartbeatResult(ErrorCode.NONE, None, member_id, heartbeat.epoch)
        if heartbeat.epoch == LEAVING_STATIC:
            left = replace(
                member,
                epoch=LEAVING_STATIC,
                previous_epoch=member.epoch,
                state=MemberState.STABLE,
                revoking=EMPTY_ASSIGNMENT,
            )
            self._write(group.id, [current_record(group.id, left)], result, respond)
            self._deadlines.cancel(DeadlineKey(REVOCATION, group.id, member_id))
            self.extend_session(group.id, member_id, times)
        else:
            self.remove(group, member_id, times, lambda error: respond(result._replace(error=error)))

    def remove(
        self,
        group: ConsumerGroup,
        member_id: str,
        times: Times,
        respond: Callable[[ErrorCode], None] = lambda error: None,
    ) -> None:
        """Remove a member, which releases its partitions, and bump the group epoch."""
        del times
        after = group.copy()
        after.remove(member_id)
        records = [
            *member_tombstones(group.id, member_id),
            *(regex_tombstone(group.id, unused) for unused in after.drop_unused_regexes()),
            epoch_record(group.id, group.epoch + 1, group.metadata_hash),
        ]
        if not after.regex_subscribers:
            self._schedule.forget(group.id)
        self._write(group.id, records, HeartbeatResult(ErrorCode.NONE), lambda result: respond(result.error))
        self._cancel_deadlines(group.id, member_id)

    # Writes and deadlines

    def _write(
        self,
        group_id: str,
        records: Sequence[CoordinatorRecord],
        result: HeartbeatResult,
        respond: HeartbeatResponder,
    ) -> None:
        def appended(end_offset: int) -> None:
            del end_offset
            self._state.apply(records)

        def completed(error: ErrorCode, times: Times) -> None:
            del times
            if error is ErrorCode.NONE:
                respond(result)
            else:
                self._checked.pop(group_id, None)
                self._schedule.forget(group_id)
                respond(HeartbeatResult(append_error(error)))

        self._outbox.add(Write(records, appended, completed))

    def extend_session(self, group_id: str, member_id: str, times: Times) -> None:
        """Restart the session timeout of a member."""
        key = DeadlineKey(CONSUMER_SESSION, group_id, member_id)
        self._deadlines.set(key, times.now_ms + self._settings.consumer_session_timeout_ms)

    def _set_deadlines(
        self, group_id: str, known: ConsumerMember | None, member: ConsumerMember, times: Times
    ) -> None:
        self.extend_session(group_id, member.id, times)
        key = DeadlineKey(REVOCATION, group_id, member.id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._deadlines.cancel(key)
        elif key not in self._deadlines or known is None or known.revoking != member.revoking:
            self._deadlines.set(key, times.now_ms + member.rebalance_timeout_ms)

    def _cancel_deadlines(self, group_id: str, member_id: str) -> None:
        for kind in (CONSUMER_SESSION, REVOCATION):
            self._deadlines.cancel(DeadlineKey(kind, group_id, member_id))

    def loaded(self, times: Times) -> None:
        """Start the session and revocation timeouts of all members."""
        for group in self._state.groups.values():
            for member in group.members.values():
                self._set_deadlines(group.id, None, member, times)

    def expire(self, key: DeadlineKey, times: Times) -> None:
        """Remove a member whose session or revocation timed out."""
        group = self._state.groups.get(key.group)
        if group is not None and key.member in group.members:
            self.remove(group, key.member, times)


def _subscription(member: ConsumerMember) -> tuple[object, ...]:
    return (member.instance_id, member.rack_id, member.client_id, member.client_host,
            member.rebalance_timeout_ms, member.topics, member.regex, member.assignor)  # fmt: skip


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
