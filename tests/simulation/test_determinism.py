"""One seed is one run: the same trace in this process, in another one, and under another PYTHONHASHSEED."""

from __future__ import annotations

import os
import subprocess
import sys

from quorumd.simulator.simulation import Simulation

SEEDS = (3, 28, 38, 96)
PROGRAM = """
import logging, sys
logging.disable()
from quorumd.simulator.run import run_seeds
for seed in map(int, sys.argv[1:]):
    run_seeds(seed, 1, None, lambda report: print(report.trace_hash, sorted(report.counters.items())))
"""


def in_another_process(hash_seed: int) -> str:
    arguments = [sys.executable, "-c", PROGRAM, *map(str, SEEDS)]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def test_a_seed_gives_the_same_trace_in_every_process() -> None:
    reports = [Simulation(seed).run() for seed in SEEDS]
    again = [Simulation(seed).run() for seed in SEEDS]
    expected = "".join(f"{report.trace_hash} {sorted(report.counters.items())}\n" for report in reports)
    assert [report.trace_hash for report in again] == [report.trace_hash for report in reports]
    assert in_another_process(1) == in_another_process(2) == expected


def test_different_seeds_give_different_traces() -> None:
    assert len({Simulation(seed).run().trace_hash for seed in SEEDS}) == len(SEEDS)
