"""Operators of clusters with brokers are busy; seeds of defects that their requests found stay correct."""

from __future__ import annotations

from collections import Counter

import pytest

from quorumd.simulator.brokers.options import OPERATOR_NAMES
from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.simulation import Simulation

REQUESTS = {
    "topics": ("CreateTopics", "DeleteTopics", "CreatePartitions"),
    "configs": ("IncrementalAlterConfigs", "AlterConfigs"),
    "elections": ("ElectLeaders",),
}


def test_operators_succeed_and_fail() -> None:
    counters: Counter[str] = Counter()
    for seed in range(1, 5):
        report = Simulation(seed, draw_options(seed, "operators")).run()
        assert report.ok, str(report)
        counters.update(report.counters)
    for name in OPERATOR_NAMES:
        for api in REQUESTS[name]:
            assert counters[f"{name}: {api}: NONE"] > 0, counters
    assert counters["topics: CreateTopics: INVALID_REPLICA_ASSIGNMENT"] > 0
    assert counters["features changed"] > 0


@pytest.mark.parametrize(
    "seed",
    [
        3,  # A null value removed the cluster-wide min.insync.replicas.
    ],
)
def test_seeds_of_defects_hold(seed: int) -> None:
    report = Simulation(seed, draw_options(seed, "operators")).run()
    assert report.ok, str(report)
