"""Mutations change functions by the listed operators, one place at a time."""

from __future__ import annotations

import ast
from dataclasses import replace
from textwrap import dedent

import pytest

from tests.mutation.operators import Mutation, mutated, mutations

MODULE = "quorumd.raft.example"


def changes(body: str, header: str = "def f(self):") -> list[tuple[str, str, str]]:
    source = header + "\n" + "".join(f"    {line}\n" for line in dedent(body).strip().splitlines())
    return [(each.operator, each.old, each.new) for each in mutations(MODULE, source)]


@pytest.mark.parametrize(
    ("condition", "negated"),
    [
        ("a", "not a"),
        ("not a", "a"),
        ("a == 1", "a != 1"),
        ("a not in b", "a in b"),
        ("a is b", "a is not b"),
    ],
)
@pytest.mark.parametrize(
    "statement", ["if {}: pass", "while {}: pass", "x = 1 if {} else 2", "x = [a for a in b if {}]"]
)
def test_conditions_are_negated_once(statement: str, condition: str, negated: str) -> None:
    assert changes(statement.format(condition)) == [("condition negated", condition, negated)]


def test_endless_loops_stay() -> None:
    assert changes("while True: pass") == []


def test_guards_of_cases_are_negated() -> None:
    assert changes("match a:\n    case 1 if b: pass") == [("condition negated", "b", "not b")]


@pytest.mark.parametrize(("old", "new"), [("<", "<="), ("<=", "<"), (">", ">="), (">=", ">")])
def test_comparisons_are_shifted(old: str, new: str) -> None:
    assert changes(f"x = a {old} 1") == [("comparison shifted", f"a {old} 1", f"a {new} 1")]


def test_each_comparison_of_a_chain_is_shifted() -> None:
    assert [new for _, _, new in changes("x = a < b <= c")] == ["a <= b <= c", "a < b < c"]


def test_and_is_swapped_with_or() -> None:
    assert changes("x = a and b") == [("and/or swapped", "a and b", "a or b")]
    assert changes("x = a or b") == [("and/or swapped", "a or b", "a and b")]


def test_sums_are_swapped_with_differences_but_not_of_text() -> None:
    assert changes("x = a + 1") == [("plus/minus swapped", "a + 1", "a - 1")]
    assert changes("x = a - 1") == [("plus/minus swapped", "a - 1", "a + 1")]
    assert changes("x = 'a' + b") == changes("x = a + f'{b}'") == changes("x = a * 2") == []


def test_boolean_results_are_flipped() -> None:
    assert changes("return True") == [("boolean result flipped", "return True", "return False")]
    assert changes("return 1") == changes("x = True") == []


def test_calls_are_omitted_except_log_lines() -> None:
    assert changes("self.flush()") == [("call omitted", "self.flush()", "")]
    assert changes("await self.flush()") == [("call omitted", "await self.flush()", "")]
    assert changes("_log.info('x')") == changes("self._log.info('x')") == changes("x = f()") == []


def test_assignments_to_state_are_omitted_except_those_that_create_it() -> None:
    assert changes("self.end = 1") == [("assignment omitted", "self.end = 1", "")]
    assert changes("self.ends[1] += 1") == [("assignment omitted", "self.ends[1] += 1", "")]
    assert changes("end = 1") == changes("self.end: int") == []
    assert changes("self.end = 1", "def __init__(self):") == []


def test_code_outside_functions_is_left_alone() -> None:
    source = "if a < b: f()\nclass C:\n    x = a < b\ndef f(x=a < b): assert a < b\ndef __repr__(): f()\n"
    assert mutations(MODULE, source) == []


SOURCE = """
class Log:
    def append(self):
        if self.end > 1:
            self.flush()
        def inner():
            self.flush()
            self.flush()
        return inner
"""


def test_places_are_dotted_names_and_equal_changes_are_counted() -> None:
    found = [(each.place, each.old, each.occurrence, each.lines) for each in mutations(MODULE, SOURCE)]
    append = f"{MODULE}.Log.append"
    assert found == [
        (append, "self.end > 1", 1, (4, 4)),
        (append, "self.end > 1", 1, (4, 4)),
        (append, "self.flush()", 1, (5, 5)),
        (f"{append}.inner", "self.flush()", 1, (7, 7)),
        (f"{append}.inner", "self.flush()", 2, (8, 8)),
    ]
    assert len({each.key for each in mutations(MODULE, SOURCE)}) == len(found)


def test_mutation_changes_one_place() -> None:
    negated, shifted, *_, second = mutations(MODULE, SOURCE)
    original = ast.unparse(ast.parse(SOURCE))
    assert code_with(negated) == original.replace("self.end > 1", "not self.end > 1")
    assert code_with(shifted) == original.replace("self.end > 1", "self.end >= 1")
    call = " " * 12 + "self.flush()\n"
    assert code_with(second) == original.replace(
        call + " " * 8 + "return", " " * 12 + "if 0:\n    " + call + " " * 8 + "return"
    )


def code_with(mutation: Mutation) -> str:
    return ast.unparse(mutated(MODULE, SOURCE, mutation))


def test_key_lasts_as_long_as_the_function() -> None:
    keys = {each.key for each in mutations(MODULE, SOURCE)}
    moved = "LIMIT = 3\n\n" + SOURCE
    assert {each.key for each in mutations(MODULE, moved)} == keys
    other = SOURCE.replace("return inner", "return None")
    assert not {each.key for each in mutations(MODULE, other)} & keys


def test_mutation_of_changed_code_is_an_error() -> None:
    mutation = replace(mutations(MODULE, SOURCE)[0], occurrence=9)
    with pytest.raises(LookupError, match=r"quorumd\.raft\.example\.Log\.append has changed"):
        mutated(MODULE, SOURCE, mutation)
