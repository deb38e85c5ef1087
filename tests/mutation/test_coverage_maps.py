"""Tests and seeds are chosen by the lines that they reach."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.mutation.covered_lines import CoveredLines, TestLines, digest
from tests.mutation.reached_seeds import ReachedSeeds

NAME = "quorumd/raft/example.py"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / NAME
    path.parent.mkdir(parents=True)
    path.write_text("a = 1\n")
    return path


def covered(source: Path) -> CoveredLines:
    tests = {
        "t.py": {"t.py::early": TestLines(0.1, {NAME: [1, 2]}), "t.py::late": TestLines(0.2, {NAME: [9]})},
        "u.py": {"u.py::other": TestLines(0.3, {"quorumd/log/other.py": [2]})},
    }
    return CoveredLines({NAME: digest(source)}, tests)


def test_tests_that_execute_a_line_judge_it(tmp_path: Path, source: Path) -> None:
    recorded = covered(source)
    assert recorded.tests_of(source, (2, 4), tmp_path) == {"t.py::early": 0.1}
    assert recorded.tests_of(source, (2, 9), tmp_path) == {"t.py::early": 0.1, "t.py::late": 0.2}
    assert recorded.tests_of(source, (3, 8), tmp_path) == {}


def test_every_test_of_a_file_judges_it_once_it_has_changed(tmp_path: Path, source: Path) -> None:
    recorded = covered(source)
    source.write_text("a = 2\n")
    assert recorded.tests_of(source, (3, 8), tmp_path) == {"t.py::early": 0.1, "t.py::late": 0.2}


def test_recorded_tests_are_loaded_as_they_were_saved(tmp_path: Path, source: Path) -> None:
    recorded = covered(source)
    recorded.save(tmp_path / "build" / "tests.json")
    assert CoveredLines.load(tmp_path / "build" / "tests.json") == recorded
    assert CoveredLines.load(tmp_path / "missing.json") == CoveredLines()


def test_new_and_changed_files_are_stale(tmp_path: Path, source: Path) -> None:
    recorded = covered(source)
    new = source.with_name("new.py")
    new.write_text("")
    assert recorded.stale_files(tmp_path, [source, new]) == [new]
    source.write_text("a = 2\n")
    assert recorded.stale_files(tmp_path, [source, new]) == [source, new]


def test_cheapest_seeds_that_reach_a_line_judge_it(tmp_path: Path, source: Path) -> None:
    file = tmp_path / "seeds.json"
    document = {
        "seconds": {"1": 0.3, "2": 0.1, "3": 0.2},
        "lines": {NAME: {"1": [1, 2, 3], "2": [1, 3]}},
        "digests": {NAME: digest(source)},
    }
    file.write_text(json.dumps(document))
    seeds = ReachedSeeds.load(2, file)
    assert seeds.cheapest(source, (1, 1), tmp_path) == [(2, 0.1), (3, 0.2)]
    assert seeds.cheapest(source, (2, 3), tmp_path) == [(3, 0.2), (1, 0.3)]
    assert seeds.cheapest(source, (3, 3), tmp_path) == []
    source.write_text("a = 2\n")
    assert seeds.cheapest(source, (3, 3), tmp_path) == [(2, 0.1), (3, 0.2)]
