"""What must come to be once nothing goes wrong any more. Each function says what is still missing, "" for nothing.

L1 and L2 (brokers run unfenced), L3 (proposals end), L4 (what brokers know is what is committed), L5 (producers are
told), L6 (acknowledged records get everywhere), L7 (reassignments end).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorumd.controller.partition import NO_LEADER, PartitionId
from quorumd.simulator.brokers.checkers.base import named
from quorumd.simulator.brokers.scene import Scene

Missing = Callable[[Scene], str]


def brokers_run(scene: Scene) -> str:
    for broker_id in scene.brokers:
        known = scene.image.brokers.get(broker_id)
        if known is None or not known.is_active or not scene.is_up(broker_id):
            return f"broker {broker_id} does not run, or is not unfenced: {known!r}"
    return ""


def proposals_end(scene: Scene) -> str:
    for seen in scene.brokers.values():
        for where, replica in seen.replicas.items():
            if replica.leadership is not None and replica.leadership.proposal is not None:
                return f"broker {seen.id} waits for an answer about {named(scene, where)}"
    return ""


def brokers_know(scene: Scene) -> str:
    """What each replica takes its partition for is what is committed."""
    for where in _partitions(scene):
        row = scene.image.partition(where)
        assert row is not None
        for broker_id in row.replicas:
            seen = scene.brokers.get(broker_id)
            replica = seen.replicas.get(where) if seen is not None else None
            if replica is None or replica.known is None or replica.known.facts() != row.facts():
                known = replica.known if replica is not None else None
                return f"broker {broker_id} takes {named(scene, where)} for {known!r}, committed is {row!r}"
    return ""


def producers_are_told(scene: Scene) -> str:
    for where, ledger in scene.ledgers.items():
        if ledger.waiting:
            return f"nobody says what became of {list(ledger.waiting)[:5]} of {named(scene, where)}"
    return ""


def records_get_everywhere(scene: Scene) -> str:
    """Where somebody leads: whether nobody may is what `everybody_is_in_sync` says."""
    for where, ledger in scene.ledgers.items():
        row = scene.image.partition(where)
        if row is None or row.leader == NO_LEADER or not ledger.holds:
            continue
        for broker_id in row.replicas:
            log = scene.brokers[broker_id].log(where)
            if log is None or log.records[: ledger.high_watermark] != ledger.consumed:
                return f"broker {broker_id} has not all of {named(scene, where)} that is committed"
    return ""


def everybody_is_in_sync(scene: Scene) -> str:
    """Where somebody leads: nobody may, if all who could were lost, and with them who led last."""
    for where in _partitions(scene):
        row = scene.image.partition(where)
        assert row is not None
        if row.leader == NO_LEADER:
            last = [replica for replica in row.last_known_elr if replica in row.replicas]
            if row.isr or row.elr or last:
                return f"nobody leads {named(scene, where)}: {row!r}"
        elif set(row.isr) != set(row.replicas):
            return f"not all replicas of {named(scene, where)} are in sync: {row!r}"
    return ""


def reassignments_end(scene: Scene) -> str:
    for where in scene.image.index.reassigning:
        row = scene.image.partition(where)
        if row is not None and row.leader != NO_LEADER:
            return f"the reassignment of {named(scene, where)} does not end: {row!r}"
    return ""


def preferred_leaders_lead(scene: Scene) -> str:
    """Of a balanced cluster in which everybody is in sync."""
    for where in _partitions(scene) if scene.is_balanced else ():
        row = scene.image.partition(where)
        assert row is not None
        if row.leader != NO_LEADER and row.leader != row.replicas[0] and row.replicas[0] in row.isr:
            return f"the preferred leader of {named(scene, where)} does not lead: {row!r}"
    return ""


def _partitions(scene: Scene) -> list[PartitionId]:
    return [
        PartitionId(topic.id, number) for topic in scene.image.topics.values() for number in topic.partitions
    ]


ALL: Final[tuple[Missing, ...]] = (
    brokers_run,
    reassignments_end,
    everybody_is_in_sync,
    proposals_end,
    brokers_know,
    producers_are_told,
    records_get_everywhere,
    preferred_leaders_lead,
)


def missing(scene: Scene) -> str:
    """The first thing that has not come to be."""
    return next((text for text in (look(scene) for look in ALL) if text), "")
