"""Small changes of code that a test should notice, such as negated conditions, shifted comparisons and omitted calls.

Only code in functions is changed, since its effect does not depend on the time of the import. Log lines, assertions,
`__repr__` and `__str__` are not changed.
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
    """A change of a function."""

    module: str
    place: str
    """The dotted name of the function."""
    operator: str
    old: str
    new: str
    occurrence: int
    """The number of this change among equal changes of the function, from 1."""
    lines: tuple[int, int]
    function_digest: str

    @property
    def key(self) -> str:
        """A key that is stable as long as the function does not change."""
        return f"{self.place}|{self.old}|{self.new}|{self.occurrence}|{self.function_digest}"


@dataclass(slots=True)
class _Change:
    """The replacement of a node of a tree."""

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
    """The tree of a module, and its mutations in the order of the tree."""

    def __init__(self, module: str, source: str) -> None:
        self._tree = ast.parse(source)
        self._changes = dict(_listed(module, self._tree))

    @property
    def mutations(self) -> list[Mutation]:
        """All mutations of the module."""
        return list(self._changes)

    def apply(self, mutation: Mutation) -> ast.Module:
        """Change the tree permanently. Raises LookupError if the code has changed."""
        change = self._changes.get(mutation)
        if change is None:
            raise LookupError(f"{mutation.place} has changed")
        change.apply()
        return self._tree


def mutations(module: str, source: str) -> list[Mutation]:
    """Return all mutations of a module, in the order of its tree."""
    return MutableModule(module, source).mutations


def mutated(module: str, source: str, mutation: Mutation) -> ast.Module:
    """Return the tree of a module with a mutation. Raises LookupError if the code has changed."""
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
    """Yield changes of the body only, since defaults and decorators run once."""
    if definition.name in TEXTS:
        return
    # The body is wrapped, since other fields of the definition must not be visited.
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
    """Return True if the opposite operator negates the whole condition."""
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
    """Return True if an assignment does not only change local variables."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return node.value is not None and all(
        isinstance(target, ast.Attribute | ast.Subscript) for target in targets
    )


def _never(statement: ast.stmt) -> ast.If:
    """Wrap a statement so that it is never executed, but the function has the same local variables."""
    return ast.If(ast.Constant(0), [deepcopy(statement)], [])
