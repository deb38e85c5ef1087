"""Operators of clusters with brokers are busy."""

from __future__ import annotations

from collections import Counter

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
    for name, apis in REQUESTS.items():
        for api in apis:
            assert counters[f"{name}: {api}: NONE"] > 0, counters
    assert counters["topics: CreateTopics: INVALID_REPLICA_ASSIGNMENT"] > 0
    assert counters["features changed"] > 0


def test_invalid_isr_changes_are_refused_in_every_version() -> None:
    counters: Counter[str] = Counter()
    drawn = [draw_options(seed, "invalid ISR changes") for seed in range(1, 20)]
    assert {version for options in drawn for version in options.brokers.alter_partition_versions} == {
        0,
        1,
        2,
        3,
    }
    for seed in (1, 2, 3):
        report = Simulation(seed, drawn[seed - 1]).run()
        assert report.ok, str(report)
        counters.update(report.counters)
    for error in (
        "NONE",
        "INVALID_REQUEST",
        "INELIGIBLE_REPLICA",
        "INVALID_UPDATE_VERSION",
        "NOT_CONTROLLER",
    ):
        assert counters[f"invalid ISR changes: AlterPartition: {error}"] > 0, counters
    assert counters["joins of an ISR"] > 0


def test_mistakes_about_partitions_get_their_errors() -> None:
    counters: Counter[str] = Counter()
    for seed in range(1, 6):
        report = Simulation(seed, draw_options(seed, "partition mistakes")).run()
        assert report.ok, str(report)
        counters.update(report.counters)
    for result in (
        "CreatePartitions: INVALID_PARTITIONS",
        "CreatePartitions: POLICY_VIOLATION",
        "CreatePartitions: INVALID_REPLICA_ASSIGNMENT",
        "AlterPartitionReassignments: INVALID_REPLICA_ASSIGNMENT",
        "AssignReplicasToDirs: UNKNOWN_TOPIC_ID",
        "ElectLeaders: NONE",
        "ElectLeaders: ELECTION_NOT_NEEDED",
    ):
        assert counters[f"partition mistakes: {result}"] > 0, counters
