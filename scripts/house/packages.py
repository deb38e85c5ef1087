"""Package docstrings: one that lists the modules of its package lists all of them, and none that does not exist.

A list is a block of lines `name   description`, most of whose names are modules. Several names are separated by
commas, and their description may follow on the next line; `classic_*` is a pattern; a package may end with a slash.
A docstring may also name modules in its text, as `name` or as (.name): two or more of them are a list.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import filter as matching
from pathlib import Path

GENERATED = "quorumd/protocol/messages"

_NAME = r"[a-z_][a-z0-9_*]*/?"
_ROW = re.compile(rf"^ *({_NAME}(?:, {_NAME})*(?=  +\S)|{_NAME}(?:, {_NAME})+$)")
_IN_TEXT = re.compile(r"`\.?([a-z_]+)`|(?<=[ (])\.([a-z_]+)(?=[ ,.)]|$)", re.MULTILINE)

Findings = Iterator[tuple[str, str]]
"""(path, problem)"""


def incomplete_module_lists(root: Path) -> Findings:
    """Yield (path, problem) for the docstrings of packages of quorumd whose list of modules does not match their
    files."""
    packages = {
        file.parent: _modules(file.parent)
        for file in sorted((root / "quorumd").rglob("__init__.py"))
        if file.parent.relative_to(root).as_posix() != GENERATED
    }
    known = {name for modules in packages.values() for name in modules}
    for package, modules in packages.items():
        file = package / "__init__.py"
        docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        for problem in problems(docstring, modules, known):
            yield file.relative_to(root).as_posix(), problem


def problems(docstring: str, modules: set[str], known: set[str]) -> Iterator[str]:
    """Yield the problems of the list of `modules` in the docstring of their package, if it has one.

    `known` are the modules of all packages, which the docstring may name as well.
    """
    rows = {name for block in docstring.split("\n\n") for name in _list_in(block, modules)}
    text = {one or other for one, other in _IN_TEXT.findall(docstring)}
    if not rows and len(text & modules) < 2:
        return
    listed = {module for name in rows for module in matching(modules, name)} | text & modules
    unknown = {name for name in rows if not matching(modules, name)}
    if not rows:
        unknown = text - known
    for name in sorted(modules - listed):
        yield f"the docstring does not list {name}"
    for name in sorted(unknown):
        yield f"the docstring lists {name}, which does not exist"


def _modules(package: Path) -> set[str]:
    """Return the names of the modules and packages in a package."""
    files = {file.stem for file in package.glob("*.py")} - {"__init__", "__main__"}
    return files | {file.parent.name for file in package.glob("[!_]*/*.*")}


def _list_in(block: str, modules: set[str]) -> set[str]:
    """Return the names in the first column of a block if it is a list of modules."""
    rows = [row[1] for line in block.splitlines() if (row := _ROW.match(line))]
    names = {name.removesuffix("/") for row in rows for name in row.split(", ")}
    found = sum(bool(matching(modules, name)) for name in names)
    return names if found * 2 > len(names) else set()
