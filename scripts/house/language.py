"""Language rules: names, docstring openings and wording that differ from the vocabulary of Kafka and Raft."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

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
    r"(?<!-)\b(whoever|whom|nobody|somebody|everybody|so many|shall|be it|all right|as it is|farewells?|goodbye|anew"
    r"|ask(?:s|ed|ing)?|answer(?:s|ed|ing)?|tells|told|said|heard|promise[sd]?|any more|for good|goes on|needs not"
    r"|in the place of|(?<!there )(?:is|are|was|were) no(?! longer))\b",
    re.IGNORECASE,
)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_Findings = Iterator[tuple[int, str, str]]


def language_findings(source: str, tree: ast.Module, is_shipped: bool) -> _Findings:
    """Yield (line, rule, text) for one Python file. With `is_shipped`, all of its strings are checked: users read
    them."""
    yield from _names(tree)
    yield from _openings(tree)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from wording(token.start[0], token.string)
    for line, text in _strings(tree) if is_shipped else _docstrings(tree):
        for number, part in enumerate(text.splitlines(), line):
            yield from wording(number, part)


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield strings that are statements: docstrings, including attribute docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)


def wording(number: int, line: str) -> _Findings:
    """Yield the banned words of one line of prose."""
    for word in WORDING.findall(line):
        yield number, "wording", f"{word!r}: name the role, the number or the condition"


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
