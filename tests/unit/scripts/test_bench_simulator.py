"""The arithmetic of the simulator's benchmark, and the process that simulates one load."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from quorumd.simulator.workload import WorkloadOptions
from scripts.bench.processes import BenchError
from scripts.bench.simulator import LOADS, Load, LoadResult, Round, SimulatorReport, simulate
from tests.support.text import shows

LOAD = Load("usual", 3, (5.0, 80.0), faults=False, safety_ms=1000.0, seeds=1, target=20.0)


def one_round(cpu_seconds: float) -> Round:
    return Round(
        cpu_seconds,
        2 * cpu_seconds,
        virtual_seconds=10.0,
        events=20_000,
        writes=500,
        operations=550,
        reference_ns=20.0,
    )


def result(*cpu_seconds: float) -> LoadResult:
    return LoadResult(LOAD, [one_round(each) for each in cpu_seconds])


def test_medians_of_rounds() -> None:
    measured = result(0.1, 1.0, 0.5)
    assert measured.speed == 20.0
    assert measured.wall_speed == 10.0
    assert measured.events_per_second == 40_000
    assert measured.writes_per_second == 50.0


def test_load_below_its_target_is_missed() -> None:
    assert SimulatorReport("compiled", [result(0.5)]).missed() == []
    (sentence,) = SimulatorReport("compiled", [result(0.6)]).missed()
    assert shows(sentence, "16.7 x", "20 x")
    without_target = LoadResult(replace(LOAD, target=None), [one_round(0.6)])
    assert SimulatorReport("compiled", [without_target]).missed() == []


def test_other_results_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "build" / "commit.json"
    path.parent.mkdir()
    path.write_text('{"levels": [1]}')
    SimulatorReport("compiled", [result(0.4, 0.5)]).write_json(path)
    stored = json.loads(path.read_text())
    assert stored["levels"] == [1]
    (load,) = stored["simulator"]["loads"]
    assert load["microseconds_per_event"] == pytest.approx(22.2, abs=0.1)
    assert len(load["rounds"]) == 2


def test_load_is_simulated_in_a_process() -> None:
    for faults in (False, True):
        done = simulate(replace(LOAD, faults=faults))
        assert done.virtual_seconds >= 1.0
        assert done.events > 100
        assert 0 < done.writes < done.operations
        assert done.speed > 0
    with pytest.raises(BenchError, match="usual"):
        simulate(replace(LOAD, clients=0))  # no write ever succeeds


def test_default_load_has_a_target() -> None:
    for load in LOADS:
        if load.target is not None:
            assert (load.clients, load.think_ms) == (WorkloadOptions().clients, WorkloadOptions().think_ms)
