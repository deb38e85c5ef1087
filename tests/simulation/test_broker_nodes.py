"""Nodes with the broker role under the simulator: their clients work, and the same seed does the same again."""

from __future__ import annotations

import pytest

from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.report import Report
from quorumd.simulator.simulation import Simulation

PROFILE = "broker nodes"


def run(seed: int) -> Report:
    return Simulation(seed, draw_options(seed, PROFILE)).run()


@pytest.mark.parametrize("seed", [3, 10])
def test_broker_nodes_serve_producers_and_consumers(seed: int) -> None:
    report = run(seed)
    assert report.ok, str(report)
    assert report.counters["records acknowledged"] > 0
    assert report.counters["records read"] > 0
    assert sum(count for name, count in report.counters.items() if name.startswith("fault: ")) > 0


def test_runs_of_broker_nodes_repeat() -> None:
    assert run(8).trace_hash == run(8).trace_hash
