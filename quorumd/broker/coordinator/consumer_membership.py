"""Handles ConsumerGroupHeartbeat for consumer groups (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from quorumd.broker.coordinator.consumer_group import (
    JOINING,
    LEAVING,
    LEAVING_STATIC,
    Assignment,
    ConsumerGroup,
    ConsumerMember,
    find_member,
)
from quorumd.broker.coordinator.consumer_rebalance import ConsumerRebalances, MemberChange
from quorumd.broker.coordinator.effects import Times
from quorumd.broker.coordinator.large_members import MAX_MEMBERS
from quorumd.broker.coordinator.topic_regexes import RegexCompiler
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode, RequestError


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


class ConsumerMembership:
    """Handles ConsumerGroupHeartbeat requests."""

    def __init__(
        self, rebalances: ConsumerRebalances, settings: GroupSettings, compile_regex: RegexCompiler
    ) -> None:
        self._rebalances = rebalances
        self._settings = settings
        self._compile_regex = compile_regex

    def heartbeat(
        self,
        heartbeat: Heartbeat,
        times: Times,
        respond: HeartbeatResponder,
    ) -> None:
        """Handle a heartbeat: respond once its records are committed."""
        try:
            self._check(heartbeat)
            group = self._rebalances.find(heartbeat.group, creates=heartbeat.epoch == JOINING)
            if heartbeat.epoch in (LEAVING, LEAVING_STATIC):
                self._leave(group, heartbeat, times, respond)
            else:
                self._update(group, heartbeat, times, respond)
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
    ) -> None:
        known, replaced = self._find_member(group, heartbeat)
        member = self._updated(known or replaced or ConsumerMember(heartbeat.member_id), heartbeat)
        if member.regex and member.regex not in group.regex_subscribers:
            self._compile_regex(member.regex)
        is_full = heartbeat.epoch == JOINING or (
            heartbeat.rebalance_timeout_ms >= 0
            and (heartbeat.topics is not None or heartbeat.regex is not None)
            and heartbeat.owned is not None
        )

        def completed(error: ErrorCode, member: ConsumerMember) -> None:
            if error is not ErrorCode.NONE:
                respond(HeartbeatResult(error))
                return
            is_assignment_changed = known is None or known.assigned != member.assigned
            assignment = member.assigned if is_full or is_assignment_changed else None
            respond(HeartbeatResult(ErrorCode.NONE, None, member.id, member.epoch, assignment))

        change = MemberChange(member, known, replaced, heartbeat.owned)
        after = self._rebalances.update(group, change, times, completed)
        self._rebalances.evaluate_regexes(after, heartbeat.may_describe, times)

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
                # A member that restarts with the other protocol has not left: a classic static member never does.
                if replaced.epoch != LEAVING_STATIC and replaced.classic is None:
                    text = f"instance id {instance_id} is in use by member {holder}"
                    raise RequestError(ErrorCode.UNRELEASED_INSTANCE_ID, text)
                return None, replaced
            if known is None and len(group.members) >= min(self._settings.consumer_max_size, MAX_MEMBERS):
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
            classic=None,
        )

    # Leaving

    def _leave(
        self, group: ConsumerGroup, heartbeat: Heartbeat, times: Times, respond: HeartbeatResponder
    ) -> None:
        member_id = heartbeat.member_id
        member = find_member(group, member_id, heartbeat.instance_id)

        def completed(error: ErrorCode) -> None:
            left = HeartbeatResult(ErrorCode.NONE, None, member_id, heartbeat.epoch)
            respond(left if error is ErrorCode.NONE else HeartbeatResult(error))

        if heartbeat.epoch == LEAVING_STATIC:
            self._rebalances.leave_temporarily(group, member, times, completed)
        else:
            self._rebalances.remove(group, [member_id], times, completed)
