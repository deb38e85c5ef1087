"""Branches that seeds reach are summed up by package and function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.simulation.reached_branches import ROOT, cover, growth, largest, package_reached


def entry(missing_lines: list[int], missing_branches: list[list[int]], **summary: float) -> dict[str, Any]:
    return {"summary": summary, "missing_lines": missing_lines, "missing_branches": missing_branches}


def test_package_sums_up_its_files_and_names_functions() -> None:
    numbers = {"num_branches": 10, "covered_branches": 7, "num_statements": 20, "covered_lines": 19}
    first, second = ROOT / "quorumd/raft/voters.py", ROOT / "quorumd/raft/election.py"
    files: dict[Path, dict[str, Any]] = {
        first: entry([], [[1, 2]], **numbers, percent_covered=81.5),
        second: entry([1, 2], [[1, 2]], **numbers),
    }
    reached = package_reached("raft", files)
    assert reached.row == "| raft | 20 | 70.0% | 40 | 95.0% |"
    assert reached.missing == {
        "quorumd.raft.voters": ["1->2"],
        "quorumd.raft.election": ["1", "2"],
    }
    assert largest([reached], 1) == [("quorumd.raft.election", ["1", "2"])]
    assert [name for name, _ in largest([reached], 9)] == ["quorumd.raft.election", "quorumd.raft.voters"]


def test_growth_counts_the_lines_that_early_seeds_reach() -> None:
    lines = {"a.py": {1: [1, 2, 8], 2: [2], 3: [4], 4: [8]}, "b.py": {1: []}}
    assert growth(lines, 8) == "1 25.0%, 2 50.0%, 4 75.0%"


def test_cover_takes_the_seed_that_adds_the_most() -> None:
    lines = {"a.py": {1: [1, 3], 2: [1, 3], 3: [3], 4: [2]}, "b.py": {1: [2, 4]}}
    assert cover(lines) == [3, 2]
