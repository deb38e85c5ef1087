"""Placement over many topics: leaders and replicas of first partitions and of partitions added later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from math import sqrt
from random import Random

import pytest

from quorumd.controller.broker import Broker
from quorumd.controller.partition import Replicas
from quorumd.controller.placement import Placement
from tests.support.controller.topic_harness import a_broker

TOPICS = 800
PARTITIONS = 4
Z_OF_ONE_IN_A_MILLION = 4.75
EVEN = [[size] * racks for racks in range(2, 8) for size in (1, 2)]
UNEVEN = [
    [1, 3],
    [1, 2, 3],
    [2, 2, 5],
    [1, 1, 1, 4],
    [1, 2, 2, 3, 4],
    [1, 1, 2, 2, 3, 3],
    [1, 2, 1, 2, 1, 2, 5],
]


def with_factors(all_sizes: list[list[int]], *factors: int) -> list[tuple[list[int], int]]:
    """Racks with the replication factors that their brokers allow."""
    return [(sizes, factor) for sizes in all_sizes for factor in factors if factor <= sum(sizes)]


def brokers_of(sizes: list[int]) -> list[Broker]:
    """Racks of these sizes."""
    racks = [chr(ord("a") + number) for number, size in enumerate(sizes) for _ in range(size)]
    return [a_broker(101 + number, rack) for number, rack in enumerate(racks)]


@cache
def placed(sizes: tuple[int, ...], factor: int) -> list[list[Replicas]]:
    """Replicas of the first partitions of topics with random ids; tests share them, as placing takes long."""
    random = Random(12)
    brokers = brokers_of(list(sizes))
    placements = (Placement(brokers, factor, random.randbytes(16)) for _ in range(TOPICS))
    return [list(map(placement.replicas_of, range(max(PARTITIONS, len(sizes))))) for placement in placements]


def leaders_of(sizes: list[int], factor: int, number: int) -> list[int]:
    """The leader of one partition of every topic."""
    return [topic[number][0] for topic in placed(tuple(sizes), factor)]


def assert_distributed(seen: Iterable[Hashable], expected: Mapping[Hashable, float]) -> None:
    """Pearson's chi-square with one false alarm in a million; its quantile by Wilson and Hilferty (1931)."""
    counts = Counter(seen)
    assert set(counts) <= set(expected), f"unexpected: {set(counts) - set(expected)}"
    assert sum(expected.values()) == pytest.approx(1.0)
    total, freedom = counts.total(), len(expected) - 1
    found = sum((counts[key] - total * share) ** 2 / (total * share) for key, share in expected.items())
    if not freedom:
        return
    spread = 2 / (9 * freedom)
    limit = freedom * (1 - spread + Z_OF_ONE_IN_A_MILLION * sqrt(spread)) ** 3
    assert found < limit, f"chi-square {found:.1f} is above {limit:.1f}: {counts}"


def uniform(values: Iterable[Hashable]) -> dict[Hashable, float]:
    listed = list(values)
    return dict.fromkeys(listed, 1 / len(listed))


def expected_sets(brokers: list[Broker], factor: int) -> dict[Hashable, float]:
    """Any broker leads; each further replica is on any broker of the racks with the fewest replicas."""
    sets: dict[Hashable, float] = {}

    def extend(chosen: tuple[Broker, ...], share: float) -> None:
        if len(chosen) == factor:
            key = frozenset(broker.id for broker in chosen)
            sets[key] = sets.get(key, 0.0) + share
            return
        in_rack = Counter(broker.rack for broker in chosen)
        left = [broker for broker in brokers if broker not in chosen]
        fewest = min(in_rack[broker.rack] for broker in left)
        candidates = [broker for broker in left if in_rack[broker.rack] == fewest]
        for broker in candidates:
            extend((*chosen, broker), share / len(candidates))

    extend((), 1.0)
    return sets


@pytest.mark.parametrize(("sizes", "factor"), with_factors(EVEN + UNEVEN, 1, 2, 3))
def test_any_broker_leads_a_topic_of_one_partition(sizes: list[int], factor: int) -> None:
    assert_distributed(leaders_of(sizes, factor, 0), uniform(broker.id for broker in brokers_of(sizes)))


@pytest.mark.parametrize(("sizes", "factor"), with_factors(EVEN + UNEVEN, 2, 3))
def test_replicas_are_on_any_broker_of_the_racks_with_fewest_replicas(sizes: list[int], factor: int) -> None:
    held = [frozenset(topic[0]) for topic in placed(tuple(sizes), factor)]
    assert_distributed(held, expected_sets(brokers_of(sizes), factor))


@pytest.mark.parametrize("sizes", EVEN + UNEVEN, ids=str)
def test_any_broker_leads_an_added_partition(sizes: list[int]) -> None:
    for number in range(1, PARTITIONS):
        assert_distributed(leaders_of(sizes, 1, number), uniform(broker.id for broker in brokers_of(sizes)))


@pytest.mark.parametrize(("sizes", "factor"), with_factors(EVEN, 2, 3))
def test_any_broker_leads_an_added_partition_with_followers(sizes: list[int], factor: int) -> None:
    """With uneven racks the broker with the fewest replicas leads next, so leaders are not uniform."""
    for number in range(1, PARTITIONS):
        leaders = leaders_of(sizes, factor, number)
        assert_distributed(leaders, uniform(broker.id for broker in brokers_of(sizes)))


def test_large_rack_leads_in_proportion_to_its_brokers() -> None:
    leaders = leaders_of([8] + [1] * 8, 1, 0)
    assert_distributed((leader < 109 for leader in leaders), {True: 0.5, False: 0.5})


@pytest.mark.parametrize("sizes", EVEN, ids=str)
def test_neighbouring_partitions_are_led_in_different_racks(sizes: list[int]) -> None:
    rack_of = {broker.id: broker.rack for broker in brokers_of(sizes)}
    for topic in placed(tuple(sizes), 1):
        racks = {rack_of[replicas[0]] for replicas in topic[: len(sizes)]}
        assert len(racks) == len(sizes)


def test_any_active_broker_leads_while_others_are_fenced() -> None:
    brokers = [a_broker(number, "abc"[number % 3], fenced=number in (0, 1, 3)) for number in range(8)]
    random = Random(12)
    leaders = [Placement(brokers, 2, random.randbytes(16)).replicas_of(0)[0] for _ in range(TOPICS)]
    assert_distributed(leaders, uniform([2, 4, 5, 6, 7]))
