"""Placement of new partitions on any brokers."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from quorumd.controller.broker import Broker
from quorumd.controller.placement import Placement
from tests.support.controller.topic_harness import a_broker

SEEDS = st.binary(min_size=16, max_size=16)
ONE_RACK = st.just(None)
RACKS = st.sampled_from([None, "a", "b", "c", "d"])


@st.composite
def some_brokers(draw: st.DrawFn, racks: st.SearchStrategy[str | None]) -> list[Broker]:
    """At least one of them active."""
    ids = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=15, unique=True))
    brokers = [a_broker(ids[0], draw(racks))]
    for broker_id in ids[1:]:
        fenced, draining = draw(st.booleans()), draw(st.integers(0, 9)) == 0
        brokers.append(a_broker(broker_id, draw(racks), fenced=fenced, draining=draining))
    return draw(st.permutations(brokers))


def usable(brokers: list[Broker]) -> list[Broker]:
    return [broker for broker in brokers if not broker.in_controlled_shutdown]


@given(data=st.data(), brokers=some_brokers(RACKS), seed=SEEDS)
def test_replicas_are_distinct_usable_and_led_by_an_active_one(
    data: st.DataObject, brokers: list[Broker], seed: bytes
) -> None:
    factor = data.draw(st.integers(1, len(usable(brokers))))
    placement = Placement(brokers, factor, seed)
    active = {broker.id for broker in brokers if broker.is_active}
    for number in range(2 * len(brokers)):
        replicas = placement.replicas_of(number)
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= {broker.id for broker in usable(brokers)}
        assert replicas[0] in active


@given(data=st.data(), brokers=some_brokers(RACKS), seed=SEEDS)
def test_replicas_are_spread_evenly_over_racks(
    data: st.DataObject, brokers: list[Broker], seed: bytes
) -> None:
    factor = data.draw(st.integers(1, len(usable(brokers))))
    placement = Placement(brokers, factor, seed)
    rack_of = {broker.id: broker.rack for broker in brokers}
    sizes = Counter(broker.rack for broker in usable(brokers))
    for number in range(2 * len(brokers)):
        in_rack = Counter(rack_of[replica] for replica in placement.replicas_of(number))
        assert len(in_rack) == min(factor, len(sizes))
        most = max(in_rack.values())
        assert all(in_rack[rack] >= min(most - 1, size) for rack, size in sizes.items())


@given(data=st.data(), brokers=some_brokers(ONE_RACK), seed=SEEDS)
def test_without_racks_fenced_brokers_are_the_last_resort(
    data: st.DataObject, brokers: list[Broker], seed: bytes
) -> None:
    factor = data.draw(st.integers(1, len(usable(brokers))))
    placement = Placement(brokers, factor, seed)
    active = {broker.id for broker in brokers if broker.is_active}
    for number in range(2 * len(brokers)):
        assert len(active.intersection(placement.replicas_of(number))) == min(factor, len(active))


@given(data=st.data(), brokers=some_brokers(RACKS), seed=SEEDS)
def test_leaders_are_spread_evenly_at_any_time(
    data: st.DataObject, brokers: list[Broker], seed: bytes
) -> None:
    factor = data.draw(st.integers(1, len(usable(brokers))))
    placement = Placement(brokers, factor, seed)
    leads = dict.fromkeys((broker.id for broker in brokers if broker.is_active), 0)
    for number in range(3 * len(brokers)):
        leads[placement.replicas_of(number)[0]] += 1
        assert max(leads.values()) - min(leads.values()) <= 1


@given(data=st.data(), count=st.integers(1, 15), seed=SEEDS)
def test_without_racks_replicas_are_spread_evenly_at_any_time(
    data: st.DataObject, count: int, seed: bytes
) -> None:
    factor = data.draw(st.integers(1, count))
    placement = Placement([a_broker(number) for number in range(count)], factor, seed)
    holds = dict.fromkeys(range(count), 0)
    for number in range(3 * count):
        for replica in placement.replicas_of(number):
            holds[replica] += 1
        assert max(holds.values()) - min(holds.values()) <= 1


@given(data=st.data(), brokers=some_brokers(RACKS), seed=SEEDS)
def test_placement_is_independent_of_the_order_of_brokers_and_partitions(
    data: st.DataObject, brokers: list[Broker], seed: bytes
) -> None:
    factor = data.draw(st.integers(1, len(usable(brokers))))
    numbers = range(20)
    in_order = Placement(brokers, factor, seed)
    placed = [in_order.replicas_of(number) for number in numbers]
    again = Placement(brokers[::-1], factor, seed)
    for number in data.draw(st.permutations(numbers)):
        assert again.replicas_of(number) == placed[number]
