from __future__ import annotations

from quorumd.controller.placement import Placement
from tests.support.controller.topic_harness import a_broker

SEED = b"the topic's id.."


def test_the_partners_of_a_broker_differ() -> None:
    """So that its replicas come back from many when it is lost."""
    placement = Placement([a_broker(number) for number in range(12)], 3, SEED)
    place_replicas = [placement.replicas_of(number) for number in range(120)]
    partners = {other for replicas in place_replicas if 0 in replicas for other in replicas}
    assert len(partners) == 12


def test_topics_begin_on_different_brokers() -> None:
    brokers = [a_broker(number) for number in range(5)]
    first = {Placement(brokers, 3, number.to_bytes(16, "big")).replicas_of(0)[0] for number in range(40)}
    assert first == {0, 1, 2, 3, 4}


def test_a_rack_of_one_broker_gets_a_replica_of_everything() -> None:
    brokers = [*(a_broker(number, "abc"[number % 2]) for number in range(6)), a_broker(6, "c")]
    placement = Placement(brokers, 3, SEED)
    assert all(6 in placement.replicas_of(number) for number in range(20))


def test_who_can_hold_and_who_can_lead_is_told_apart() -> None:
    placement = Placement([a_broker(1), a_broker(2, fenced=True), a_broker(3, draining=True)], 1, SEED)
    assert (placement.usable, placement.leader_candidates) == (2, 1)
