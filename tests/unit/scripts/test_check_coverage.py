"""Lines and branches without coverage are attributed to their functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_coverage
from scripts.check_coverage import function_lines, missing_in, module_name

SOURCE = """\
import os

class A:
    def f(self):
        def g():
            return 1
        return g
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(check_coverage, "ROOT", tmp_path)
    path = tmp_path / "quorumd" / "raft" / "a.py"
    path.parent.mkdir(parents=True)
    path.write_text(SOURCE)
    return path


def test_lines_belong_to_the_innermost_function(source: Path) -> None:
    name = "quorumd.raft.a"
    assert function_lines(source) == {
        3: f"{name}.A",
        4: f"{name}.A.f",
        5: f"{name}.A.f.g",
        6: f"{name}.A.f.g",
        7: f"{name}.A.f",
    }
    assert module_name(source) == name
    assert module_name(source.with_name("__init__.py")) == "quorumd.raft"


def test_branches_of_lines_that_are_not_executed_do_not_count_again() -> None:
    file = {"missing_lines": [9, 4], "missing_branches": [[3, 4], [5, 7], [6, -1], [9, 10]]}
    assert list(missing_in(file)) == [(4, "4"), (9, "9"), (5, "5->7"), (6, "6->end")]
