"""Small changes of code that a test should notice: a condition negated, a comparison shifted, a call omitted.

Only code in functions is changed, because its effect does not depend on when a module is imported. Log lines,
assertions and the text of an object are left alone.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

NEGATED = "condition negated"
SHIFTED = "comparison shifted"
SWAPPED = "and/or swapped"
SIGN = "plus/minus swapped"
RESULT = "boolean result flipped"
NO_CALL = "call omitted"
NO_ASSIGNMENT = "assignment omitted"

OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SHIFTS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
LOGGERS = frozenset({"log", "_log", "logger", "_logger"})
TEXTS = frozenset({"__repr__", "__str__"})


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change: in the function `place`, `old` becomes `new`; `occurrence` counts equal changes there from 1."""

    module: str
    place: str
    operator: str
    old: str
    new: str
    occurrence: int
    lines: tuple[int, int]
    function_digest: str

    @property
    def key(self) -> str:
        """The same for as long as the function stays the same."""
        return f"{self.place}|{self.old}|{self.new}|{self.occurrence}|{self.function_digest}"


@dataclass(slots=True)
class _Change:
    """Where a node of a tree is replaced."""

    place: tuple[str, ...]
    operator: str
    parent: ast.AST
    field: str
    index: int | None
    old: ast.AST
    new: ast.AST
    function: ast.AST

    def apply(self) -> None:
        node = ast.copy_location(self.new, self.old)
        ast.fix_missing_locations(node)
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node

    @property
    def new_text(self) -> str:
        return "" if self.operator in (NO_CALL, NO_ASSIGNMENT) else ast.unparse(self.new)


class MutableModule:
    """A module's tree and all its mutations, in the order of the tree."""

    def __init__(self, module: str, source: str) -> None:
        self._tree = ast.parse(source)
        self._changes = dict(_listed(module, self._tree))

    @property
    def mutations(self) -> list[Mutation]:
        """All mutations."""
        return list(self._changes)

    def apply(self, mutation: Mutation) -> ast.Module:
        """Change the tree permanently. Raises LookupError if the code has changed."""
        change = self._changes.get(mutation)
        if change is None:
            raise LookupError(f"{mutation.place} has changed")
        change.apply()
        return self._tree


def mutations(module: str, source: str) -> list[Mutation]:
    """All mutations of a module, in the order of its tree."""
    return MutableModule(module, source).mutations


def mutated(module: str, source: str, mutation: Mutation) -> ast.Module:
    """The tree of a module with one change. Raises LookupError if the code has changed."""
    return MutableModule(module, source).apply(mutation)


def _listed(module: str, tree: ast.Module) -> list[tuple[Mutation, _Change]]:
    found = []
    counts: dict[tuple[str, str, str], int] = {}
    digests: dict[ast.AST, str] = {}
    for change in _changes(tree, (), None):
        place = ".".join((module, *change.place))
        old, new = ast.unparse(change.old), change.new_text
        counts[place, old, new] = occurrence = counts.get((place, old, new), 0) + 1
        if change.function not in digests:
            digests[change.function] = _digest(change.function)
        line = getattr(change.old, "lineno", 0)
        lines = (line, getattr(change.old, "end_lineno", line))
        found.append(
            (
                Mutation(
                    module, place, change.operator, old, new, occurrence, lines, digests[change.function]
                ),
                change,
            )
        )
    return found


def _digest(function: ast.AST) -> str:
    return hashlib.sha256(ast.dump(function).encode()).hexdigest()[:12]


def _changes(node: ast.AST, place: tuple[str, ...], function: ast.AST | None) -> Iterator[_Change]:
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Assert):
                continue
            if isinstance(child, ast.ClassDef):
                yield from _changes(child, (*place, child.name), None)
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _changes_of_function(child, place, function)
            elif function is None:
                yield from _changes(child, place, None)
            else:
                for operator, new in _replacements(node, field, child, place):
                    yield _Change(place, operator, node, field, index, child, new, function)
                yield from _changes(child, place, function)


def _changes_of_function(
    definition: ast.FunctionDef | ast.AsyncFunctionDef, place: tuple[str, ...], function: ast.AST | None
) -> Iterator[_Change]:
    """Changes of the body only: defaults and decorators run once."""
    if definition.name in TEXTS:
        return
    # A wrapper, because fields other than the body must not be visited.
    body = ast.Module(definition.body, [])
    yield from _changes(body, (*place, definition.name), function or definition)


def _replacements(
    parent: ast.AST, field: str, node: ast.AST, place: tuple[str, ...]
) -> Iterator[tuple[str, ast.AST]]:
    if _is_condition(parent, field) and isinstance(node, ast.expr) and not _is_opposable(node):
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield NEGATED, deepcopy(node.operand)
        elif not isinstance(node, ast.Constant):
            yield NEGATED, ast.UnaryOp(ast.Not(), deepcopy(node))
    if isinstance(node, ast.Compare):
        yield from _shifted(node)
    elif isinstance(node, ast.BoolOp):
        swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield SWAPPED, ast.BoolOp(swapped, deepcopy(node.values))
    elif isinstance(node, ast.BinOp):
        yield from _with_other_sign(node)
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Constant):
        if isinstance(node.value.value, bool):
            yield RESULT, ast.Return(ast.Constant(not node.value.value))
    elif isinstance(node, ast.Expr):
        if _is_call(node.value):
            yield NO_CALL, _never(node)
    elif (
        isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
        and _is_state(node)
        and "__init__" not in place
    ):
        yield NO_ASSIGNMENT, _never(node)


def _is_condition(parent: ast.AST, field: str) -> bool:
    if isinstance(parent, ast.If | ast.While | ast.IfExp):
        return field == "test"
    return (isinstance(parent, ast.comprehension) and field == "ifs") or (
        isinstance(parent, ast.match_case) and field == "guard"
    )


def _is_opposable(node: ast.expr) -> bool:
    """Whether shifting the comparison negates the whole condition."""
    return isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPPOSITES


def _shifted(node: ast.Compare) -> Iterator[tuple[str, ast.AST]]:
    for index, operator in enumerate(node.ops):
        opposite = OPPOSITES.get(type(operator))
        other = opposite or SHIFTS[type(operator)]
        compare = deepcopy(node)
        compare.ops[index] = other()
        yield NEGATED if opposite else SHIFTED, compare


def _with_other_sign(node: ast.BinOp) -> Iterator[tuple[str, ast.AST]]:
    if any(_is_text(each) for each in (node.left, node.right)):
        return
    if isinstance(node.op, ast.Add):
        yield SIGN, ast.BinOp(deepcopy(node.left), ast.Sub(), deepcopy(node.right))
    elif isinstance(node.op, ast.Sub):
        yield SIGN, ast.BinOp(deepcopy(node.left), ast.Add(), deepcopy(node.right))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _is_call(node: ast.expr) -> bool:
    call = node.value if isinstance(node, ast.Await) else node
    if not isinstance(call, ast.Call):
        return False
    function = call.func
    logger = function.value if isinstance(function, ast.Attribute) else function
    name = logger.attr if isinstance(logger, ast.Attribute) else getattr(logger, "id", "")
    return name not in LOGGERS


def _is_state(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> bool:
    """Whether it stores a value outside the function's locals."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return node.value is not None and all(
        isinstance(target, ast.Attribute | ast.Subscript) for target in targets
    )


def _never(statement: ast.stmt) -> ast.If:
    """The statement where it is never executed, so that the function's variables stay the same."""
    return ast.If(ast.Constant(0), [deepcopy(statement)], [])
