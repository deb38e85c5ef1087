"""A mutation is killed by a test or seed that fails, or that does not end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mutation import judge
from tests.mutation.covered_lines import ROOT
from tests.mutation.judge import (
    KILLED,
    SURVIVED,
    Verdict,
    in_child,
    limit_time,
    module_of,
    ordered,
    path_of,
    within_time,
)


def test_verdict_of_a_child_is_returned() -> None:
    assert in_child(lambda report: Verdict(SURVIVED)) == Verdict(SURVIVED)
    assert in_child(lambda report: Verdict(KILLED, "seed 3")) == Verdict(KILLED, "seed 3")


def test_child_that_ends_without_a_verdict_is_killed_by_what_ran_last() -> None:
    def ends(report: Callable[[str], None]) -> Verdict:
        report("first")
        report("second")
        os._exit(1)

    assert in_child(ends) == Verdict(KILLED, "second")


def test_child_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "LEAST_CPU_SECONDS", 0.05)

    def loops(report: Callable[[str], None]) -> Verdict:
        report("endless")
        limit_time(0.0)
        while True:
            pass

    assert in_child(loops) == Verdict(KILLED, "endless")


def test_tests_of_the_module_run_first_and_property_tests_last() -> None:
    names = [
        "tests/property/test_a.py::p",
        "tests/unit/log/test_voters.py::other_package",
        "tests/paper/test_a.py::paper",
        "tests/unit/raft/test_leader.py::same_package",
        "tests/unit/raft/test_voters.py::slow",
    ]
    tests = dict.fromkeys(names, 0.2) | {"tests/unit/raft/test_voters.py::fast": 0.1}
    assert [name.partition("::")[2] for name, _ in ordered(tests, path_of("quorumd.raft.voters"))] == [
        *("fast", "other_package", "slow", "same_package", "paper", "p"),
    ]


def test_tests_after_the_time_limit_are_left_out() -> None:
    most = judge.TEST_SECONDS
    tests = [("first", most + 1.0), ("second", 0.1)]
    assert within_time(tests) == tests[:1]
    tests = [("first", 1.0), ("second", most - 1.0), ("third", 0.1)]
    assert within_time(tests) == tests[:2]
    assert within_time([]) == []


def test_module_and_path_name_each_other() -> None:
    for name in ("quorumd.raft.voters", "quorumd.raft"):
        assert module_of(path_of(name)) == name
    assert path_of("quorumd.raft").name == "__init__.py"


SCRIPT = """
import json, sys
from pathlib import Path
from tests.mutation.covered_lines import CoveredLines, TestLines
from tests.mutation.judge import judge_all, path_of
from tests.mutation.operators import mutations
from tests.mutation.reached_seeds import ReachedSeeds

path = path_of("quorumd.raft.voters")
file = Path(sys.argv[1])
tests = {"t": {f"{file.name}::{name}": TestLines(0.1, {"quorumd/raft/voters.py": [1]}) for name in sys.argv[2:]}}
chosen = mutations("quorumd.raft.voters", path.read_text())[:1]
verdicts = []
judge_all(chosen, CoveredLines({}, tests), ReachedSeeds(0), lambda _, verdict: verdicts.append(verdict), [file])
print(json.dumps([[each.outcome, each.by] for each in verdicts]))
"""
TESTS = """
from quorumd.raft import voters
from tests.mutation.operators import mutations

FIRST = mutations("quorumd.raft.voters", open(voters.__file__).read())[0]

def code():
    place = voters
    for name in FIRST.place.removeprefix("quorumd.raft.voters.").split("."):
        place = vars(place)[name]
    return getattr(place, "fget", place).__code__

ORIGINAL = code()

def test_passes(): pass

def test_sees_the_mutation(): assert code() is ORIGINAL

def test_always_fails(): assert False
"""


def judged(directory: Path, *tests: str) -> object:
    file = directory / "test_example.py"
    file.write_text(TESTS)
    command = [sys.executable, "-c", SCRIPT, str(file), *tests]
    # The root directory is set, since the ids of the tests depend on it.
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": f"--rootdir={directory}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_only_tests_that_pass_without_a_mutation_kill_it(tmp_path: Path) -> None:
    assert judged(tmp_path, "test_passes", "test_always_fails") == [["survived", ""]]
    by = "test_example.py::test_sees_the_mutation"
    assert judged(tmp_path, "test_always_fails", "test_sees_the_mutation") == [["killed", by]]
