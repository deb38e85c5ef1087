"""Replace code in a syntax tree: one expression, or one or several statements, which are found by their syntax.

Layout, comments and quotes are ignored, and so are the names of local variables: a name in the old code that the
function does not know matches any local variable, and stands for this variable in the new code. `...` as a statement
or as the only argument of a call matches any statements or arguments; in the new code it repeats them.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

_Body = list[Any]
"""A list of statements in the tree."""
_NAMED_BY = {ast.Name: "id", ast.arg: "arg", ast.ExceptHandler: "name"}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LAYOUT_FIELDS = frozenset({"kind", "type_comment"})


class NotFound(Exception):
    """The code to replace does not occur, or occurs several times."""


def replace_code(tree: ast.Module, path: Sequence[str], old: str, new: str, occurrence: int | None) -> None:
    """Replace `old` by `new` in the definition that `path` names, or in the module if it is empty.

    `occurrence` counts from 1 in the order of lines; None means that `old` occurs once. Raises NotFound.
    """
    match, replacement = _find(tree, path, old, new, occurrence)
    match.replace(replacement)
    ast.fix_missing_locations(tree)


def lines_before(
    tree: ast.Module, path: Sequence[str], old: str, new: str, occurrence: int | None
) -> tuple[int, int] | None:
    """Return the first and last line of the statement that must run before the replaced code can have an effect.

    None if it is the definition of a function or class. Raises NotFound.
    """
    match, _ = _find(tree, path, old, new, occurrence)
    chain = _chain(tree, match.first_node)
    while chain and not isinstance(chain[0], (ast.FunctionDef, ast.AsyncFunctionDef)):
        chain = chain[1:]
    statement = next((node for node in reversed(chain[1:]) if isinstance(node, ast.stmt)), None)
    if statement is None or isinstance(statement, _DEFINITIONS):
        return None
    if isinstance(statement, ast.Match):
        last = statement.cases[0].pattern.lineno - 1
    elif hasattr(statement, "body"):
        last = statement.body[0].lineno - 1
    else:
        last = statement.end_lineno or statement.lineno
    return statement.lineno, max(statement.lineno, last)


def _chain(scope: ast.AST, node: ast.AST) -> list[ast.AST]:
    """Return the nodes from `scope` to `node`, or an empty list if `scope` does not contain it."""
    if scope is node:
        return [node]
    for child in ast.iter_child_nodes(scope):
        if found := _chain(child, node):
            return [scope, *found]
    return []


def _find(
    tree: ast.Module, path: Sequence[str], old: str, new: str, occurrence: int | None
) -> tuple[_Match, Sequence[ast.AST]]:
    scopes = definitions(tree, path)
    if not scopes:
        raise NotFound(f"there is no {'.'.join(path)}")
    known = _Names(tree, _outermost_function(tree, path))
    old_expression, new_expression = _expression(old), _expression(new)
    if old_expression is not None and new_expression is not None:
        matches = [match for scope in scopes for match in _expressions(scope, old_expression, known)]
        return _choose(matches, occurrence), [new_expression]
    statements = ast.parse(dedent(old)).body
    matches = [match for scope in scopes for match in _statements(scope, statements, known)]
    return _choose(matches, occurrence), ast.parse(dedent(new)).body


def definitions(tree: ast.AST, path: Sequence[str]) -> list[ast.AST]:
    """Return the definitions with a dotted name; there are two for a property with a setter."""
    scopes = [tree]
    for name in path:
        scopes = [each for scope in scopes for each in _inner_definitions(scope) if each.name == name]
    return scopes


def _outermost_function(tree: ast.Module, path: Sequence[str]) -> list[ast.AST]:
    """Return the outermost function on the way to the definition, whose locals it knows, or the definition itself."""
    scopes: list[ast.AST] = [tree]
    for depth in range(1, len(path) + 1):
        scopes = definitions(tree, path[:depth])
        if not isinstance(scopes[0], ast.ClassDef):
            break
    return scopes


def _inner_definitions(
    scope: ast.AST,
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, _DEFINITIONS):
            yield child
        else:
            yield from _inner_definitions(child)


def _expression(code: str) -> ast.expr | None:
    try:
        return ast.parse(f"(\n{code}\n)", mode="eval").body if code.strip() else None
    except SyntaxError:
        return None


class _Names:
    """The names that a definition and its module know, and the local variables of the definition."""

    def __init__(self, tree: ast.Module, scopes: Sequence[ast.AST]) -> None:
        self.all = set(dir(builtins)) | set(_global_names(tree))
        self.locals: set[str] = set()
        for node in (node for scope in scopes for node in ast.walk(scope)):
            name = getattr(node, _NAMED_BY.get(type(node), ""), None)
            if name is None:
                continue
            self.all.add(name)
            if not isinstance(node, ast.Name) or isinstance(node.ctx, ast.Store):
                self.locals.add(name)


def _global_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
    for statement in tree.body:
        if isinstance(statement, _DEFINITIONS):
            yield statement.name
        else:
            yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))


@dataclass(slots=True)
class _Match:
    """A place with the old code, and the local variables and statements that its names and `...` match."""

    known: _Names
    place: _Body | tuple[ast.AST, str, int | None]
    start: int = 0
    stop: int = 0
    locals: dict[str, str] = field(default_factory=dict)
    repeated: list[list[ast.AST]] = field(default_factory=list)

    def same(self, old: object, code: object) -> bool:
        if isinstance(old, list):
            return isinstance(code, list) and self._same_lists(old, code, _may_repeat(old))
        if not isinstance(old, ast.AST):
            return old == code
        if type(old) is not type(code):
            return False
        name_field = _NAMED_BY.get(type(old))
        for name in old._fields:
            inside, there = getattr(old, name), getattr(code, name)
            if name == name_field:
                if not self._same_names(inside, there):
                    return False
            elif name not in _LAYOUT_FIELDS and not self.same(inside, there):
                return False
        return True

    def _same_lists(self, old: list[ast.AST], code: list[ast.AST], is_wild: bool) -> bool:
        for number, each in enumerate(old):
            if is_wild and _is_ellipsis(each):
                after = old[number + 1 :]
                stop = len(code) - len(after)
                self.repeated.append(code[number:stop])
                return number <= stop and self._same_lists(after, code[stop:], False)
            if number >= len(code) or not self.same(each, code[number]):
                return False
        return len(old) == len(code)

    def _same_names(self, old: str | None, code: str | None) -> bool:
        if old is None or code is None or old in self.known.all:
            return old == code
        if old not in self.locals and code in self.known.locals and code not in self.locals.values():
            self.locals[old] = code
        return self.locals.get(old) == code

    def replace(self, new: Sequence[ast.AST]) -> None:
        code: _Body = [_placed(each, self.first_node) for each in new]
        for node in (node for each in code for node in ast.walk(each)):
            name_field = _NAMED_BY.get(type(node))
            if name_field is not None:
                name = getattr(node, name_field)
                setattr(node, name_field, self.locals.get(name, name))
        if isinstance(self.place, list):
            body = ast.Module(code, [])
            _repeat(body, iter(self.repeated))
            self.place[self.start : self.stop] = body.body
            if not self.place:
                self.place.append(_placed(ast.Pass(), body))
            return
        parent, name, index = self.place
        if index is None:
            setattr(parent, name, code[0])
        else:
            getattr(parent, name)[index] = code[0]

    @property
    def position(self) -> tuple[int, int]:
        """The line and column of the match."""
        node = self.first_node
        return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)

    @property
    def first_node(self) -> ast.AST:
        """The replaced expression, or the first replaced statement."""
        if isinstance(self.place, list):
            first: ast.AST = self.place[self.start]
            return first
        parent, name, index = self.place
        node: ast.AST = getattr(parent, name) if index is None else getattr(parent, name)[index]
        return node


def _placed(node: ast.AST, where: ast.AST) -> ast.AST:
    """Return a copy whose nodes are in the line of `where`, so that tracebacks have the line numbers of the file."""
    node = deepcopy(node)
    for each in ast.walk(node):
        for name in ("lineno", "end_lineno"):
            setattr(each, name, getattr(where, "lineno", 1))
        for name in ("col_offset", "end_col_offset"):
            setattr(each, name, 0)
    return node


def _may_repeat(nodes: list[ast.AST]) -> bool:
    """Return True if `...` in these nodes is a placeholder: a statement, or the only argument of a call."""
    return bool(nodes) and (isinstance(nodes[0], ast.stmt) or len(nodes) == 1)


def _is_ellipsis(node: ast.AST) -> bool:
    constant = node.value if isinstance(node, ast.Expr) else node
    return isinstance(constant, ast.Constant) and constant.value is ...


def _repeat(scope: ast.AST, repeated: Iterator[list[ast.AST]]) -> None:
    """Replace each placeholder by the next repeated list, in the order in which they were matched."""
    for name, value in ast.iter_fields(scope):
        if isinstance(value, ast.AST):
            _repeat(value, repeated)
        elif isinstance(value, list) and value and isinstance(value[0], ast.AST):
            is_wild = _may_repeat(value)
            nodes: list[ast.AST] = []
            for each in value:
                if is_wild and _is_ellipsis(each):
                    nodes += next(repeated)
                else:
                    _repeat(each, repeated)
                    nodes.append(each)
            setattr(scope, name, nodes)


def _blocks(scope: ast.AST) -> Iterator[_Body]:
    """Yield all lists of statements in a scope, outer lists first."""
    for name, value in ast.iter_fields(scope):
        if isinstance(value, list):
            if value and name in ("body", "orelse", "finalbody") and isinstance(value[0], ast.stmt):
                yield value
            for child in list(value):
                if isinstance(child, ast.AST):
                    yield from _blocks(child)
        elif isinstance(value, ast.AST):
            yield from _blocks(value)


def _statements(scope: ast.AST, old: Sequence[ast.stmt], known: _Names) -> Iterator[_Match]:
    for block in _blocks(scope):
        for start in range(len(block) - len(old) + 1):
            stop = start + len(old)
            match = _Match(known, block, start, stop)
            if old and match.same(list(old), block[start:stop]):
                yield match


def _expressions(scope: ast.AST, old: ast.expr, known: _Names) -> Iterator[_Match]:
    for node in ast.walk(scope):
        for name, value in ast.iter_fields(node):
            places = enumerate(value) if isinstance(value, list) else [(None, value)]
            for index, child in places:
                match = _Match(known, (node, name, index))
                if isinstance(child, ast.expr) and match.same(old, child):
                    yield match


def _choose(matches: Sequence[_Match], occurrence: int | None) -> _Match:
    if occurrence is None and len(matches) == 1:
        return matches[0]
    if occurrence is None or not 1 <= occurrence <= len(matches):
        raise NotFound(f"the code to replace occurs {len(matches)} times")
    return sorted(matches, key=lambda match: match.position)[occurrence - 1]
