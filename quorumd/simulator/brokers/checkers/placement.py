"""Invariants of the placement of new topics, one of them statistical, over all topics of a seed."""

from __future__ import annotations

from typing import Final

from quorumd.controller.broker import Broker
from quorumd.simulator.brokers.checkers.base import BrokerChecker, named
from quorumd.simulator.brokers.cluster_view import ClusterView, PartitionChange

MIN_PROBABILITY: Final = 1e-12
"""Probability below which a streak is a violation: one false alarm in about ten billion topics."""


class FirstLeadersAreSpread(BrokerChecker):
    """Every active broker leads the first partition of a topic with equal probability, so consecutive topics are not
    led from the same rack, or by the same broker, for very long."""

    invariant = "first leaders of new topics are spread over brokers and racks"

    def __init__(self) -> None:
        self._broker = _Streak()
        self._rack = _Streak()

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        if change.before is not None or change.after is None or change.where.number:
            return
        active = [broker for broker in view.image.brokers.values() if broker.is_active]
        leader = view.image.brokers.get(change.after.leader)
        if leader is None or leader not in active:
            return
        in_rack: list[Broker] = [broker for broker in active if broker.rack == leader.rack]
        for what, probability in (
            ("broker", self._broker.seen(leader.id, 1 / len(active))),
            ("rack", self._rack.seen(leader.rack, len(in_rack) / len(active))),
        ):
            if probability < MIN_PROBABILITY:
                raise self.violation(
                    f"{named(view, change.where)} is led by broker {leader.id} of rack {leader.rack!r}, one of "
                    f"{len(active)} active ones: this streak of topics led by the same {what} has a probability of "
                    f"{probability:.0e}"
                )


class CordonedBrokersGetNoReplicas(BrokerChecker):
    """Placement, assignments and reassignments exclude brokers whose directories are all cordoned, and do not name a
    cordoned directory (KIP-1066)."""

    invariant = "no new replica is placed on a cordoned broker"

    def partition_changed(self, view: ClusterView, change: PartitionChange) -> None:
        if change.after is None:
            return
        before = change.before.replicas if change.before is not None else ()
        for index, replica in enumerate(change.after.replicas):
            broker = view.image.brokers.get(replica)
            if replica in before or broker is None:
                continue
            directories = change.after.directories
            in_cordoned = bool(directories) and directories[index] in (broker.cordoned or ())
            if broker.is_cordoned or in_cordoned:
                raise self.violation(f"{named(view, change.where)} gets a replica on {broker!r}")


class _Streak:
    """The probability of the current streak of equal observations."""

    def __init__(self) -> None:
        self._last: object = None
        self._probability = 1.0

    def seen(self, what: object, share: float) -> float:
        self._probability = self._probability * share if what == self._last else 1.0
        self._last = what
        return self._probability
