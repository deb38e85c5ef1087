"""Ceilings for `Any`, which switches the type checker off: lines of hand-written code with it, by package."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

MAX_LINES: Mapping[str, int] = {
    "broker": 10,
    "cli": 6,
    "client": 11,
    "config": 10,
    "controller": 15,
    "node": 20,
    "pipeline": 9,
    "protocol": 14,
    "raft": 3,
    "runtime": 16,
    "security": 7,
    "simulator": 39,
}
"""Lower a ceiling when a package has fewer lines. The ceiling of other packages is 0."""
GENERATED = "protocol/messages"


def lines_with_any(source: str) -> int:
    """Count the lines of code that name `Any`; comments and strings do not count."""
    if "Any" not in source:
        return 0
    found = set()
    for node in ast.walk(ast.parse(source)):
        if (isinstance(node, ast.Name) and node.id == "Any") or (
            isinstance(node, ast.alias) and node.name == "Any"
        ):
            found.add(node.lineno)
    return len(found)


def packages_over_their_ceiling(
    root: Path, ceilings: Mapping[str, int] = MAX_LINES
) -> Iterator[tuple[str, str]]:
    """Yield (package, problem) for packages of quorumd with more lines than their ceiling."""
    counts: Counter[str] = Counter()
    for file in sorted((root / "quorumd").rglob("*.py")):
        path = file.relative_to(root / "quorumd")
        if not path.as_posix().startswith(GENERATED):
            counts[path.parts[0]] += lines_with_any(file.read_text(encoding="utf-8"))
    for package, count in counts.items():
        ceiling = ceilings.get(package, 0)
        if count > ceiling:
            yield package, f"{count} lines with Any, at most {ceiling}: declare the type, or narrow an object"
