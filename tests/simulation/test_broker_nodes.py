"""Nodes with the broker role under the simulator: their clients work, and the same seed does the same again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorumd.simulator.brokers.options import BrokerOptions
from quorumd.simulator.options import (
    BROKER_NODE_FAULT_NAMES,
    RARE_BROKER_NODE_FAULT_NAMES,
    SimulationOptions,
)
from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.report import Report
from quorumd.simulator.simulation import Simulation

WORK = (
    "records acknowledged",
    "records read",
    "records read committed",
    "transactions committed",
    "offsets committed",
)


def run(seed: int, fault: str, **more: int) -> Report:
    brokers: dict[str, int] = {"nodes": 3, "transactional": 1, "members": 2} | more
    options = SimulationOptions(
        voters=1,
        safety_ms=5000.0,
        faults={fault: 1.0},
        fault_interval_ms=700.0,
        election_timeout_ms=200,
        brokers=BrokerOptions(**brokers, session_timeout_ms=600.0, heartbeat_ms=150.0),  # type: ignore[arg-type]  # integers
    )
    return Simulation(seed, options).run()


@pytest.mark.parametrize(
    "fault", ["kill", "power loss", *BROKER_NODE_FAULT_NAMES, *RARE_BROKER_NODE_FAULT_NAMES]
)
def test_broker_nodes_serve_their_clients_in_spite_of(fault: str) -> None:
    report = run(1, fault)
    assert report.ok, str(report)
    assert {name for name in WORK if not report.counters[name]} == set()
    assert report.counters[f"fault: {fault}"] > 0


def test_voters_with_the_broker_role_do_too() -> None:
    report = run(2, "shutdown", nodes=2, combined=1)
    assert report.ok, str(report)
    assert {name for name in WORK if not report.counters[name]} == set()


def test_runs_of_broker_nodes_repeat() -> None:
    assert run(3, "kill").trace_hash == run(3, "kill").trace_hash


@pytest.mark.parametrize(
    ("profile", "seed"),
    [
        ("broker restarts", 8_001_275),
        ("broker restarts", 8_001_457),
        ("broker nodes", 9_000_337),
        ("broker nodes", 84),
        ("broker nodes", 500_077),
        ("broker nodes", 500_028),
        ("broker restarts", 75),
        ("directory moves", 700_014),
        ("directory moves", 710_055),
    ],
)
def test_seeds_that_have_found_defects_hold(profile: str, seed: int) -> None:
    # A broker that learned of its cluster after the last commit; a producer that missed errors of partitions; a log
    # directory that failed and stayed offline; a leader that kept the connection to a controller that refused it; a
    # coordinator that responded from a record that was not committed; a leader that adopted a smaller ISR before it
    # knew that min.insync.replicas had risen; open transactions that their coordinators lost in an
    # unclean election; a coordinator that expected the result of an append before its flush; a read
    # of a log whose file a failed sync had cut off, which never ended.
    options = draw_options(seed, profile)
    # Groups did not migrate when these seeds found defects.
    brokers = replace(options.brokers, migrates_groups=False)
    report = Simulation(seed, replace(options, brokers=brokers)).run()
    assert report.ok, str(report)


@pytest.mark.parametrize("flushes_messages", [False, True])
def test_replicas_move_between_log_directories_in_spite_of_power_losses(flushes_messages: bool) -> None:
    report = run(3, "power loss", log_directories=2, moves_ms=30, flushes_messages=flushes_messages)
    assert report.ok, str(report)
    assert report.counters["moves: NONE"] > 5
    assert report.counters["power losses amid moves"] > 0


def test_replicas_move_in_spite_of_power_losses_just_after_moves() -> None:
    report = run(3, "power loss after a move", log_directories=2, moves_ms=30)
    assert report.ok, str(report)
    assert report.counters["power losses after moves"] > 1


def test_members_commit_late() -> None:
    reports = [run(seed, "paused process", members=4) for seed in (1, 2)]
    assert [report.violations for report in reports] == [(), ()]
    assert sum(report.counters.get("late commits", 0) for report in reports) > 0


def test_members_subscribe_by_regular_expression() -> None:
    reports = [run(seed, "kill", members=4) for seed in (1, 2, 3)]
    assert [report.violations for report in reports] == [(), (), ()]
    assert sum(report.counters.get("assignments by regular expression", 0) for report in reports) > 0


def test_groups_migrate_between_the_protocols() -> None:
    reports = [run(seed, "kill", members=4, migrates_groups=True) for seed in (1, 2, 3)]
    assert [report.violations for report in reports] == [(), (), ()]
    for name in ("generations joined", "classic members of consumer groups", "members that left"):
        assert sum(report.counters.get(name, 0) for report in reports) > 0


def test_long_logs_are_read_to_their_end_in_time() -> None:
    # A partition with hundreds of records, and a long mean time between two fetches of a consumer.
    report = Simulation(145, replace(draw_options(145, "broker nodes"), faults=())).run()
    assert report.ok, str(report)
    assert report.counters["records acknowledged"] > 500
