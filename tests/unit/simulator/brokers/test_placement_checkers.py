"""The statistical invariant of placement reports only improbable streaks; cordons are respected."""

from __future__ import annotations

from random import Random

from quorumd.controller.broker import UNASSIGNED
from quorumd.controller.placement import Placement
from quorumd.ids import KafkaUuid
from quorumd.simulator.brokers.checkers.placement import CordonedBrokersGetNoReplicas, FirstLeadersAreSpread
from quorumd.simulator.brokers.cluster_view import ClusterView, PartitionChange
from tests.support.simulator.broker_views import WHERE, breaks, broker, row, view_with


def three_racks() -> ClusterView:
    brokers = [broker(number)._replace(rack="abc"[number % 3]) for number in range(1, 7)]
    return view_with(None, *brokers)


def topics_until_broken(checker: FirstLeadersAreSpread, view: ClusterView, leaders: list[int]) -> int | None:
    """Count how many consecutive topics with these leaders violate the invariant."""
    for count, leader in enumerate(leaders, 1):
        change = PartitionChange(WHERE, None, row((leader,), leader), True, 1)
        if breaks(checker.partition_changed, view, change):
            return count
    return None


def test_long_streak_of_one_rack_is_reported() -> None:
    found = topics_until_broken(FirstLeadersAreSpread(), three_racks(), [1, 4] * 50)
    assert found is not None
    assert 20 < found < 40


def test_other_changes_and_a_single_active_broker_are_ignored() -> None:
    view, checker = three_racks(), FirstLeadersAreSpread()
    other = WHERE._replace(number=1)
    for _ in range(100):
        assert not breaks(
            checker.partition_changed, view, PartitionChange(other, None, row((1,), 1), True, 1)
        )
        assert not breaks(
            checker.partition_changed, view, PartitionChange(WHERE, row((1,), 1), row((1,), 1), True, 1)
        )
    for broker_id in range(2, 7):
        view.image.brokers[broker_id] = view.image.brokers[broker_id]._replace(is_fenced=True)
    assert topics_until_broken(checker, view, [1] * 100) is None


def test_placed_leaders_pass() -> None:
    view, random = three_racks(), Random(1)
    brokers = list(view.image.brokers.values())
    leaders = [Placement(brokers, 1, KafkaUuid(random.randbytes(16))).replicas_of(0)[0] for _ in range(2_000)]
    assert topics_until_broken(FirstLeadersAreSpread(), view, leaders) is None


def test_new_replicas_on_cordoned_brokers_are_noticed() -> None:
    directories = (KafkaUuid(b"a directory of 3"),)
    cordoned = broker(3)._replace(directories=directories, cordoned=directories)
    view, checker = view_with(None, broker(1), broker(2), cordoned), CordonedBrokersGetNoReplicas()
    before, without = row((1,), replicas=(1, 3)), row((1,), replicas=(1, 2))
    assert breaks(checker.partition_changed, view, PartitionChange(WHERE, None, before, True, 1))
    assert breaks(checker.partition_changed, view, PartitionChange(WHERE, without, before, True, 1))
    assert not breaks(
        checker.partition_changed,
        view,
        PartitionChange(WHERE, before, row((1,), replicas=(3, 1, 2)), True, 1),
    )
    assert not breaks(checker.partition_changed, view, PartitionChange(WHERE, before, without, True, 1))
    assert not breaks(checker.partition_changed, view, PartitionChange(WHERE, before, None, True, 1))


def test_new_replicas_in_one_cordoned_directory_of_several_are_noticed() -> None:
    free, cordoned = KafkaUuid(b"a free directory"), KafkaUuid(b"no new logs here")
    broker_3 = broker(3)._replace(directories=(free, cordoned), cordoned=(cordoned,))
    view, checker = view_with(None, broker(1), broker_3), CordonedBrokersGetNoReplicas()
    for directory, violation in ((cordoned, True), (free, False), (UNASSIGNED, False)):
        after = row((1,), replicas=(1, 3), directories=(UNASSIGNED, directory))
        assert (
            breaks(checker.partition_changed, view, PartitionChange(WHERE, None, after, True, 1)) is violation
        )
        assert not breaks(checker.partition_changed, view, PartitionChange(WHERE, after, after, True, 1))
