"""Branches that seeds reach are summed up by package and function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.simulation.reached_branches import ROOT, largest, package_reached


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
