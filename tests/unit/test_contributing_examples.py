"""The diffs of docs/contributing-examples.md are short and show the present code."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "contributing-examples.md"
KINDS = ("A metadata record", "An API", "A metric", "A CLI command", "A fault")
MOST_LINES = 60
SCREEN = 60
SECTION = re.compile(r"^## (.+?)\n.*?^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Hunk(NamedTuple):
    """Consecutive lines of a file after the change."""

    path: str
    lines: list[str]


def examples() -> dict[str, str]:
    return dict(SECTION.findall(PAGE.read_text()))


def hunks(diff: str) -> Iterator[Hunk]:
    path = ""
    lines: list[str] = []
    for line in (*diff.splitlines(), "@@"):
        if line.startswith("+++ b/") or line == "@@":
            if lines:
                yield Hunk(path, lines)
            lines = []
            path = line.removeprefix("+++ b/") if line != "@@" else path
        elif not line.startswith("--- "):
            assert line[:1] in ("", " ", "+"), f"neither context nor an addition: {line}"
            lines.append(line[1:])


def is_in(lines: list[str], text: str) -> bool:
    return "\n" + "\n".join(lines) + "\n" in f"\n{text}\n"


def test_every_kind_of_addition_has_one_short_example() -> None:
    assert tuple(examples()) == KINDS
    for kind, diff in examples().items():
        assert len(diff.splitlines()) <= MOST_LINES, kind


@pytest.mark.parametrize("kind", KINDS)
def test_examples_show_the_present_code(kind: str) -> None:
    found = list(hunks(examples()[kind]))
    assert any(path.startswith("quorumd/") for path, _ in found)
    assert any(path.startswith("tests/") for path, _ in found) or kind == "An API"
    for path, lines in found:
        assert is_in(lines, (ROOT / path).read_text()), f"{path} has no longer:\n" + "\n".join(lines)


def test_changed_line_is_found() -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@\n a = 1\n+b = 2\n@@\n+d = 4\n"
    first, second = hunks(diff)
    assert (first, second) == (Hunk("x.py", ["a = 1", "b = 2"]), Hunk("x.py", ["d = 4"]))
    assert is_in(first.lines, "a = 1\nb = 2\nc = 3\n")
    assert not is_in(first.lines, "a = 1\nc = 3\nb = 2\n")
    assert not is_in(second.lines, "d = 40\n")


def test_contributing_is_one_screen_and_its_mutant_is_planted() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert len(page.splitlines()) <= SCREEN
    (example,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    planted = [tomllib.loads(file.read_text())["mutant"] for file in (ROOT / "tests/mutants").glob("*.toml")]
    assert any(tomllib.loads(example)["mutant"][0] in mutants for mutants in planted)
