"""Conditions that brokers must reach once faults have ended. Each function describes why its condition is not met, ""
if it is met.

L1 and L2 (brokers run unfenced), L3 (proposals complete), L4 (brokers have the committed metadata), L5 (producers get
responses), L6 (acknowledged records are replicated), L7 (reassignments complete).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorumd.controller.partition import NO_LEADER, PartitionId
from quorumd.simulator.brokers.checkers.base import named
from quorumd.simulator.brokers.cluster_view import ClusterView

Missing = Callable[[ClusterView], str]


def all_brokers_running(view: ClusterView) -> str:
    for broker_id in view.brokers:
        known = view.image.brokers.get(broker_id)
        if known is None or not known.is_active or not view.is_up(broker_id):
            return f"broker {broker_id} does not run or is fenced: {known!r}"
    return ""


def no_pending_proposals(view: ClusterView) -> str:
    for seen in view.brokers.values():
        for where, replica in seen.replicas.items():
            if replica.leadership is not None and replica.leadership.proposal is not None:
                return f"broker {seen.id} waits for a response about {named(view, where)}"
    return ""


def metadata_propagated(view: ClusterView) -> str:
    """Describe a replica without the committed state of its partition."""
    for where in _partitions(view):
        row = view.image.partition(where)
        assert row is not None
        for broker_id in row.replicas:
            seen = view.brokers.get(broker_id)
            replica = seen.replicas.get(where) if seen is not None else None
            if replica is None or replica.metadata is None or replica.metadata.as_tuple() != row.as_tuple():
                known = replica.metadata if replica is not None else None
                return f"broker {broker_id} has {known!r} for {named(view, where)}, committed is {row!r}"
    return ""


def all_writes_resolved(view: ClusterView) -> str:
    for where, history in view.histories.items():
        if history.waiting:
            return f"the writes {list(history.waiting)[:5]} to {named(view, where)} have no outcome"
    return ""


def records_replicated(view: ClusterView) -> str:
    """Describe a replica that lacks committed records. `all_replicas_in_sync` checks leaderless partitions."""
    for where, history in view.histories.items():
        row = view.image.partition(where)
        if row is None or row.leader == NO_LEADER or not history.holds:
            continue
        for broker_id in row.replicas:
            log = view.brokers[broker_id].log(where)
            if log is None or log.records[: history.high_watermark] != history.consumed:
                return f"broker {broker_id} lacks committed records of {named(view, where)}"
    return ""


def all_replicas_in_sync(view: ClusterView) -> str:
    """Describe a partition whose replicas are not all in sync, or that has no leader although a replica may lead. No
    replica may lead if all eligible replicas and the last known leader are lost."""
    for where in _partitions(view):
        row = view.image.partition(where)
        assert row is not None
        if row.leader == NO_LEADER:
            last = [replica for replica in row.last_known_elr if replica in row.replicas]
            if row.isr or row.elr or last:
                return f"{named(view, where)} has no leader: {row!r}"
        elif set(row.isr) != set(row.replicas):
            return f"not all replicas of {named(view, where)} are in sync: {row!r}"
    return ""


def reassignments_completed(view: ClusterView) -> str:
    for where in view.image.index.reassigning:
        row = view.image.partition(where)
        if row is not None and row.leader != NO_LEADER:
            return f"the reassignment of {named(view, where)} does not complete: {row!r}"
    return ""


def preferred_leaders_elected(view: ClusterView) -> str:
    """Describe a partition that is not led by its preferred leader, although leaders are balanced and it is in
    sync."""
    for where in _partitions(view) if view.is_balanced else ():
        row = view.image.partition(where)
        assert row is not None
        if row.leader != NO_LEADER and row.leader != row.replicas[0] and row.replicas[0] in row.isr:
            return f"the preferred leader of {named(view, where)} does not lead: {row!r}"
    return ""


def _partitions(view: ClusterView) -> list[PartitionId]:
    return [
        PartitionId(topic.id, number) for topic in view.image.topics.values() for number in topic.partitions
    ]


ALL: Final[tuple[Missing, ...]] = (
    all_brokers_running,
    reassignments_completed,
    all_replicas_in_sync,
    no_pending_proposals,
    metadata_propagated,
    all_writes_resolved,
    records_replicated,
    preferred_leaders_elected,
)


def missing(view: ClusterView) -> str:
    """Describe the first condition that is not met, "" if all are."""
    return next((text for text in (look(view) for look in ALL) if text), "")
