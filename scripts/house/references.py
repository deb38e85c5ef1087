"""Reference checks: docs/decisions.md explains every number in use, and the tests that it names exist. The modules
and functions that docs/architecture.md walks through exist too.

Numbers are holes of the KIP-595 draft ("hole 14", `test_hole_14_...`, `TestHole14`), properties (S10, X5) and
races (R26, "race 26"). The page explains one in a table row that starts with it, or in bold in its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

PAGE = "docs/decisions.md"
WALKS = "docs/architecture.md"
DIRECTORIES = ("quorumd", "tests", "docs", "scripts", "config")
SUFFIXES = (".py", ".toml", ".txt", ".md")
GENERATED = "quorumd/protocol/messages/"

_HOLES = re.compile(r"\bholes? (\d+(?:(?:, | and )\d+)*)", re.IGNORECASE)
_TESTED = re.compile(r"(?:test_(hole|race)_|Test(Hole|Race))(\d+)")
_RACE = re.compile(r"\brace (\d+)\b")
_CODE = re.compile(r"\b[SXR]\d{1,2}\b")
_ROW = re.compile(r"^\| (\d+|[SXR]\d{1,2}) \|(.*)\|\s*$")
_BOLD = re.compile(r"\*\*([SXR]\d{1,2})\*\*")
_NAME = re.compile(r"`([^`]+)`")
_CELLS = re.compile(r"(?<!\\)\|")
_HELD_BY = re.compile(r"\bHeld by\s((?:`[^`]+`(?:,\s)?)+)")
_DEFINED = re.compile(r"^ *(?:async )?(?:def|class) (test_\w+|Test\w+)", re.MULTILINE)
_MODULE = re.compile(r"`([\w/]+\.py)`")
_ROOM = re.compile(r"^\| `(\w+/)` \|")
_FUNCTION = re.compile(r"`(\w+)\(\)`")
_FUNCTION_DEFINED = re.compile(r"^ *(?:async )?def (\w+)", re.MULTILINE)
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
_MUTANT = re.compile(r'^name = "([^"]+)"', re.MULTILINE)

References = Iterator[tuple[str, int, str]]
"""(path, line, problem)"""


def numbers_in(text: str) -> set[str]:
    """Return every number that a line refers to, in the form of `explained`."""
    found = {number for holes in _HOLES.findall(text) for number in re.findall(r"\d+", holes)}
    found |= set(_CODE.findall(text)) | {f"R{number}" for number in _RACE.findall(text)}
    for name, class_name, number in _TESTED.findall(text):
        found.add(number if (name or class_name).lower() == "hole" else f"R{number}")
    return found


def explained(page: str) -> set[str]:
    """Return the numbers that the page explains; the numbers of holes have no letter."""
    found = set(_BOLD.findall(page))
    section = ""
    for line in page.splitlines():
        if line.startswith("#"):
            section = line
        row = _ROW.match(line)
        if row and (row[1][0].isalpha() or "Holes" in section):
            found.add(row[1])
    return found


def unresolved_references(root: Path) -> References:
    """Yield numbers in use that the page does not explain, and problems of its rows, tests and names."""
    page = root / PAGE
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    known = explained(text)
    for path, file in _files(root):
        content_of_file = file.read_text(encoding="utf-8")
        if numbers_in(content_of_file) <= known:
            continue
        for line, content in enumerate(content_of_file.splitlines(), 1):
            for number in sorted(numbers_in(content) - known):
                label = number if number[0].isalpha() else f"hole {number}"
                yield path, line, f"{label} is not explained in {PAGE}"
    if text:
        names = _names(root)
        yield from ((PAGE, line, problem) for line, problem in _problems_of_tables(text, names))
        for held_by in _HELD_BY.finditer(text):
            line = text.count("\n", 0, held_by.start()) + 1
            yield from ((PAGE, line, problem) for problem in _problems_of_names(held_by[1], names))
    yield from _unresolved_walks(root)


def _unresolved_walks(root: Path) -> References:
    page = root / WALKS
    if not page.exists():
        return
    modules = [*(root / "quorumd").rglob("*.py")]
    functions = {
        name for file in modules for name in _FUNCTION_DEFINED.findall(file.read_text(encoding="utf-8"))
    }
    directories = ("quorumd", "quorumd/node", "quorumd/broker", "quorumd/simulator", "quorumd/protocol")
    for line, content in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        for path in _MODULE.findall(content):
            if not any((root / directory / path).exists() for directory in ("quorumd", ".")):
                yield WALKS, line, f"{path} does not exist"
        for path in _ROOM.findall(content):
            if not any((root / directory / path).is_dir() for directory in directories):
                yield WALKS, line, f"there is no package {path}"
        for name in _FUNCTION.findall(content):
            if name not in functions:
                yield WALKS, line, f"there is no function {name}"


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    for directory in DIRECTORIES:
        for file in sorted((root / directory).rglob("*")):
            path = file.relative_to(root).as_posix()
            if file.suffix in SUFFIXES and not path.startswith(GENERATED):
                yield path, file


def _names(root: Path) -> set[str]:
    """Return the names that may verify a decision: tests, scenarios, checkers of the simulator, mutants."""
    found: set[str] = set()
    for path, file in _files(root):
        if path.startswith("tests/") and file.name.startswith("test_"):
            found.add(file.name)
            found |= set(_DEFINED.findall(file.read_text(encoding="utf-8")))
        elif path.startswith("tests/scenarios/") and file.suffix == ".txt":
            found.add(file.name)
        elif path.startswith("tests/mutants/") and file.suffix == ".toml":
            found |= set(_MUTANT.findall(file.read_text(encoding="utf-8")))
        elif path.startswith("quorumd/simulator/"):
            found |= set(_CLASS.findall(file.read_text(encoding="utf-8")))
    return found


def _problems_of_tables(text: str, names: set[str]) -> Iterator[tuple[int, str]]:
    """Yield rows that do not fit their table or section, or name no existing test."""
    section, columns = "", 0
    tested = {number for name in names for number in numbers_in(name)}
    for line, content in enumerate(text.splitlines(), 1):
        if content.startswith("#"):
            section = content
        cells = len(_CELLS.findall(content)) if content.startswith("|") else 0
        columns = columns or cells if cells else 0
        if cells != columns:
            yield line, f"{cells - 1} cells in a table of {columns - 1} columns"
        row = _ROW.match(content)
        if not row:
            continue
        held_by = row[2].rpartition("|")[2]
        if not _NAME.search(held_by):
            yield line, f"{row[1]} names no test"
        if (row[1][0].isalpha() or "Holes" in section) and row[1] in tested - numbers_in(held_by):
            yield line, f"{row[1]} does not name the tests that carry its number"
        yield from ((line, problem) for problem in _problems_of_names(held_by, names))


def _problems_of_names(held_by: str, names: set[str]) -> Iterator[str]:
    for name in _NAME.findall(held_by):
        if not any(fnmatch(each, name) for each in names):
            yield f"{name} is not a test, scenario, checker or mutant: name one that verifies the decision"
