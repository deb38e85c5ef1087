"""The KIP-595 draft leaves 42 holes; each has a test that names its number."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
HOLES = frozenset(range(1, 43))


def holes_with_tests() -> set[int]:
    """Numbers in the names of test functions (`test_hole_7_...`) and test classes (`TestHole7`)."""
    found: set[int] = set()
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                named = re.match(r"(?:test_hole_|TestHole)(\d+)(?:_|$)", node.name)
                found |= {int(named[1])} if named else set()
    return found


def test_every_hole_has_a_test() -> None:
    assert holes_with_tests() == HOLES
