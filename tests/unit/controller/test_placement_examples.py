from __future__ import annotations

from quorumd.controller.placement import Placement
from tests.support.controller.topic_harness import a_broker

SEED = b"the topic's id.."


def test_partitions_of_a_broker_have_different_other_replicas() -> None:
    """Many brokers share the load of replacing its replicas."""
    placement = Placement([a_broker(number) for number in range(12)], 3, SEED)
    place_replicas = [placement.replicas_of(number) for number in range(120)]
    partners = {other for replicas in place_replicas if 0 in replicas for other in replicas}
    assert len(partners) == 12


def test_first_partitions_are_on_different_brokers() -> None:
    brokers = [a_broker(number) for number in range(5)]
    first = {Placement(brokers, 3, number.to_bytes(16, "big")).replicas_of(0)[0] for number in range(40)}
    assert first == {0, 1, 2, 3, 4}


def test_broker_alone_in_its_rack_leads_first_as_often_as_others() -> None:
    brokers = [a_broker(1, "a"), *(a_broker(number, "b") for number in (2, 3, 4))]
    first = [Placement(brokers, 1, number.to_bytes(16, "big")).replicas_of(0)[0] for number in range(400)]
    assert 80 <= first.count(1) <= 120


def test_rack_of_one_broker_gets_a_replica_of_everything() -> None:
    brokers = [*(a_broker(number, "abc"[number % 2]) for number in range(6)), a_broker(6, "c")]
    placement = Placement(brokers, 3, SEED)
    assert all(6 in placement.replicas_of(number) for number in range(20))


def test_fenced_brokers_hold_replicas_but_do_not_lead() -> None:
    placement = Placement([a_broker(1), a_broker(2, fenced=True), a_broker(3, draining=True)], 1, SEED)
    assert (placement.usable, placement.leader_candidates) == (2, 1)
