"""A short `make chaos-reassign`, in which voters change while processes are killed, and tests of its parts."""

from __future__ import annotations

import secrets
from math import inf
from pathlib import Path
from random import Random
from typing import cast

import pytest

from tests.chaos import reassignments
from tests.chaos.cluster import ChaosCluster, ChaosDaemon
from tests.chaos.reassignments import MOST_DOWN, Killer
from tests.chaos.run import run_chaos
from tests.chaos.voters import SIZES, Reassignment, draw_voters
from tests.support.processes.daemons import PATIENCE_S, wait_for
from tests.support.processes.ports import free_port

BOUNDS = (
    *("rounds.START_S", "rounds.PROGRESS_S", "rounds.SETTLED_S", "rounds.LEVEL_S"),
    *("reassignments.REASSIGNED_S", "verdict.LEVEL_S", "image_hashes.STATISTICS_TIMEOUT_S", "run.CALM_S"),
)


def test_five_reassignments_while_nodes_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Timeouts are raised, since this machine may be busy; `make chaos-reassign` applies the usual timeouts."""
    for bound in BOUNDS:
        monkeypatch.setattr(f"tests.chaos.{bound}", PATIENCE_S)
    seed = secrets.randbelow(1_000_000)
    lines: list[str] = []
    run = run_chaos(tmp_path, inf, 5, 5, seed, None, lines.append)
    assert run.verdict.anomalies == [], "\n".join([f"seed {seed}", *lines])
    assert len(run.rounds) == 5
    assert all(each.reassigned_ms for each in run.rounds)
    assert run.verdict.keys
    assert run.verdict.high_watermark > 0


def test_drawn_voters_differ_from_the_current_ones() -> None:
    random = Random(1)
    drawn = [draw_voters(random, [1, 2, 3, 4, 5], [2, 1, 3]) for _ in range(300)]
    assert (1, 2, 3) not in drawn
    assert {len(target) for target in drawn} == set(SIZES)
    assert all(list(target) == sorted(set(target)) for target in drawn)
    assert {draw_voters(random, [1, 2], [1, 2]) for _ in range(50)} == {(1,), (2,)}


class Node:
    """A fake node, which only runs or does not run."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.runs = True

    def describe_quorum(self) -> None:
        assert self.runs

    def kill(self) -> None:
        assert self.runs
        self.runs = False

    def gone(self) -> None:
        assert not self.runs

    def begin(self) -> None:
        assert not self.runs
        self.runs = True


def test_killed_processes_restart_and_a_majority_always_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_ms = 0.0
    monkeypatch.setattr(reassignments, "now_ms", lambda: clock_ms)
    nodes = [Node(node_id) for node_id in range(1, 6)]
    most = back = kills = 0
    for seed in range(40):
        killer = Killer(cast(ChaosCluster, cast(list[ChaosDaemon], nodes)), Random(seed))
        for _ in range(120):
            clock_ms += 20
            before = sum(node.runs for node in nodes)
            killer.advance()
            running = sum(node.runs for node in nodes)
            back += running > before
            most = max(most, len(nodes) - running)
        killer.heal()
        killer.advance()
        assert all(node.runs for node in nodes)
        kills += len(killer.killed)
    assert most == MOST_DOWN
    assert back
    assert kills > 40


def test_requests_without_a_response_are_repeated_until_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.chaos.voters.CALL_MS", 50.0)
    reassignment = Reassignment([("127.0.0.1", free_port())], [1])
    wait_for("two attempts", lambda: len(reassignment.errors) > 1)
    reassignment.stop()
    assert not reassignment.is_reached
    assert "0.05 s" in reassignment.errors[0]
