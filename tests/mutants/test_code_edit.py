"""An edit finds its code in the syntax tree: layout, comments and the names of local variables are ignored."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from tests.mutants.code_edit import NotFound, definitions, lines_before, replace_code

SOURCE = '''
import log
LIMIT = 3

class Replica:
    @property
    def end(self):
        return self._end

    @end.setter
    def end(self, end):
        self._end = end

    def append(self, batch, *, force=False):
        """Append a batch."""
        for record in batch:
            if (record.size
                    > LIMIT):  # too large
                log.error("too large: %s", record)
                return None
        self.size += 1
        return None
'''


def edited(path: str, old: str, new: str, occurrence: int | None = None, source: str = SOURCE) -> str:
    tree = ast.parse(source)
    replace_code(tree, path.split(".") if path else [], dedent(old), dedent(new), occurrence)
    compile(tree, "edited", "exec")
    return ast.unparse(tree)


def original() -> str:
    return ast.unparse(ast.parse(SOURCE))


def test_expression_is_found_whatever_its_layout() -> None:
    assert edited("Replica.append", "record.size > LIMIT", "False") == original().replace(
        "record.size > LIMIT", "False"
    )


def test_statements_are_replaced_and_removed() -> None:
    two = edited("Replica.append", "self.size += 1\nreturn None", "return 1")
    assert two == original().replace("self.size += 1\n        return None", "return 1")
    assert "def end(self, end):\n        pass" in edited("Replica.end", "self._end = end", "")


@pytest.mark.parametrize("path", ["", "Replica", "Replica.append"])
def test_module_class_and_function_are_places(path: str) -> None:
    assert edited(path, "self.size += 1", "self.size += 2") == original().replace("+= 1", "+= 2")


def test_code_outside_the_place_is_not_found() -> None:
    with pytest.raises(NotFound, match="occurs 0 times"):
        edited("Replica.end", "self.size += 1", "")
    with pytest.raises(NotFound, match=r"no Replica\.flush"):
        edited("Replica.flush", "self.size += 1", "")


def test_code_that_occurs_twice_needs_its_number() -> None:
    with pytest.raises(NotFound, match="occurs 2 times"):
        edited("Replica.append", "return None", "return 1")
    assert edited("Replica.append", "return None", "return 1", 2).endswith("+= 1\n        return 1")
    assert edited("Replica.append", "return None", "return 1", 1).endswith("+= 1\n        return None")
    with pytest.raises(NotFound):
        edited("Replica.append", "return None", "return 1", 3)


def test_renamed_locals_do_not_matter_and_new_code_uses_their_present_names() -> None:
    renamed = SOURCE.replace("record", "entry").replace("batch", "entries")
    after = edited("Replica.append", "record.size > LIMIT", "record.size < 0 and batch", source=renamed)
    assert "if entry.size < 0 and batch:" in after
    after = edited(
        "Replica.append", "for record in batch:\n    ...", "for record in batch[1:]:\n    ...", source=renamed
    )
    assert "for entry in entries[1:]:\n            if entry.size > LIMIT:" in after


def test_names_that_are_known_stand_for_themselves() -> None:
    for old in ("batch.size > LIMIT", "record.size > MAXIMUM", "record.size > log", "x.size > x"):
        with pytest.raises(NotFound):
            edited("Replica.append", old, "False")


def test_dots_stand_for_statements_and_are_repeated() -> None:
    old = """
        for record in batch:
            if record.size > LIMIT:
                ...
        self.size += 1
    """
    moved = edited("Replica.append", old, "self.size += 1\nfor each in batch:\n    if each:\n        ...")
    assert (
        "self.size += 1\n        for each in batch:\n            if each:\n                log.error" in moved
    )
    assert edited("Replica.append", old, "").count("log.error") == 0


def test_dots_stand_for_the_arguments_of_a_call() -> None:
    after = edited("Replica.append", "log.error(...)", "log.debug(...)\nraise ValueError")
    assert "log.debug('too large: %s', record)\n                raise ValueError" in after


def test_other_statements_keep_their_lines() -> None:
    tree = ast.parse(SOURCE)
    replace_code(tree, ["Replica", "append"], "self.size += 1", "a = 1\nb = 2", None)
    (append,) = definitions(tree, ["Replica", "append"])
    assert isinstance(append, ast.FunctionDef)
    lines = SOURCE.splitlines()
    assert [lines[each.lineno - 1].strip() for each in append.body[2:]] == ["self.size += 1"] * 2 + [
        "return None"
    ]


def test_statement_that_has_the_code_must_run_first() -> None:
    tree, path = ast.parse(SOURCE), ["Replica", "append"]
    condition, assignment = (
        next(number for number, line in enumerate(SOURCE.splitlines(), 1) if start in line)
        for start in ("if (record", "self.size += 1")
    )
    assert lines_before(tree, path, "record.size > LIMIT", "False", None) == (condition, condition + 1)
    assert lines_before(tree, path, "self.size += 1", "", None) == (assignment, assignment)
    assert lines_before(tree, [], "LIMIT = 3", "LIMIT = 4", None) is None


def test_definition_runs_too_early_to_count() -> None:
    assert lines_before(ast.parse("def f(x=1): pass"), ["f"], "1", "2", None) is None
    assert lines_before(ast.parse("class C:\n    x = 1"), ["C"], "1", "2", None) is None
