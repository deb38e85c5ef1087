"""Voters that behave like stock Kafka controllers lead, have followers, and hand leadership over."""

from __future__ import annotations

from collections import Counter

from quorumd.simulator.options import SimulationOptions
from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.simulation import Simulation
from quorumd.simulator.workload import WorkloadOptions


def test_leadership_moves_between_stock_and_other_voters() -> None:
    counters: Counter[str] = Counter()
    for seed in range(1, 9):
        report = Simulation(seed, draw_options(seed, "stock voters")).run()
        assert report.ok, str(report)
        counters += report.counters
    assert counters["epochs led by stock voters"] >= 4
    assert counters["leads handed back"] >= 1


def test_leader_reads_with_no_voter_but_a_stock_one() -> None:
    """Its fetches carry no read round: records prove that they were sent after a read."""
    workload = WorkloadOptions(clients=2, readers=1, read_share=0.9, think_ms=(5.0, 50.0))
    options = SimulationOptions(voters=2, stock_voters=1, safety_ms=4000.0, workload=workload)
    report = Simulation(1, options).run()
    assert report.ok, str(report)
    assert report.counters["completed reads"] > 50


def test_voter_changes_have_no_stock_leader() -> None:
    """AlterQuorum is private."""
    drawn = [draw_options(seed) for seed in range(200)]
    assert any(options.stock_voters for options in drawn)
    assert not any(options.stock_voters and "voter change" in options.faults for options in drawn)
