#!/usr/bin/env python3
"""Check the coverage of raft, log, controller, protocol and broker that the last `make test` measured.

It fails if less than LEAST_PERCENT of the lines and branches of a package are covered. Generated messages do not
count. scripts/house/coverage-left.toml lists the functions that are not completely covered, each with its reason. The
check prints functions that are missing from this list, and listed functions that are completely covered.

    scripts/check_coverage.py [--missing]      --missing also prints the uncovered lines of listed functions
"""

from __future__ import annotations

import ast
import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coverage import Coverage

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "build" / "coverage"
LEFT = ROOT / "scripts" / "house" / "coverage-left.toml"
PACKAGES = ("raft", "log", "controller", "protocol", "broker")
LEAST_PERCENT = 97.0
EXCLUDED = (r"if TYPE_CHECKING:", r"^\s*\.\.\.$", r": \.\.\.$")
"""Regular expressions of lines that nothing executes."""


def main() -> int:
    reasons = {entry["in"]: entry["reason"] for entry in tomllib.loads(LEFT.read_text())["left"]}
    missing: dict[str, list[str]] = {}
    ok = True
    for package in PACKAGES:
        covered = total = 0
        for path, file in measured(package).items():
            summary = file["summary"]
            covered += summary["covered_lines"] + summary["covered_branches"]
            total += summary["num_statements"] + summary["num_branches"]
            places = function_lines(path)
            for line, text in missing_in(file):
                missing.setdefault(places.get(line, module_name(path)), []).append(text)
        percent = 100 * covered / total
        print(f"{package}: {percent:.1f} % of {total} lines and branches are covered")
        if percent < LEAST_PERCENT:
            print(f"{package}: at least {LEAST_PERCENT} % must be covered")
            ok = False
    for function, lines in missing.items():
        if function not in reasons:
            print(f"not in {LEFT.relative_to(ROOT)}: {function}, lines {', '.join(lines)}")
        elif "--missing" in sys.argv:
            print(f"{function}, lines {', '.join(lines)}: {reasons[function]}")
    for function in sorted(reasons.keys() - missing.keys()):
        print(f"completely covered, remove it from {LEFT.relative_to(ROOT)}: {function}")
    return 0 if ok else 1


def measured(package: str) -> dict[Path, dict[str, Any]]:
    """Return the entries of the JSON report for all files of a package, including files that no test imports."""
    paths = [
        path for path in sorted((ROOT / "quorumd" / package).rglob("*.py")) if path.parent.name != "messages"
    ]
    coverage = Coverage(data_file=str(DATA / "combined"), branch=True, config_file=False)
    for pattern in EXCLUDED:
        coverage.exclude(pattern)
    found = [str(path) for path in DATA.glob("data.*")]
    if not found:
        sys.exit(f"{DATA} has no data; run make test")
    coverage.combine(found, keep=True)
    report = DATA / f"{package}.json"
    coverage.json_report(morfs=[str(path) for path in paths], outfile=str(report))
    files = json.loads(report.read_text())["files"]
    return {(Path.cwd() / name).resolve(): file for name, file in files.items()}


def missing_in(file: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield lines that are not executed, and branches that are not taken between executed lines."""
    lines = set(file["missing_lines"])
    yield from ((line, str(line)) for line in sorted(lines))
    for origin, target in file["missing_branches"]:
        if origin not in lines and target not in lines:
            yield origin, f"{origin}->{'end' if target < 0 else target}"


def function_lines(path: Path) -> dict[int, str]:
    """Return the dotted name of the innermost function or class of each line of a file."""
    found: dict[int, str] = {}

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}"
                for line in range(child.lineno, (child.end_lineno or child.lineno) + 1):
                    found[line] = inner
            visit(child, inner)

    visit(ast.parse(path.read_text(encoding="utf-8")), module_name(path))
    return found


def module_name(path: Path) -> str:
    """Return the dotted name of a module; for a package, without `__init__`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


if __name__ == "__main__":
    sys.exit(main())
