"""Rules of language, references and commit subjects: each finds its bad sample and accepts the good one."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from scripts.house.commits import badly_named_commits, problems_of
from scripts.house.language import language_findings
from scripts.house.references import explained, numbers_in, unresolved_references

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        ("def request_vote(voter):\n    granted = voter\n", []),
        ("def ask_voter(): ...\n", ["name"]),
        ("class PartitionWorld: ...\n", ["name"]),
        ("def f(who_was_told): ...\n", ["name"]),
        ("self.asked = 1\n", ["name"]),
        ("x = other.asked\n", []),
        ("basket = 1\n", []),
        ('"""Of a leader."""\n', ["opening"]),
        ('def f():\n    """What a leader has."""\n', ["opening"]),
        ('"""Offsets of a leader."""\n', []),
        ('"""Returns it to ' + 'whoever fetches."""\n', ["wording"]),
        ("x = 1  # no" + "body waits\n", ["wording"]),
        ("x = 1  # node 1 is no" + " voter\n", ["wording"]),
        ("x = 1  # node 1 is no longer a voter, there is no other\n", []),
        ("x = 'no" + "body'\n", []),
        ('x = 1\n"""What the leader to' + 'ld."""\n', ["wording"]),
    ],
)
def test_language_of_a_file(source: str, rules: list[str]) -> None:
    assert [rule for _, rule, _ in language_findings(source, ast.parse(source), False)] == rules


def test_strings_of_the_package_are_read_by_users() -> None:
    source = "raise ValueError(f'{node} was\\n as" + "ked')\n"
    assert [rule for _, rule, _ in language_findings(source, ast.parse(source), True)] == ["wording"]


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("kept (hole 13), see Holes 11, 12 and 38", {"11", "12", "13", "38"}),
        ("(S14, race R22); X5", {"S14", "R22", "X5"}),
        ("def test_hole_7_two_at_once", {"7"}),
        ("class TestHole10:", {"10"}),
        ("def test_race_26_epochs", {"R26"}),
        ("RS232, term S1x, hole in one", set()),
    ],
)
def test_numbers_in_a_line(line: str, numbers: set[str]) -> None:
    assert numbers_in(line) == numbers


def test_departure_numbers_explain_no_hole() -> None:
    page = "## Departures\n| 1 | a |\n## Holes of it\n| 2 | b |\n| S1 | c |\n**R38** is Kafka\n"
    assert explained(page) == {"2", "S1", "R38"}


def test_every_number_and_every_name_resolves(tmp_path: Path) -> None:
    for directory in ("docs", "quorumd/simulator", "tests/scenarios", "tests/mutants"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "quorumd/a.py").write_text('"""See hole 1 and X' + '99."""\n')
    (tmp_path / "quorumd/simulator/checkers.py").write_text("class LogsAgree:\n    pass\n")
    (tmp_path / "tests/test_a.py").write_text("def test_hole_1_a(): ...\n")
    (tmp_path / "tests/scenarios/a.txt").write_text("")
    (tmp_path / "tests/mutants/a.toml").write_text('name = "loses-a-vote"\n')
    rows = "| 1 | `x` | `test_hole_1_*`, `test_a.py`, `a.txt`, `LogsAgree`, `loses-a-vote` |\n"
    (tmp_path / "docs/decisions.md").write_text(f"## Holes\n{rows}| 2 | `x` | `test_gone` |\n| 3 | x | y |\n")
    found = [(path, line, text.split()[0]) for path, line, text in unresolved_references(tmp_path)]
    assert found == [
        ("quorumd/a.py", 1, "X" + "99"),
        ("docs/decisions.md", 3, "test_gone"),
        ("docs/decisions.md", 4, "3"),
    ]


def test_rows_fit_their_table_and_name_the_tests_of_their_number(tmp_path: Path) -> None:
    for directory in ("docs", "tests"):
        (tmp_path / directory).mkdir()
    (tmp_path / "tests/test_a.py").write_text("def test_hole_7_a(): ...\ndef test_race_7_b(): ...\n")
    holes = "## Holes\n| hole | decision | held by |\n|---|---|---|\n"
    overwritten = "| 7 | the draft | quorumd | reason | `test_a.py` |\n"
    races = "\n## Races\n| | race | held by |\n| R7 | x \\| y | `test_race_7_*` |\n| R8 | x | `test_a.py` |\n"
    text = "Wrapped. Held by `test_a.py`,\n`test_gone`.\n"
    (tmp_path / "docs/decisions.md").write_text(holes + overwritten + races + text)
    found = [(line, text.split(maxsplit=1)[1]) for _, line, text in unresolved_references(tmp_path)]
    assert found == [
        (4, "cells in a table of 3 columns"),
        (4, "does not name the tests that carry its number"),
        (10, "is not a test, scenario, checker or mutant: name one that verifies the decision"),
    ]


def test_modules_and_functions_of_walks_exist(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "quorumd/node").mkdir(parents=True)
    (tmp_path / "quorumd/node/a.py").write_text("class A:\n    def step(self): ...\n")
    page = "`node/a.py` calls `step()`\n`node/b.py`\n`leap()`\n| `node/` | x |\n| `rooms/` | x |\n"
    (tmp_path / "docs/architecture.md").write_text(page)
    assert [line for _, line, _ in unresolved_references(tmp_path)] == [2, 3, 5]


def test_references_of_this_tree_resolve() -> None:
    assert list(unresolved_references(ROOT)) == []


@pytest.mark.parametrize(
    "subject", ["Refuse a cancel below min.insync.replicas", "Pass the epoch on", "Embed the page", "Run it"]
)
def test_imperative_subjects(subject: str) -> None:
    assert problems_of(subject) == []


@pytest.mark.parametrize(
    "subject",
    [
        "Refused a cancel",
        "Refusing a cancel",
        "Refuses a cancel",
        "Refuse a cancel.",
        "Refuse",
        "Refuse " + "x" * 66,
        "",
    ],
)
def test_other_subjects(subject: str) -> None:
    assert len(problems_of(subject)) == 1


def test_commits_are_checked_since_the_first(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(("git", "-C", str(tmp_path), *identity, *arguments), check=True, capture_output=True)

    git("init", "-q")
    subjects = ("Called so before", "Rename to Kafka's, Raft's and Python's vocabulary", "Added it", "Add it")
    for subject in subjects:
        git("commit", "-q", "--allow-empty", "-m", subject)
    assert [text.split("'")[1] for _, text in badly_named_commits(tmp_path)] == ["Added it"]


def test_without_history_no_commit_is_checked(tmp_path: Path) -> None:
    assert list(badly_named_commits(tmp_path)) == []
