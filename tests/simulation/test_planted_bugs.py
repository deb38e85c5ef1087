"""The harness bites: real bugs, planted into the code that ships, are caught within a few seeds.

Each entry takes one protection away. The seeds are fixed, so that this says the same every day; which checker
of the named ones complains may vary with the code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quorumd.log.flush import Flush
from quorumd.log.meta_properties import PARTITION_FOLDER
from quorumd.log.quorum_state_file import QuorumStateFile
from quorumd.node.durability_gate import DurabilityGate
from quorumd.node.proposals import Proposals
from quorumd.node.raft_runner import RaftRunner
from quorumd.raft import election, leader
from quorumd.raft.events import ReadAsked
from quorumd.simulator.disk import SimulatedDisk
from quorumd.simulator.options import SimulationOptions
from quorumd.simulator.simulation import Simulation
from quorumd.simulator.workload import WorkloadOptions

SEEDS = range(1, 100)

Patch = Callable[[pytest.MonkeyPatch], None]


def flush_without_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Flush, "_sync", lambda self: None)


def vote_not_saved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuorumStateFile, "save", lambda self, state: None)


def folder_not_synced(patch: pytest.MonkeyPatch) -> None:
    original = SimulatedDisk.sync_directory

    def sync_directory(self: SimulatedDisk, path: str) -> None:
        if self.mounts == 0 or not path.endswith(PARTITION_FOLDER):  # formatting is not what this is about
            original(self, path)

    patch.setattr(SimulatedDisk, "sync_directory", sync_directory)


def answers_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    original = DurabilityGate.pass_on
    patch.setattr(
        DurabilityGate, "pass_on", lambda self, messages, needed_offset=-1: original(self, messages)
    )


def read_without_read_index(patch: pytest.MonkeyPatch) -> None:
    original = RaftRunner.step

    def step(self: RaftRunner, event: Any) -> None:
        if isinstance(event, ReadAsked):
            event.token(True)
        else:
            original(self, event)

    patch.setattr(RaftRunner, "step", step)


def acknowledged_at_append(patch: pytest.MonkeyPatch) -> None:
    original = Proposals.gather

    def gather(self: Proposals) -> None:
        original(self)
        self.committed(1 << 60)

    patch.setattr(Proposals, "gather", gather)


def votes_for_shorter_logs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(election, "why_not_up_to_date", lambda replica, request: None)


def commits_by_the_fastest_voter(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader, "reached_by_majority", max)


READERS = SimulationOptions(
    faults={"isolated leader": 1.0},
    voters=5,
    safety_ms=30_000.0,
    fault_interval_ms=3000.0,
    workload=WorkloadOptions(clients=3, readers=2, keys=1, think_ms=(10.0, 40.0), timeout_ms=500.0),
)
"""A stale read needs a leader that was voted out behind its back, and somebody who asks it just then."""

PLANTED: list[tuple[Patch, tuple[str, ...], SimulationOptions | None]] = [
    (flush_without_sync, ("committed data is durable on a majority",), None),
    (vote_not_saved, ("votes are durable before they count",), None),
    (folder_not_synced, ("votes are durable before they count",), None),
    (answers_before_the_flush, ("committed data is durable on a majority",), None),
    (read_without_read_index, ("reads and writes are linearizable",), READERS),
    (acknowledged_at_append, ("acknowledged writes are committed",), None),
    (votes_for_shorter_logs, ("leader completeness",), None),
    (commits_by_the_fastest_voter, ("committed data is durable on a majority",), None),
]


@pytest.mark.parametrize(
    ("plant", "promises", "options"), PLANTED, ids=lambda value: getattr(value, "__name__", "")
)
def test_is_caught(
    plant: Patch,
    promises: tuple[str, ...],
    options: SimulationOptions | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    for seed in SEEDS:
        report = Simulation(seed, options).run()
        if not report.ok and report.violations[0].promise in promises:
            print(report)
            return
    pytest.fail(f"{plant.__name__} was not caught within {len(SEEDS)} seeds")
