"""Language rules: names, docstring openings and wording that differ from the vocabulary of Kafka and Raft.

Exceptions are listed in `unfinished.txt` in this folder, one `rule path` per line; a path that ends with a slash is a
whole folder. The list only gets shorter: `house_rules.py --prune` removes finished files.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

UNFINISHED = Path(__file__).with_name("unfinished.txt")

NAMES = {
    **dict.fromkeys(("ask", "asked", "asking", "asks"), "request"),
    **dict.fromkeys(("answer", "answered", "answering", "answers"), "response, reply, respond"),
    **dict.fromkeys(("heard", "said", "say", "says", "tell", "tells", "told"), "known, reported, recorded"),
    **dict.fromkeys(("farewell", "farewells", "goodbye"), "send_end_quorum_epoch, pending_end_acks"),
    **dict.fromkeys(("brokenpromise", "promise", "promises"), "invariant, InvariantViolation"),
    **dict.fromkeys(("everybody", "nobody", "somebody", "whoever", "whom"), "the role that is meant"),
    **dict.fromkeys(("keeper", "saver"), "manager, checkpointer"),
    **dict.fromkeys(("rests", "wish", "wishes"), "throttle, request, target"),
    "anew": "restart",
    "apart": "subprocess, separate",
    "beside": "sidecar",
    "hurry": "shorten",
    "inherit": "adopt",
    "seams": "continuity",
    "world": "harness, named for what it builds",
}
"""Banned word of an identifier -> its replacements."""

OPENINGS = re.compile(r"(Of|What) ")
WORDING = re.compile(
    r"\b(whoever|nobody|somebody|everybody|so many|shall|be it|all right|as it is|farewells?)\b",
    re.IGNORECASE,
)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_Findings = Iterator[tuple[int, str, str]]


def language_findings(path: str, source: str, tree: ast.Module) -> _Findings:
    """Yield (line, rule, text) for one Python file, without rules for which it is listed as unfinished."""
    for line, rule, text in all_findings(source, tree):
        if not is_unfinished(rule, path):
            yield line, rule, text


def all_findings(source: str, tree: ast.Module) -> _Findings:
    """Yield (line, rule, text) for one Python file, finished or not."""
    yield from _names(tree)
    yield from _openings(tree)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_docstring = token.type == tokenize.STRING and token.string.lstrip("rR").startswith('"""')
        if token.type == tokenize.COMMENT or is_docstring:
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                yield from wording(number, line)


def wording(number: int, line: str) -> _Findings:
    """Yield the banned words of one line of prose."""
    for word in WORDING.findall(line):
        yield number, "wording", f"{word!r}: name the role, the number or the condition"


def is_unfinished(rule: str, path: str) -> bool:
    """Whether a file, or a folder above it, is listed as unfinished."""
    return any(
        path == each or (each.endswith("/") and path.startswith(each))
        for each in unfinished(UNFINISHED)[rule]
    )


@cache
def unfinished(file: Path) -> dict[str, list[str]]:
    """Return the unfinished paths, by rule."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        rule, _, path = line.partition(" ")
        found[rule].append(path)
    return found


def _names(tree: ast.Module) -> _Findings:
    for node in ast.walk(tree):
        name = _defined_name(node)
        for word in _WORD.findall(name):
            instead = NAMES.get(word.lower())
            if instead:
                yield getattr(node, "lineno", 1), "name", f"{name}: not {word.lower()!r} but {instead}"
                break


def _defined_name(node: ast.AST) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.id if isinstance(node, ast.Name) else node.attr
    return ""


def _openings(tree: ast.Module) -> _Findings:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            opening = OPENINGS.match(ast.get_docstring(node) or "")
            if opening:
                line = 1 if isinstance(node, ast.Module) else node.lineno
                yield line, "opening", f"a docstring begins with {opening[1]!r}: say what it is or does"
