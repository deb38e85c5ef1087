"""The progress of a plan's partitions, and the brokers they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from quorumd.cli.output import JsonObject, listed_ids

if TYPE_CHECKING:
    from quorumd.cli.partitions.reassignment_plan import Plan
    from quorumd.client.admin import AdminClient, TopicPartition
    from quorumd.protocol.messages.describe_topic_partitions_response import (
        DescribeTopicPartitionsResponsePartition,
    )
    from quorumd.protocol.messages.list_partition_reassignments_response import OngoingPartitionReassignment

_SHOWN_BROKERS = 5


class State(StrEnum):
    """The state of one partition of a plan."""

    DONE = "done"
    MOVING = "moving"
    ELSEWHERE = "moving elsewhere"
    NOT_MOVED = "not moved"
    MISSING = "no such partition"


class PartitionProgress(NamedTuple):
    """The progress of one partition."""

    where: TopicPartition
    target: tuple[int, ...]
    state: State
    now: tuple[int, ...] = ()
    """The replicas of the partition, or its target replicas if it is being moved elsewhere."""
    waiting_for: tuple[int, ...] = ()
    """Added brokers that are not in sync yet."""
    leaderless: bool = False
    may_lead: tuple[int, ...] = ()
    """Brokers that may become leader; a leaderless partition is not copied until one of them returns."""

    @property
    def text(self) -> str:
        """The state as text."""
        if self.state is State.MOVING:
            if self.leaderless:
                return f"moving, has no leader{_until_back(self.may_lead)}"
            if not self.waiting_for:
                return "moving, waiting for enough replicas in sync"
            return f"moving, waiting for {_broker_list(self.waiting_for)} to be in sync"
        if self.state in (State.ELSEWHERE, State.NOT_MOVED):
            return (
                f"{self.state}, {'to' if self.state is State.ELSEWHERE else 'it has'} {listed_ids(self.now)}"
            )
        return str(self.state)

    def row(self) -> JsonObject:
        """The partition in `--output json`."""
        return {
            "topic": self.where.topic,
            "partition": self.where.partition,
            "state": str(self.state),
            "target": list(self.target),
            "replicas": list(self.now),
            "waitsFor": list(self.waiting_for),
            "leaderless": self.leaderless,
        }


async def progress_of(admin: AdminClient, plan: Plan) -> list[PartitionProgress]:
    """The progress of each partition of the plan. Raises RequestFailed."""
    # In this order: a reassignment that is not listed before the topics are described has ended or never started.
    ongoing = await admin.list_reassignments(list(plan))
    found = await _described(admin, plan)
    return [_progress(where, target, found.get(where), ongoing.get(where)) for where, target in plan.items()]


async def current_replicas(admin: AdminClient, plan: Plan) -> Plan:
    """A plan with the current replicas of the partitions, without replicas added by a reassignment in progress.

    Raises RequestFailed.
    """
    ongoing = await admin.list_reassignments(list(plan))
    found = await _described(admin, plan)
    settled = {where: tuple(partition.replica_nodes) for where, partition in found.items()}
    for where, move in ongoing.items():
        settled[where] = tuple(r for r in move.replicas if r not in move.adding_replicas)
    return settled


async def _described(
    admin: AdminClient, plan: Plan
) -> dict[TopicPartition, DescribeTopicPartitionsResponsePartition]:
    """The existing partitions of the plan. Raises RequestFailed."""
    from quorumd.client.admin import TopicPartition

    topics = await admin.describe_topics(sorted({where.topic for where in plan}), skip_unknown=True)
    found = {
        TopicPartition(topic.name or "", partition.partition_index): partition
        for topic in topics
        for partition in topic.partitions
    }
    return {where: found[where] for where in plan if where in found}


def _progress(
    where: TopicPartition,
    target: tuple[int, ...],
    partition: DescribeTopicPartitionsResponsePartition | None,
    ongoing: OngoingPartitionReassignment | None,
) -> PartitionProgress:
    if partition is None:
        return PartitionProgress(where, target, State.MISSING)
    if ongoing is None:
        now = tuple(partition.replica_nodes)
        return PartitionProgress(where, target, State.DONE if now == target else State.NOT_MOVED, now)
    ongoing_target = tuple(r for r in ongoing.replicas if r not in ongoing.removing_replicas)
    if ongoing_target != target:
        return PartitionProgress(where, target, State.ELSEWHERE, ongoing_target)
    missing = tuple(r for r in ongoing.adding_replicas if r not in partition.isr_nodes)
    may_lead = tuple(sorted({*partition.isr_nodes, *(partition.eligible_leader_replicas or ())}))
    return PartitionProgress(
        where,
        target,
        State.MOVING,
        tuple(ongoing.replicas),
        missing,
        partition.leader_id < 0,
        may_lead,
    )


def _broker_list(brokers: Sequence[int]) -> str:
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {', '.join(map(str, brokers))}"


def _until_back(may_lead: Sequence[int]) -> str:
    if not may_lead:
        return ""
    return f" until {'one of ' if len(may_lead) > 1 else ''}{_broker_list(may_lead)} is back"


def summary(progress: Sequence[PartitionProgress]) -> str:
    """The brokers that moving partitions wait for: `waiting for broker 4 (12 partitions), 5 (3)`.

    Partitions without a leader are reported separately: `2 partitions have no leader until broker 1 is back`.
    """
    leaderless = [each for each in progress if each.leaderless]
    others = _waiting_text([each for each in progress if not each.leaderless])
    if not leaderless:
        return others
    have = "partition has" if len(leaderless) == 1 else "partitions have"
    candidates = {each.may_lead for each in leaderless}
    text = (
        f"{len(leaderless)} {have} no leader{_until_back(candidates.pop()) if len(candidates) == 1 else ''}"
    )
    moving = any(each.state is State.MOVING and not each.leaderless for each in progress)
    return f"{text}; {others}" if moving else text


def _waiting_text(progress: Sequence[PartitionProgress]) -> str:
    counts: dict[int, int] = {}
    for each in progress:
        for broker in each.waiting_for:
            counts[broker] = counts.get(broker, 0) + 1
    if not counts:
        moving = sum(each.state is State.MOVING for each in progress)
        return f"{moving} waiting for enough replicas in sync" if moving else "no partition is moving"
    shown = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN_BROKERS]
    text = ", ".join(
        f"{broker} ({count} partition{'' if count == 1 else 's'})" if n == 0 else f"{broker} ({count})"
        for n, (broker, count) in enumerate(shown)
    )
    more = f" and {len(counts) - len(shown)} more" if len(counts) > len(shown) else ""
    return f"waiting for broker {text}{more}"
