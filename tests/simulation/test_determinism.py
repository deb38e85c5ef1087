"""One seed is one run: the same trace and the same random draws in this process, in another one, and under another
PYTHONHASHSEED.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from quorumd.simulator.cluster import Cluster
from quorumd.simulator.simulation import Simulation

SEEDS = (3, 28, 38, 96)
PROGRAM = """
import logging, sys
logging.disable()
from quorumd.simulator.simulation import Simulation
for seed in map(int, sys.argv[1:]):
    simulation = Simulation(seed)
    report = simulation.run()
    print(report.trace_hash, simulation.draws_hash(), sorted(report.counters.items()), report.injected)
"""


def in_this_process(seed: int) -> str:
    simulation = Simulation(seed)
    report = simulation.run()
    counters = sorted(report.counters.items())
    return f"{report.trace_hash} {simulation.draws_hash()} {counters} {report.injected}\n"


def in_another_process(hash_seed: int) -> str:
    arguments = [sys.executable, "-c", PROGRAM, *map(str, SEEDS)]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True, timeout=900)
    return done.stdout


def test_seed_gives_the_same_trace_and_the_same_draws_in_every_process() -> None:
    expected = [in_this_process(seed) for seed in SEEDS]
    assert [in_this_process(seed) for seed in SEEDS] == expected
    assert in_another_process(1) == in_another_process(2) == "".join(expected)


def test_different_seeds_give_different_traces() -> None:
    assert len({Simulation(seed).run().trace_hash for seed in SEEDS}) == len(SEEDS)


def test_draw_without_other_effects_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace hash alone would not detect it; the hash of draws does."""
    before = Simulation(SEEDS[0])
    trace_hash = before.run().trace_hash
    repair = Cluster.repair

    def repair_with_one_more_draw(cluster: Cluster) -> None:
        repair(cluster)
        cluster.streams.stream("nobody's").random()

    monkeypatch.setattr(Cluster, "repair", repair_with_one_more_draw)
    after = Simulation(SEEDS[0])
    assert after.run().trace_hash == trace_hash
    assert after.draws_hash() != before.draws_hash()
