#!/usr/bin/env python3
"""Project rules that no standard linter checks. `make check` runs this script; tests/unit/test_house_rules.py has a
bad sample for every rule.

    file-length       a hand-written file has at most 500 lines
    function-length   a function has at most 50 lines
    leftover          no marker of unfinished work, no error class for unwritten code
    unexplained       an ignored type error or lint finding has a reason on the same line
    unpacked          no literal is unpacked where its elements can be written, except in tests
    print             only the command line prints
    sleep             unit and property tests never wait for real time; sleep(0) only yields
    pure              the pure packages do no I/O and call nothing that differs between runs
    docstring         every module of quorumd/ has a docstring, and every public class and function of more than
                      10 lines
    layout            the top of the tree and of tests/ has only known entries
    name, opening,    identifiers, first words of docstrings and prose are plain technical English (house/language.py)
    wording
    reference         a number of a hole, property or race is explained in docs/decisions.md, and its tests exist
    commit            subjects of commits are imperative and at most 72 characters long
    any               a package has no more lines with `Any` than house/untyped.py allows

Usage: house_rules.py [ROOT]. Prints `path:line: rule: problem`, one per line; exit code 1 if any.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from house.commits import badly_named_commits
from house.language import language_findings, wording
from house.packages import incomplete_module_lists
from house.references import unresolved_references
from house.untyped import packages_over_their_ceiling

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 50
MAX_LINES_WITHOUT_DOCSTRING = 10

GENERATED = ("quorumd/protocol/messages/",)
PURE = tuple(
    f"quorumd/{name}"
    for name in (
        "ids.py",
        "errors.py",
        "ports.py",
        "raft/",
        "controller/",
        "protocol/",
        "log/",
        "security/",
        "quotas/",
        "broker/",
        "node/",
    )
)
TIMELESS_TESTS = ("tests/unit/", "tests/property/")

IMPURE_MODULES = {
    "asyncio",
    "datetime",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "secrets",
    "select",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uuid",
    "uvloop",
}
UNREPEATABLE_CALLS = {"hash", "id", "input", "open"}

TOP_LEVEL = {
    ".ci",
    ".dockerignore",
    ".github",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "config",
    "docs",
    "pyproject.toml",
    "quorumd",
    "schemas",
    "scripts",
    "tests",
}
TEST_DIRECTORIES = {
    "unit",
    "property",
    "scenarios",
    "paper",
    "simulation",
    "fuzz",
    "attacks",
    "interop",
    "shell",
    "chaos",
    "mutants",
    "mutation",
    "pipeline",
    "support",
    "conftest.py",
    "README.md",
}
NOT_OURS = re.compile(r"^(\.git|\.venv|build|run|dist|__pycache__|\..*_cache|\.hypothesis|.*\.egg-info)$")

# Split so that this file passes its own rule.
LEFTOVER_WORDS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
UNWRITTEN = "NotImplemented" + "Error"
DIRECTIVE = re.compile(r"#\s*(?:type:\s*ignore(?:\[[\w,\s-]*\])?|noqa(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*)?)")


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One violation of one rule; `path` is relative to the root."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def check_source(path: str, source: str) -> list[Finding]:
    """Return all findings in one Python file; `path`, relative to the root, selects the rules."""
    if path.startswith(GENERATED):
        return []
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return [Finding(path, error.lineno or 1, "syntax", error.msg)]
    found = [Finding(path, line, rule, text) for line, rule, text in _findings(path, source, tree)]
    return sorted(found)


def check_layout(root: Path) -> list[Finding]:
    """Return unknown entries at the top of the tree and of tests/."""
    found = []
    for directory, allowed in (("", TOP_LEVEL), ("tests/", TEST_DIRECTORIES)):
        for name in sorted(entry.name for entry in (root / directory).glob("*")):
            if name not in allowed and not NOT_OURS.match(name):
                text = f"does not belong here; allowed: {', '.join(sorted(allowed))}"
                found.append(Finding(directory + name, 1, "layout", text))
    return found


def check_tree(root: Path) -> list[Finding]:
    """Return all findings under `root`, in the order of paths."""
    found = check_layout(root)
    for top in ("quorumd", "scripts", "tests"):
        for file in sorted((root / top).rglob("*.py")):
            path = file.relative_to(root)
            if not any(NOT_OURS.match(part) for part in path.parts):
                found += check_source(path.as_posix(), file.read_text(encoding="utf-8"))
    found += [Finding(path, line, "reference", text) for path, line, text in unresolved_references(root)]
    found += [Finding(path, 1, "modules", text) for path, text in incomplete_module_lists(root)]
    found += [Finding("git", 1, "commit", f"{commit} {text}") for commit, text in badly_named_commits(root)]
    found += [
        Finding(f"quorumd/{package}", 1, "any", text) for package, text in packages_over_their_ceiling(root)
    ]
    return found + check_pages(root)


PAGES = (
    "*.md",
    "docs/*.md",
    "tests/README.md",
    "Makefile",
    "Dockerfile",
    "pyproject.toml",
    "config/**/*",
    "scripts/**/*.sh",
    "scripts/**/*.toml",
    "tests/**/*.toml",
)
"""Files besides Python's whose wording is checked."""


def check_pages(root: Path) -> list[Finding]:
    """Check the wording of documentation, configuration and build files."""
    found = []
    for page in sorted({file for pattern in PAGES for file in root.glob(pattern) if file.is_file()}):
        path = page.relative_to(root).as_posix()
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            found += [Finding(path, *finding) for finding in wording(number, line)]
    return found


_Findings = Iterator[tuple[int, str, str]]


def _findings(path: str, source: str, tree: ast.Module) -> _Findings:
    yield from _lengths(source, tree)
    yield from _leftovers(source, tree)
    yield from _unexplained(source)
    yield from language_findings(source, tree, path.startswith("quorumd/"))
    if not path.startswith("tests/"):
        yield from _unpacked(tree)
    if path.startswith("quorumd/"):
        yield from _docstrings(tree)
        if not path.startswith("quorumd/cli/"):
            yield from _prints(tree)
    if path.startswith(TIMELESS_TESTS):
        yield from _sleeps(tree)
    if path.startswith(PURE):
        yield from _impurities(tree)


def _lengths(source: str, tree: ast.Module) -> _Findings:
    lines = source.count("\n")
    if lines > MAX_FILE_LINES:
        yield (
            MAX_FILE_LINES + 1,
            "file-length",
            f"{lines} lines, at most {MAX_FILE_LINES}: two concepts in one file?",
        )
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = _lines_of(node)
            if length > MAX_FUNCTION_LINES:
                yield (
                    node.lineno,
                    "function-length",
                    f"{node.name} has {length} lines, at most {MAX_FUNCTION_LINES}",
                )


def _lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _leftovers(source: str, tree: ast.Module) -> _Findings:
    for number, line in enumerate(source.splitlines(), 1):
        word = LEFTOVER_WORDS.search(line)
        if word:
            yield number, "leftover", f"{word.group()}: finish it, or write an issue and take the marker out"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == UNWRITTEN:
            yield node.lineno, "leftover", f"{UNWRITTEN}: write the code, or take the name out"


def _unexplained(source: str) -> _Findings:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and DIRECTIVE.search(token.string):
            reason = DIRECTIVE.sub("", token.string)
            if not re.search(r"[A-Za-z]{2,}", reason):
                yield token.start[0], "unexplained", f"{token.string!r} needs the reason beside it"


def _unpacked(tree: ast.Module) -> _Findings:
    for node in ast.walk(tree):
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List | ast.Set):
            yield node.lineno, "unpacked", "a literal after *: write its elements without it"


def _docstrings(tree: ast.Module) -> _Findings:
    if tree.body and ast.get_docstring(tree) is None:
        yield 1, "docstring", "the module has none: say what the file is for"
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        is_long = _lines_of(node) > MAX_LINES_WITHOUT_DOCSTRING
        if is_long and not node.name.startswith("_") and ast.get_docstring(node) is None:
            yield node.lineno, "docstring", f"{node.name} has none, and more than its name can say"


def _prints(tree: ast.Module) -> _Findings:
    for name, line in _called_names(tree):
        if name == "print":
            yield line, "print", "only the command line prints; here, log or return it"


def _sleeps(tree: ast.Module) -> _Findings:
    yields = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and [ast.dump(each) for each in node.args] == [ast.dump(ast.Constant(0))]
    }
    for node in ast.walk(tree):
        used = isinstance(node, ast.Attribute) and node.attr == "sleep" and id(node) not in yields
        imported = isinstance(node, ast.ImportFrom) and any(alias.name == "sleep" for alias in node.names)
        if used or imported:
            yield node.lineno, "sleep", "a unit test never waits for real time: make time an argument"


def _impurities(tree: ast.Module) -> _Findings:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        for name in names:
            if name.split(".")[0] in IMPURE_MODULES:
                yield (
                    node.lineno,
                    "pure",
                    f"import of {name}: a pure package reaches the outside through ports",
                )
    for name, line in _called_names(tree):
        if name in UNREPEATABLE_CALLS:
            yield line, "pure", f"{name}() differs from run to run: not in a pure package"


def _called_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Iterate over plain names that are called, with their lines, except in `__hash__`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__hash__":
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node.lineno
        yield from _called_names(node)


def main(arguments: list[str]) -> int:
    """Check the given tree (default: the tree of this script) and print the findings."""
    found = check_tree(Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent)
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
